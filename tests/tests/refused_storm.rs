//! A port refuses and everybody tries again: little of the storm reaches the port, the rest is told
//! at once, and when the port is back so is the traffic.

use std::thread;
use std::time::{Duration, Instant};

use governor_tests::governed::{self, Governed, PolicyFile, denied};
use governor_tests::lab::Lab;
use governor_tests::nft::PortCounter;
use governor_tests::server::{Behaviour, Server};
use governor_tests::storm::report::{Outcome, monotonic_micros};
use nix::errno::Errno;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(60);
/// `openDuration.base` less its jitter: no open period of the default policy is shorter.
const SHORTEST_OPEN: Duration = Duration::from_millis(500);

/// 200 short-lived processes, up to four tries each, 50 ms apart.
const FLEET: &str =
    "fleet --processes 200 --rate 200 -- tries 127.0.0.1:8080 --tries 4 --delay 50ms";

/// Probes that open periods allow in `length`.
fn probes(length: Duration) -> u64 {
    (length.as_millis() / SHORTEST_OPEN.as_millis()) as u64 + 1
}

/// From the first try of a load to the end of its last.
fn length(governed: &Governed) -> Duration {
    let tries = &governed.report.tries;
    let began = tries.iter().map(|each| each.t).min().unwrap_or(0);
    let ended = tries.iter().map(|each| each.t + each.micros).max();
    Duration::from_micros(ended.unwrap_or(0) - began)
}

#[test]
fn without_the_governor_all_800_connects_of_a_storm_reach_the_refusing_port() {
    let lab = Lab::new();
    let syns = lab.count_syns(PORT);
    let report = lab.storm(FLEET, LIMIT);
    assert_eq!(report.count(Outcome::Refused), 800);
    assert_eq!(syns.count(), 800);
}

#[test]
fn with_it_at_most_20_of_the_800_and_one_probe_per_open_period_do() {
    let lab = Lab::new();
    let syns = lab.count_syns(PORT);
    let governed = governed::storm(&lab, &[], FLEET, LIMIT);
    let reached = syns.count();
    let probes = probes(length(&governed));
    println!("{reached} reached the port; open periods allow {probes} probes");
    assert!(
        reached <= 20 + probes,
        "{reached} of 800 reached the port, more than 20 and {probes} probes"
    );
    // Nothing is lost: whoever did not reach the port was denied, as if refused.
    assert_eq!(governed.report.count(Outcome::Refused), 800);
    let destination = governed.executed.destination("127.0.0.1:8080");
    assert_eq!(destination["attempts"], reached);
    assert_eq!(denied(destination), 800 - reached);
}

#[test]
fn after_30_s_of_health_at_most_250_reach_it_in_the_first_5_s() {
    const HEALTHY: usize = 3000;
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Answer);
    let syns = lab.count_syns(PORT);
    // 100 tries a second before and after: first without need to repeat one, then four of each operation.
    let script = format!(
        "storm-client fleet --processes {HEALTHY} --rate 100 -- tries 127.0.0.1:{PORT}; \
         storm-client fleet --processes 150 --rate 25 -- tries 127.0.0.1:{PORT} --tries 4 --delay 50ms"
    );
    let (reached, governed) = thread::scope(|scope| {
        let storm = scope.spawn(|| governed::script(&lab, &[], &script, LIMIT));
        wait_for("30 s of health", LIMIT, || {
            server.counts().connects.count() >= HEALTHY
        });
        server.set(Behaviour::Refuse);
        let reached = count_for(&syns, Duration::from_secs(5));
        (reached, storm.join().expect("the load ended"))
    });
    println!("{reached} reached the port in 5 s");
    assert!(reached <= 250, "{reached} of 500 reached the port in 5 s");
    let tripped = governed.report.tries.len() as u64 - syns.count();
    let destination = governed.executed.destination("127.0.0.1:8080");
    assert_eq!(denied(destination), tripped);
    assert!(tripped > 200, "only {tripped} of 600 tries were denied");
}

