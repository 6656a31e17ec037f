//! What an operator orders while connections are kept open.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use governor_tests::governor::retry_governor;
use governor_tests::process::Process;
use governor_tests::storm::report::{Report, monotonic_micros};
use nix::sys::signal::Signal;

use super::*;
use crate::ledger::is_denied;

const SECOND: Duration = Duration::from_secs(1);
/// One connection, asked again and again until the answer is not 200: that answer, as it was heard.
const ASK_UNTIL_REFUSED: &str = r#"
import http.client, sys, time
connection = http.client.HTTPConnection(sys.argv[1], 80, timeout=5)
connection.connect()
kept = connection.sock
for _ in range(1000):
    assert connection.sock is kept, "a new connection"
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        print(answer.status, answer.headers["x-retry-governor"], answer.headers["connection"])
        break
    print("ok", flush=True)
    time.sleep(0.02)
"#;

/// `events --follow --json` from now on.
fn follow(node: &Node<'_>) -> Process {
    let command = node.run_command();
    let mut arguments = command.get_args();
    arguments.find(|it| *it == OsStr::new("--socket")).unwrap();
    let socket = PathBuf::from(arguments.next().unwrap());
    let mut follow = retry_governor(["events", "--follow", "--json", "--destination", "shop"]);
    follow.arg("--socket").arg(socket);
    let process = Process::start(follow, &node.place());
    // It listens before anything of note happens.
    thread::sleep(Duration::from_millis(500));
    process
}

fn told(events: Process) -> Vec<Value> {
    events.signal(Signal::SIGTERM);
    let finished = events.finish(LIMIT);
    let lines = finished.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[track_caller]
fn tells(events: &[Value], kind: &str, reason: Option<&str>, words: &str) {
    let fits = |event: &&Value| {
        event["kind"] == kind
            && event["reason"].as_str() == reason
            && event["message"]
                .as_str()
                .is_some_and(|text| text.contains(words))
    };
    assert!(
        events.iter().any(|event| fits(&event)),
        "{kind} {words}: {events:#?}"
    );
}

/// What a storm did between two moments, and how much of it was refused.
fn between(report: &Report, from: u64, to: u64) -> (Report, usize) {
    let part = report.within(from, Duration::from_micros(to - from));
    let denied = part.tries.iter().filter(|each| is_denied(each)).count();
    (part, denied)
}

#[test]
fn retries_that_are_off_are_refused_on_kept_connections_and_first_tries_are_not() {
    let cluster = Cluster::new();
    let pods = [cluster.pod(), cluster.pod()];
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", ORDERS));
    let _daemon = node.start_daemon();
    let events = follow(&node);
    let loads = Family::ALL.map(|it| storm(it.service(), 20, "400ms", Duration::from_secs(14)));
    let storms = [pods[0].storm(&loads[0]), pods[1].storm(&loads[1])];
    thread::sleep(3 * SECOND);
    cluster.server.set(failing(40));
    thread::sleep(3 * SECOND);
    let off = monotonic_micros();
    node.ctl(["retries", "off", "--destination", "shop", "--for", "5m"])
        .expect_success();
    thread::sleep(4 * SECOND);
    let shown = node.ctl(["status"]).expect_success().stdout;
    let on = monotonic_micros();
    node.ctl(["retries", "on"]).expect_success();
    thread::sleep(SECOND);
    let back = monotonic_micros();

    let mut all = Truth::default();
    for storm in storms {
        let report = storm.finish(LIMIT);
        let (before, denied) = between(&report, 0, off);
        assert_eq!(denied, 0, "before the order");
        assert!(before.tries.iter().any(|each| each.attempt > 1));
        let (during, denied) = between(&report, off + 1_000_000, on);
        let admitted =
            |each: &&governor_tests::storm::report::Try| each.attempt > 1 && !is_denied(each);
        let admitted = during.tries.iter().filter(admitted).count();
        assert_eq!(admitted, 0, "retries that passed");
        assert!(denied > 20, "{denied}");
        assert!(
            during
                .first_tries()
                .tries
                .iter()
                .all(|each| !is_denied(each)),
            "first tries"
        );
        let slowest = during
            .tries
            .iter()
            .filter(|it| is_denied(it))
            .map(|it| it.micros)
            .max();
        println!("{denied} refused, the slowest in {slowest:?} µs");
        let (after, denied) = between(&report, back, u64::MAX / 2);
        assert_eq!(denied, 0, "after the order");
        assert!(after.tries.iter().any(|each| each.attempt > 1));
        all = all.and(Truth::of(&report));
    }
    let status = node.status();
    let shop = destination_of(&status, "shop");
    assert_eq!(Truth::told(shop), all, "{shop}");
    assert_eq!(number(&shop["denied"]["shed"]), all.denied);
    assert_eq!(shop["deniedFirstTries"], 0);
    assert!(shown.contains("ORDERED: 0 % of retries"), "{shown}");
    let events = told(events);
    tells(&events, "Order", None, "retries");
    tells(
        &events,
        "Denied",
        Some("shed"),
        "shop: refused, an operator ordered it",
    );
}

#[test]
fn half_of_the_requests_are_shed_until_the_time_is_over() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", ORDERS));
    let _daemon = node.start_daemon();
    let load = storm(Family::V4.service(), 20, "100ms", Duration::from_secs(8))
        .replace("--tries 4", "--tries 1");
    let storm = pod.storm(&load);
    thread::sleep(2 * SECOND);
    let from = monotonic_micros();
    node.ctl(["shed", "50", "--destination", "shop", "--for", "4s"])
        .expect_success();
    let ordered = monotonic_micros();
    let shown = node.ctl(["status"]).expect_success().stdout;
    let report = storm.finish(LIMIT);
    assert_eq!(between(&report, 0, from).1, 0);
    let (part, denied) = between(&report, ordered, from + 4_000_000);
    let share = denied as f64 / part.tries.len() as f64;
    println!("{denied} of {} refused", part.tries.len());
    assert!(
        (0.4..0.6).contains(&share),
        "{denied} of {}",
        part.tries.len()
    );
    let on_connections = part
        .tries
        .iter()
        .filter(|it| it.status == Some(503))
        .count();
    assert!(
        on_connections * 4 > denied,
        "{on_connections} of {denied} by a 503"
    );
    assert_eq!(between(&report, ordered + 4_000_000, u64::MAX / 2).1, 0);
    let truth = Truth::of(&report);
    assert_eq!(Truth::told(destination_of(&node.status(), "shop")), truth);
    assert!(
        shown.contains("50 % of attempts to destination shop are shed until"),
        "{shown}"
    );
}

