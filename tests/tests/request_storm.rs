//! A hundred callers with keepalive connections and retries, through one storm: what reaches the
//! server stays near what was offered first. And callers that poll and race are never denied.

use std::thread;
use std::time::{Duration, Instant};

use governor_tests::governed::{self, PolicyFile, denied};
use governor_tests::governor::Executed;
use governor_tests::lab::Lab;
use governor_tests::server::Percent;
use governor_tests::server::faults::{Fault, Plan};
use governor_tests::server::faulty::FaultyServer;
use governor_tests::server::log::Log;
use governor_tests::storm::report::{Outcome, Report, monotonic_micros};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// First tries in a second: a caller each.
const CALLERS: usize = 100;
const HEALTHY: Duration = Duration::from_secs(6);
const FAILING: Duration = Duration::from_secs(7);
/// As long as the longest open time of a breaker, its ramp, and 2 s more to look at.
const AFTER: Duration = Duration::from_millis(5_000 * 3 / 2 + 1_000 + 2_000);

/// The policy's reserve: `minRetryRate`, which a tenth of a healthy rate of 100/s is as well.
const RESERVE: f64 = 10.0;
/// `budget.interval`, in seconds.
const INTERVAL: usize = 10;

const ALL_RULES: &str = "";
const BUDGET_ALONE: &str = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}";

/// Four tries, each of them quick to come again.
fn one_process() -> String {
    format!("requests 127.0.0.1:{PORT} --callers {CALLERS} {}", caller())
}

fn a_process_each() -> String {
    format!(
        "fleet --processes {CALLERS} --rate {CALLERS} -- requests 127.0.0.1:{PORT} {}",
        caller()
    )
}

fn caller() -> String {
    let length = (HEALTHY + FAILING + AFTER).as_secs();
    format!("--every 1s --tries 4 --delay 50ms --backoff 2 --for {length}s")
}

/// What was offered and what came, second by second.
struct Passed {
    offered: Vec<usize>,
    arrived: Vec<usize>,
    /// Operations of the last whole second, and those of them that ended well.
    last: (usize, usize),
}

impl Passed {
    fn new(report: &Report, log: &Log, start: (Instant, u64)) -> Self {
        let (instant, micros) = start;
        let length = HEALTHY + FAILING + AFTER;
        let end = micros + length.as_micros() as u64;
        let mut offered = Vec::new();
        for each in &report.within(micros, length).first_tries().tries {
            let slot = ((each.t - micros) / SECOND.as_micros() as u64) as usize;
            if offered.len() <= slot {
                offered.resize(slot + 1, 0);
            }
            offered[slot] += 1;
        }
        let last = report.within(end - 2_000_000, SECOND);
        Self {
            offered,
            arrived: log.by_slot(instant, SECOND),
            last: (last.first_tries().tries.len(), last.count(Outcome::Ok)),
        }
    }

    /// The worst second, and the worst interval: what arrived beyond the reserve, relative to what
    /// was offered.
    fn worst(&self) -> (f64, f64) {
        let ratio = |length: usize| {
            let ratio = |(offered, arrived): (&[usize], &[usize])| {
                let offered: usize = offered.iter().sum();
                let arrived: usize = arrived.iter().sum();
                (arrived as f64 - RESERVE * length as f64) / offered as f64
            };
            let windows = self
                .offered
                .windows(length)
                .zip(self.arrived.windows(length));
            windows.map(ratio).fold(0.0, f64::max)
        };
        (ratio(1), ratio(INTERVAL))
    }
}

/// The tenths of the budget's interval, each with its own cap, are whole seconds of this clock. A
/// second that lies across two of them may hold the retries of both: 1.18 was measured.
fn next_whole_second() -> (Instant, u64) {
    let micros = SECOND.as_micros() as u64;
    let rest = micros - monotonic_micros() % micros;
    thread::sleep(Duration::from_micros(rest));
    let now = monotonic_micros();
    let late = Duration::from_micros(now % micros);
    (Instant::now() - late, now - now % micros)
}

