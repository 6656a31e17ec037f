//! A destination that swallows SYNs: callers hang until their own patience ends, each of them, again
//! and again. With the governor they are told at once, and one at a time looks whether it is back.

use std::thread;
use std::time::{Duration, Instant};

use governor_tests::governed::{self, Governed, denied, failures};
use governor_tests::lab::Lab;
use governor_tests::server::Behaviour;
use governor_tests::storm::report::{Outcome, Report, Try, monotonic_micros};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(60);
/// Patience with a connect: the commonest of all.
const PATIENCE: Duration = Duration::from_secs(1);
/// `openDuration.base` less its jitter.
const SHORTEST_OPEN: Duration = Duration::from_millis(500);
/// Silence of the default policy, and the patience with the first connects that met it.
const OPENS_WITHIN: Duration = Duration::from_millis(3_500);
const DARK: Duration = Duration::from_secs(10);

/// What 50 connects a second saw, and what the network saw of them.
struct Dark {
    governed: Governed,
    /// When the hole was dug.
    dug: u64,
    /// SYNs from when the breaker must be open until the hole was closed.
    syns: u64,
    /// When the hole was closed.
    closed: u64,
}

/// Healthy, then a blackhole for [`DARK`], then healthy again.
fn fall_silent() -> Dark {
    let lab = Lab::new();
    let server = lab.line_server(PORT, Behaviour::Answer);
    let load = format!(
        "loop 127.0.0.1:{PORT} --rate 50 --threads 100 --for 22s --connect-timeout {}ms",
        PATIENCE.as_millis()
    );
    thread::scope(|scope| {
        let storm = scope.spawn(|| governed::storm(&lab, &[], &load, LIMIT));
        let deadline = Instant::now() + LIMIT;
        while server.counts().connects.count() < 100 {
            assert!(Instant::now() < deadline, "no health");
            thread::sleep(Duration::from_millis(10));
        }
        let counter = lab.count_syns(PORT);
        let hole = lab.blackhole(PORT);
        let dug = monotonic_micros();
        thread::sleep(OPENS_WITHIN + PATIENCE);
        let before = counter.count();
        thread::sleep(DARK - OPENS_WITHIN - PATIENCE);
        let syns = counter.count() - before;
        drop(hole);
        let closed = monotonic_micros();
        Dark {
            governed: storm.join().expect("the load ended"),
            dug,
            syns,
            closed,
        }
    })
}

/// Tries that reached the network after the breaker had opened: they were not told at once.
fn probes(report: &Report) -> Vec<&Try> {
    let probe = |each: &&Try| each.outcome == Outcome::ConnectTimeout;
    report.tries.iter().filter(probe).collect()
}

#[test]
fn a_blackholed_destination_costs_one_probe_per_period_and_callers_fail_fast() {
    let dark = fall_silent();
    let report = &dark.governed.report;
    let open = dark.dug + OPENS_WITHIN.as_micros() as u64;
    let length = Duration::from_micros(dark.closed - open);
    let while_open = report.within(open, length);

    // The breaker opened: all but the probes are told at once.
    let probes = probes(&while_open);
    let told = while_open.with(Outcome::Refused);
    println!(
        "{} probes, {} told at once, p99 {:?}",
        probes.len(),
        told.tries.len(),
        told.latency(99.0)
    );
    assert_eq!(told.tries.len() + probes.len(), while_open.tries.len());
    assert!(told.tries.len() > 250, "{} were told", told.tries.len());
    assert!(told.latency(99.0) < Duration::from_millis(10));
    let destination = dark.governed.executed.destination("127.0.0.1:8080");
    assert!(denied(destination) >= told.tries.len() as u64);
    // Each connect whose caller lost patience was seen as what it is.
    let gave_up = report.count(Outcome::ConnectTimeout);
    assert_eq!(destination["failures"]["timeout"], gave_up, "{destination}");

    // One probe at a time, and one per open period, counted from when it was sent.
    for pair in probes.windows(2) {
        let gap = Duration::from_micros(pair[1].t - pair[0].t);
        assert!(
            gap + Duration::from_millis(2) >= SHORTEST_OPEN.max(PATIENCE),
            "{pair:?}"
        );
    }
    let periods = length.as_millis() / SHORTEST_OPEN.max(PATIENCE).as_millis() + 1;
    assert!(probes.len() as u128 <= periods, "{} probes", probes.len());
    assert!(!probes.is_empty());
    // Each may be sent twice by TCP itself before its caller's patience of 1 s ends.
    let most = 2 * (probes.len() as u64 + 1);
    println!("{} SYNs", dark.syns);
    assert!(
        (1..=most).contains(&dark.syns),
        "{} SYNs, {} probes",
        dark.syns,
        probes.len()
    );

    // And the end of it is noticed.
    let back = report.within(dark.closed + 8_500_000, LIMIT);
    assert!(back.tries.len() > 50, "{}", back.tries.len());
    assert_eq!(back.count(Outcome::Ok), back.tries.len());
}

#[test]
fn without_the_governor_every_caller_hangs() {
    let lab = Lab::new();
    let _hole = lab.blackhole(PORT);
    let load = format!("loop 127.0.0.1:{PORT} --rate 50 --threads 100 --for 2s");
    let report = lab.storm(&load, LIMIT);
    assert_eq!(report.count(Outcome::ConnectTimeout), 100);
    assert!(report.latency(1.0) >= PATIENCE);
}

/// Three sequential connects into the hole, each with this patience: how many count as failures.
fn timeouts_with_a_patience_of(patience: Duration) -> u64 {
    let lab = Lab::new();
    let _hole = lab.blackhole(PORT);
    let load = format!(
        "tries 127.0.0.1:{PORT} --tries 3 --connect-timeout {}ms",
        patience.as_millis()
    );
    let governed = governed::storm(&lab, &[], &load, LIMIT);
    assert_eq!(governed.report.count(Outcome::ConnectTimeout), 3);
    failures(governed.executed.destination("127.0.0.1:8080"))
}

#[test]
fn a_second_of_patience_counts_also_where_the_callers_clock_runs_a_little_early() {
    assert_eq!(timeouts_with_a_patience_of(Duration::from_millis(950)), 3);
}

#[test]
fn a_caller_that_leaves_early_has_reasons_of_its_own_and_is_no_evidence() {
    assert_eq!(timeouts_with_a_patience_of(Duration::from_millis(300)), 0);
}