#[test]
fn an_order_is_answered_503_on_a_kept_connection_and_the_answer_says_why() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", ORDERS));
    let _daemon = node.start_daemon();
    let events = follow(&node);
    let orders = [
        (
            "breaker open shop --for 1m",
            "breaker auto shop",
            "503 breaker close",
        ),
        (
            "shed 100 --destination shop --for 1m",
            "shed off",
            "503 shed close",
        ),
    ];
    for (family, (order, end, answer)) in Family::ALL
        .into_iter()
        .flat_map(|it| orders.map(|order| (it, order)))
    {
        let mut ask = Command::new("python3");
        ask.args(["-c", ASK_UNTIL_REFUSED, &family.service().ip().to_string()]);
        let before = cluster.server.log().arrivals.len();
        let asking = pod.start(ask);
        eventually("it is answered", || {
            cluster.server.log().arrivals.len() > before + 5
        });
        // One denial a second and endpoint is told: that of the order before is another.
        thread::sleep(SECOND);
        node.ctl(order.split(' ')).expect_success();
        let heard = asking.finish(LIMIT).expect_success().stdout;
        assert_eq!(heard.lines().last(), Some(answer), "{heard}");
        let shown = node.ctl(["status", "shop"]).expect_success().stdout;
        assert!(shown.contains("ORDERED: "), "{shown}");
        node.ctl(end.split(' ')).expect_success();
        assert_eq!(pod.caller(family).call().status, None);
    }
    let events = told(events);
    tells(
        &events,
        "Denied",
        Some("breaker"),
        "an operator holds its breaker open",
    );
    tells(&events, "Denied", Some("shed"), "an operator ordered it");
    tells(&events, "Order", None, "held open");
}

/// By the address of the service too, where no policy gives it a name.
#[test]
fn a_breaker_is_held_open_by_the_address_that_callers_use() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    let unnamed = format!(
        "{{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {{name: all}}, spec: {{mode: Enforce, {ORDERS}}}}}"
    );
    node.write_policy("all.yaml", &unnamed);
    let _daemon = node.start_daemon();
    for family in Family::ALL {
        let mut caller = pod.caller(family);
        caller.open("kept");
        assert_eq!(caller.exchange("kept").status, None);
        let service = family.service().to_string();
        node.ctl(["breaker", "open", &service, "--for", "1m"])
            .expect_success();
        assert_eq!(caller.exchange("kept").status, Some(503));
        node.ctl(["breaker", "auto", &service]).expect_success();
        caller.open("kept");
        assert_eq!(caller.exchange("kept").status, None);
    }
}