/// What a counter counts in `length` from now on.
fn count_for(syns: &PortCounter<'_>, length: Duration) -> u64 {
    let before = syns.count();
    thread::sleep(length);
    syns.count() - before
}

#[track_caller]
fn wait_for(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_denied_connect_returns_econnrefused_within_a_millisecond() {
    // The figure is the governor's, not that of a machine that does something else meanwhile: the
    // quietest of a few measurements counts.
    let measured = (0..5).map(|_| {
        let lab = Lab::new();
        let load = format!("loop 127.0.0.1:{PORT} --rate 500 --threads 1 --count 1500");
        let governed = governed::storm(&lab, &[], &load, LIMIT);
        let denials = denied(governed.executed.destination("127.0.0.1:8080"));
        assert!(denials >= 1480, "only {denials} of 1500 were denied");
        for each in &governed.report.tries {
            assert_eq!(each.errno, Some(Errno::ECONNREFUSED as i32), "{each:?}");
        }
        let p99 = governed.report.latency(99.0);
        println!("p99 of a denied connect: {p99:?}");
        p99
    });
    let quick = |p99: &Duration| *p99 < Duration::from_millis(1);
    let slow: Vec<Duration> = measured.take_while(|p99| !quick(p99)).collect();
    assert!(slow.len() < 5, "p99 of denied connects: {slow:?}");
}

/// A load of 100 connects a second; the port is closed for `outage`. What the callers saw, and when
/// the port was open again.
fn outage(options: &[&str], outage: Duration, after: Duration) -> (Governed, u64) {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Answer);
    let healthy = Duration::from_secs(2);
    let length = (healthy + outage + after).as_millis();
    let load = format!("loop 127.0.0.1:{PORT} --rate 100 --threads 4 --for {length}ms");
    thread::scope(|scope| {
        let storm = scope.spawn(|| governed::storm(&lab, options, &load, LIMIT));
        let back = blink(&server, healthy, outage);
        (storm.join().expect("the load ended"), back)
    })
}

fn blink(server: &Server, healthy: Duration, outage: Duration) -> u64 {
    wait_for("the first connect", LIMIT, || {
        server.counts().connects.count() > 0
    });
    thread::sleep(healthy);
    server.set(Behaviour::Refuse);
    thread::sleep(outage);
    server.set(Behaviour::Answer);
    monotonic_micros()
}

/// Nobody is turned away from `whole` after the port came back until the end of the load.
#[track_caller]
fn expect_whole(governed: &Governed, back: u64, whole: Duration) {
    let destination = governed.executed.destination("127.0.0.1:8080");
    assert!(denied(destination) > 100, "the breaker did not open");
    let after = governed.report.within(back, LIMIT);
    let last = after.tries.iter().rfind(|each| each.outcome != Outcome::Ok);
    let took = last.map_or(0, |each| each.t - back);
    println!("whole {took} us after the port came back");
    let rest = governed
        .report
        .within(back + whole.as_micros() as u64, LIMIT);
    assert!(rest.tries.len() >= 100, "{} tries", rest.tries.len());
    assert_eq!(
        rest.count(Outcome::Ok),
        rest.tries.len(),
        "whole only after {took} us"
    );
}

#[test]
fn when_the_port_comes_back_traffic_is_whole_within_open_duration_and_ramp() {
    let policy = PolicyFile::enforce(
        "circuitBreaker: {openDuration: {base: 1s, max: 1s, jitterPercent: 0}, ramp: 1s}",
    );
    let (governed, back) = outage(
        &["--policy", &policy.path()],
        Duration::from_secs(5),
        Duration::from_secs(5),
    );
    // A tenth for the callers' own rhythm: a probe leaves only when one of them tries.
    expect_whole(&governed, back, Duration::from_millis(2200));
}

#[test]
fn by_default_it_is_whole_within_the_longest_open_duration_and_ramp() {
    let (governed, back) = outage(&[], Duration::from_secs(4), Duration::from_secs(10));
    expect_whole(
        &governed,
        back,
        Duration::from_millis(5_000 * 3 / 2 + 1_000),
    );
}