fn through_a_storm(lab: &Lab, fault: Fault, load: impl FnOnce(&Lab) -> Report + Send) -> Passed {
    let server = FaultyServer::start(lab.netns(), PORT, Plan::healthy());
    thread::scope(|scope| {
        let running = scope.spawn(|| load(lab));
        let deadline = Instant::now() + LIMIT;
        while server.log().arrivals.is_empty() {
            assert!(Instant::now() < deadline, "nobody came");
            thread::sleep(Duration::from_millis(5));
        }
        let start = next_whole_second();
        thread::sleep(start.0 + HEALTHY - Instant::now());
        server.set(Plan::healthy().scattered(Percent(100), fault));
        thread::sleep(FAILING);
        server.set(Plan::healthy());
        let report = running.join().expect("the load ended");
        Passed::new(&report, &server.log(), start)
    })
}

/// One storm without a governor, one under each policy, side by side.
#[track_caller]
fn a_storm_is_held_to_what_was_offered(load: &str) {
    let governed = |spec: &'static str| {
        let load = load.to_owned();
        move |fault: Fault| {
            let lab = Lab::new();
            let policy = PolicyFile::enforce(spec);
            through_a_storm(&lab, fault, |lab| {
                governed::storm(lab, &["--policy", &policy.path()], &load, LIMIT).report
            })
        }
    };
    let ungoverned = |fault: Fault| {
        let lab = Lab::new();
        through_a_storm(&lab, fault, |lab| lab.storm(load, LIMIT))
    };
    let storm = Fault::Status(503);
    let (free, budget, all) = thread::scope(|scope| {
        let free = scope.spawn(|| ungoverned(storm));
        let budget = scope.spawn(|| governed(BUDGET_ALONE)(storm));
        let all = scope.spawn(|| governed(ALL_RULES)(storm));
        (free.join(), budget.join(), all.join())
    });
    let (second, _) = free.expect("the storm ended").worst();
    assert!(second > 3.0, "the storm is none: {second:.2}");
    for (rules, passed) in [("budget alone", budget), ("all rules", all)] {
        let passed = passed.expect("the storm ended");
        let (second, interval) = passed.worst();
        println!("{rules}: worst second {second:.2}, worst interval {interval:.2}");
        println!("offered {:?}\narrived {:?}", passed.offered, passed.arrived);
        assert!(second <= 1.15, "{rules}: {second:.2} in a second");
        assert!(interval <= 1.10, "{rules}: {interval:.2} in an interval");
        let (offered, well) = passed.last;
        assert!(
            well * 100 >= offered * 95,
            "{rules}: {well} of {offered} at the end"
        );
    }
}

#[test]
fn a_hundred_callers_of_one_process_are_held_to_what_they_offered() {
    a_storm_is_held_to_what_was_offered(&one_process());
}

#[test]
fn a_hundred_processes_are_held_to_what_they_offered() {
    a_storm_is_held_to_what_was_offered(&a_process_each());
}

/// `status` until the test is content, then 200: how it is asked, and what for.
fn polls_until_it_is_well(status: u16, method: &str) -> Executed {
    const POLLS: usize = 150;
    let lab = Lab::new();
    let server = FaultyServer::start(
        lab.netns(),
        PORT,
        Plan::healthy().scattered(Percent(100), Fault::Status(status)),
    );
    let load = format!(
        "requests 127.0.0.1:{PORT} --method {method} --path /thing --every 1s --for 1s --tries 1000 --delay 20ms"
    );
    let governed = thread::scope(|scope| {
        let running = scope.spawn(|| governed::storm(&lab, &[], &load, LIMIT));
        let deadline = Instant::now() + LIMIT;
        while server.log().arrivals.len() < POLLS && !running.is_finished() {
            assert!(Instant::now() < deadline, "too few polls");
            thread::sleep(Duration::from_millis(5));
        }
        server.set(Plan::healthy());
        running.join().expect("the poller ended")
    });
    let tries = &governed.report.tries;
    assert_eq!(governed.report.count(Outcome::Ok), 1, "{status}");
    assert!(tries.len() > POLLS, "{status}: {} tries", tries.len());
    governed.executed
}

#[track_caller]
fn is_never_denied(status: u16, method: &str) {
    let executed = polls_until_it_is_well(status, method);
    let destination = executed.destination("127.0.0.1:8080");
    println!("{destination}");
    assert_eq!(denied(destination), 0, "{method} until {status} is over");
}

#[test]
fn a_poller_on_404_until_created_is_never_denied() {
    is_never_denied(404, "GET");
}

#[test]
fn a_race_of_etags_on_412_is_never_denied() {
    is_never_denied(412, "PUT");
}

#[test]
fn a_lock_loop_on_409_or_423_is_never_denied() {
    is_never_denied(409, "POST");
    is_never_denied(423, "POST");
}
