//! `retry-governor exec`: one command, no daemon, no file.

use std::fs;
use std::thread;
use std::time::Duration;

use governor_tests::caller::storm_client;
use governor_tests::governed::{denied, failures};
use governor_tests::governor::{destination_of, retry_governor};
use governor_tests::place::Place;
use governor_tests::process::{self, Process};
use governor_tests::storm::report::{Outcome, Report};
use serde_json::Value;

use crate::echo::Echo;
use crate::load::{self, Ended, LIMIT, eventually};
use crate::machine;
use crate::report::{Checks, remark};

const ADDRESS: &str = "127.0.0.1:8080";
const PORT: u16 = 8080;
/// Emulated; on a real machine it is microseconds.
const AT_ONCE: Duration = Duration::from_millis(20);
const SUMMARY: &str = "/tmp/summary.json";

/// Runs the checks.
pub fn check(checks: &mut Checks) {
    checks.check(
        "without the governor every try reaches a refusing port",
        ungoverned,
    );
    checks.check(
        "exec keeps a storm away from a refusing port and counts what it let through",
        refused_storm,
    );
    checks.check("exec denies nothing to healthy traffic", healthy);
    checks.check(
        "exec refuses at once, and lets traffic back when the port comes back",
        comes_back,
    );
}

/// Runs a load under `exec`; its summary's entry of the address.
fn exec(arguments: &str) -> (Ended, Value) {
    let before = machine::syns();
    let finished = process::run(command(arguments), &Place::default(), LIMIT).expect_success();
    let ended = Ended {
        report: Report::parse(&finished.stdout).expect("a storm's lines"),
        syns: machine::syns() - before,
    };
    let summary = fs::read_to_string(SUMMARY).expect("exec writes its summary");
    let summary = serde_json::from_str(&summary).expect("JSON");
    (ended, destination_of(&summary, ADDRESS).clone())
}

fn command(arguments: &str) -> std::process::Command {
    let client = storm_client(arguments);
    let mut exec = retry_governor(["exec", "--json-summary", SUMMARY, "--"]);
    exec.arg(client.get_program()).args(client.get_args());
    exec
}

fn ungoverned() {
    let ended = load::fleet(ADDRESS, &Place::default());
    ended.all(Outcome::Refused);
    assert_eq!((ended.report.tries.len(), ended.syns), (80, 80));
}

fn refused_storm() {
    let (ended, seen) = exec(&format!(
        "fleet --processes 30 --rate 30 -- tries {ADDRESS} --tries 4 --delay 50ms"
    ));
    ended.all(Outcome::Refused);
    let Ended { report, syns } = ended;
    remark(format_args!(
        "{syns} of {} connects reached the port",
        report.tries.len()
    ));
    assert_eq!(report.tries.len(), 120);
    // The breaker's threshold, what was in flight, and its probes.
    assert!((7..=25).contains(&syns), "{syns} reached the port");
    assert_eq!(seen["attempts"], syns, "{seen}");
    assert_eq!(failures(&seen), syns, "{seen}");
    assert_eq!(denied(&seen), 120 - syns, "{seen}");
}

fn healthy() {
    let _server = Echo::start(PORT);
    let load =
        format!("keepalive {ADDRESS} --speak line --connections 50 --exchanges 10 --gap 50ms");
    let (ended, seen) = exec(&load);
    ended.all(Outcome::Ok);
    assert_eq!(ended.syns, 50);
    assert_eq!(denied(&seen), 0, "{seen}");
    assert_eq!(seen["attempts"], ended.syns, "{seen}");
}

fn comes_back() {
    let before = machine::syns();
    let load = format!("loop {ADDRESS} --speak line --rate 20 --for 10s");
    let running = Process::start(command(&load), &Place::default());
    eventually("the breaker has reason to open", LIMIT, || {
        machine::syns() >= before + 7
    });
    thread::sleep(Duration::from_secs(2));
    let _server = Echo::start(PORT);
    let finished = running.finish(LIMIT).expect_success();
    let report = Report::parse(&finished.stdout).expect("a storm's lines");
    let refused = report.with(Outcome::Refused);
    assert!(refused.latency(50.0) < AT_ONCE, "{:?}", refused.summary());
    let end = report.tries.iter().map(|each| each.t).max();
    let second = Duration::from_secs(1);
    let last = end.unwrap_or_default() - second.as_micros() as u64;
    let last = report.within(last, second);
    assert!(last.tries.len() > 10, "{:?}", report.summary());
    let well = last.count(Outcome::Ok);
    assert_eq!(well, last.tries.len(), "{:?}", report.summary());
}
