//! The retry budget is the host's: a hundred processes share one, and only who really repeats pays.
//!
//! Breaker and concurrency are off, so that every denial is the budget's. The server closes 30 % of
//! the connections without an answer and refuses none: whoever is refused was denied.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use governor_tests::governed::{self, Governed, PolicyFile, denied};
use governor_tests::lab::Lab;
use governor_tests::server::{Behaviour, Percent};
use governor_tests::storm::report::{Outcome, Report, Try, monotonic_micros};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(90);
const BUDGET_ALONE: &str = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}";
const FAILING: Behaviour = Behaviour::CloseUnanswered(Percent(30));

/// 100 processes x 1 request/s for `length`, each a sequential caller; healthy for the first `healthy`.
fn hundred_processes(policy: &str, retries: &str, healthy: Duration, length: Duration) -> Governed {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Answer);
    let policy = PolicyFile::enforce(policy);
    let load = format!(
        "fleet --processes 100 --rate 100 -- \
         loop 127.0.0.1:{PORT} --speak http --rate 1 --threads 1 --for {}ms {retries}",
        length.as_millis()
    );
    let options = ["--policy", &policy.path()];
    thread::scope(|scope| {
        let storm = scope.spawn(|| governed::storm(&lab, &options, &load, LIMIT));
        thread::sleep(healthy);
        server.set(FAILING);
        storm.join().expect("the load ended")
    })
}

/// The tries of each process, in its own order.
fn by_process(report: &Report) -> Vec<Vec<&Try>> {
    let mut processes: BTreeMap<u32, Vec<&Try>> = BTreeMap::new();
    for each in &report.tries {
        processes.entry(each.pid).or_default().push(each);
    }
    let mut processes: Vec<_> = processes.into_values().collect();
    for tries in &mut processes {
        tries.sort_by_key(|each| each.t);
    }
    processes
}

#[test]
fn callers_that_never_retry_lose_nothing() {
    let began = monotonic_micros();
    let governed = hundred_processes(
        BUDGET_ALONE,
        "",
        Duration::from_secs(4),
        Duration::from_secs(12),
    );
    let report = &governed.report;
    let failing = report.within(began + 5_000_000, LIMIT);
    let failed = failing.count(Outcome::NoAnswer) as f64 / failing.tries.len() as f64;
    assert!(
        (0.2..0.4).contains(&failed),
        "{failed} of the requests failed"
    );
    assert_eq!(report.tries.len(), 1200);
    let destination = governed.executed.destination("127.0.0.1:8080");
    assert_eq!(denied(destination), 0, "{destination}");
    assert_eq!(report.count(Outcome::Refused), 0);
    // The law did see failures: it judged, and found nobody who repeats.
    let unanswered = report.count(Outcome::NoAnswer);
    assert_eq!(destination["failures"]["noAnswer"], unanswered);
    assert_eq!(destination["retries"], 0);
}

#[test]
fn sequential_retriers_with_a_healthy_history_are_denied_at_most_once_per_failure() {
    // Nothing is left for retries: whatever is taken for one is denied.
    let policy = format!(
        "{BUDGET_ALONE}, retryConstraint: {{budget: {{percent: 0}}, minRetryRate: {{count: 0}}}}"
    );
    let governed = hundred_processes(
        &policy,
        "--tries 4 --delay 50ms",
        Duration::from_secs(6),
        Duration::from_secs(12),
    );
    let destination = governed.executed.destination("127.0.0.1:8080");
    let denials = denied(destination);
    let failures = governed.report.count(Outcome::NoAnswer);
    println!("{denials} denials for {failures} failures");
    assert_eq!(denials, governed.report.count(Outcome::Refused) as u64);
    // They have a healthy history and come back at once: they are known as retriers.
    assert!(denials * 2 > failures as u64, "{denials} of {failures}");
    for tries in by_process(&governed.report) {
        for pair in tries.windows(2) {
            // A denial follows a real failure of the same process, never another denial, and never
            // falls on the first try of an operation.
            if pair[1].outcome == Outcome::Refused {
                assert_eq!(pair[0].outcome, Outcome::NoAnswer, "{pair:?}");
                assert!(pair[1].attempt > 1, "{pair:?}");
            }
        }
    }
    assert_eq!(destination["deniedFirstTries"], 0);
    // So nobody loses more than that: every denial was answered by the next try or by bad luck.
    let operations = governed.report.first_tries().tries.len();
    let succeeded = governed.report.count(Outcome::Ok);
    assert!(
        succeeded * 100 > operations * 90,
        "{succeeded} of {operations}"
    );
}

#[test]
fn what_a_hundred_processes_retry_is_drawn_from_one_budget() {
    let policy =
        format!("{BUDGET_ALONE}, retryConstraint: {{minRetryRate: {{count: 10, interval: 10s}}}}");
    let governed = hundred_processes(
        &policy,
        "--tries 4 --delay 50ms",
        Duration::from_secs(6),
        Duration::from_secs(14),
    );
    let destination = governed.executed.destination("127.0.0.1:8080");
    let retries = destination["retries"].as_u64().unwrap();
    let successes = destination["successes"].as_u64().unwrap();
    let denials = denied(destination);
    println!("{retries} retries admitted, {denials} denied, {successes} successes");
    assert!(denials > 0, "nothing was left to deny");
    // 14 s hold two windows of 10 s, each with a reserve of 10.
    assert!(
        retries * 10 <= successes + 2 * 10 * 10,
        "{retries} for {successes}"
    );
    assert!(retries > 0);
}
