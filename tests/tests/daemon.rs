//! The daemon on a node of its own: policies, orders, names, restarts, and
//! clients that mean it no good.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::caller::Caller;
use governor_tests::governor::{destination_of, retry_governor};
use governor_tests::lab::Lab;
use governor_tests::node::Node;
use governor_tests::place::Place;
use governor_tests::process::{self, Finished, Process};
use governor_tests::server::Behaviour;
use governor_tests::storm::exchange::Speech;
use governor_tests::storm::report::Outcome;
use serde_json::Value;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(30);
/// How long the daemon may take to notice a change.
const NOTICED: Duration = Duration::from_secs(10);

const ENFORCE: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: auth}
spec:
  mode: Enforce
  destinations: [{name: auth, cidrs: [127.0.0.1/32], ports: [8080]}]
";

/// Forty tries of four processes, ten each, against the port.
fn storm(lab: &Lab) -> usize {
    let storm =
        format!("fleet --processes 4 --rate 100 -- tries 127.0.0.1:{PORT} --tries 10 --delay 10ms");
    lab.storm(&storm, LIMIT).tries.len()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + NOTICED;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {NOTICED:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn code(finished: &Finished) -> Option<i32> {
    finished.status.code()
}

/// The one line of an error.
#[track_caller]
fn error(finished: &Finished) -> &str {
    let line = finished.stderr.trim_end();
    assert!(
        line.starts_with("error: ") && !line.contains('\n'),
        "not one line: {line}"
    );
    line
}

fn argument(node: &Node<'_>, name: &str) -> PathBuf {
    let command = node.run_command();
    let mut arguments = command.get_args();
    arguments
        .find(|argument| *argument == OsStr::new(name))
        .expect("the argument is given");
    PathBuf::from(arguments.next().expect("it has a value"))
}

/// One request on the control socket, as a foreign client makes it.
fn request(node: &Node<'_>, head: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(argument(node, "--socket")).expect("a control socket");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let length = body.len();
    // The daemon may refuse before it has read all.
    let _ = write!(
        stream,
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

fn events(node: &Node<'_>) -> Vec<Value> {
    let events = node.ctl(["events", "--json"]).expect_success();
    events
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

fn heard(node: &Node<'_>, kind: &str, words: &str) -> bool {
    let told = |event: &Value| {
        event["kind"] == kind
            && event["message"]
                .as_str()
                .is_some_and(|text| text.contains(words))
    };
    events(node).iter().any(told)
}

#[test]
fn without_a_policy_everything_is_seen_and_nothing_is_denied() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    let syns = lab.count_syns(PORT);
    let tries = storm(&lab);
    assert_eq!(tries, 40);
    assert_eq!(syns.count(), 40);
    let status = node.status();
    let seen = destination_of(&status, &format!("127.0.0.1:{PORT}"));
    assert_eq!(seen["attempts"], 40, "{seen}");
    assert_eq!(seen["failures"]["refused"], 40, "{seen}");
    assert_eq!(seen["mode"], "Disabled");
    assert!(
        seen["denied"]
            .as_object()
            .expect("counts")
            .values()
            .all(|count| *count == 0)
    );
    daemon.stop().expect_success();
}

#[test]
fn an_enforced_policy_denies_and_says_so_in_status_events_and_metrics() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let syns = lab.count_syns(PORT);
    let tries = storm(&lab);
    assert!(
        syns.count() < 30,
        "{} of {tries} tries reached the port",
        syns.count()
    );

    let status = node.status();
    let auth = destination_of(&status, "auth");
    assert!(auth["denied"]["breaker"].as_u64() > Some(0), "{auth}");
    assert_eq!(auth["policy"], "auth");
    assert_eq!(auth["endpoints"][0]["breaker"]["state"], "Open", "{auth}");

    eventually("the breaker's move is told", || {
        heard(&node, "Breaker", "breaker open after")
    });
    assert!(heard(&node, "Denied", "auth: refused"));
    let only_others = node
        .ctl(["events", "--json", "--destination", "nobody"])
        .expect_success();
    assert!(
        !only_others.stdout.contains("\"Denied\""),
        "{}",
        only_others.stdout
    );

    let (code, metrics) = node.get("/metrics");
    assert_eq!(code, 200);
    for line in [
        "retry_governor_breaker_state{destination=\"auth\",workload=\"/\"} 2",
        "retry_governor_breaker_transitions_total{destination=\"auth\",from=\"closed\",to=\"open\"} 1",
        "retry_governor_hook_attached{hook=\"connect4\"} 1",
    ] {
        assert!(
            metrics.lines().any(|written| written == line),
            "{line} is not in\n{metrics}"
        );
    }
    assert!(metrics.contains("retry_governor_denied_total{destination=\"auth\",workload=\"/\",reason=\"breaker\",mode=\"enforce\"}"));
}

#[test]
fn a_policy_file_is_in_force_without_a_restart_and_gone_with_its_file() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    node.write_policy("auth.yaml", ENFORCE);
    let in_force = |wanted: &str| request(&node, "GET /v1/policy", "").1.contains(wanted);
    eventually("the policy is in force", || in_force("\"Enforce\""));
    node.remove_policy("auth.yaml");
    eventually("it is gone", || !in_force("Enforce"));
    assert!(heard(&node, "Policy", "no policy: everything is observed"));
}

#[test]
fn an_invalid_file_is_refused_whole_and_what_was_in_force_stays() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let daemon = node.start_daemon();
    // Good news in one file, a mistake in the other: neither counts.
    node.write_policy("auth.yaml", &ENFORCE.replace("Enforce", "Audit"));
    node.write_policy("broken.yaml", "kind: RetryPolicy\nnonsense: 1\n");
    daemon.reload();
    eventually("the mistake is told", || {
        heard(&node, "Policy", "broken.yaml")
    });
    assert!(
        request(&node, "GET /v1/policy", "")
            .1
            .contains("\"Enforce\"")
    );
    assert_eq!(node.get("/readyz").0, 200);
    let (_, metrics) = node.get("/metrics");
    assert!(
        metrics.contains("retry_governor_policy_reloads_total{result=\"refused\"}"),
        "{metrics}"
    );
    node.remove_policy("broken.yaml");
    eventually("the good news counts", || {
        request(&node, "GET /v1/policy", "").1.contains("\"Audit\"")
    });
}

#[test]
fn a_wrong_policy_keeps_the_daemon_from_starting_with_the_exit_code_of_wrong_policies() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("broken.yaml", "kind: Nonsense\n");
    let ended = process::run(node.run_command(), &node.place(), LIMIT);
    assert_eq!(code(&ended), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("broken.yaml:1:"), "{}", ended.stderr);
}

#[test]
fn hosts_are_resolved_and_their_addresses_governed() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy(
        "auth.yaml",
        &ENFORCE.replace("cidrs: [127.0.0.1/32]", "hosts: [localhost]"),
    );
    let _daemon = node.start_daemon();
    storm(&lab);
    let status = node.status();
    assert_eq!(destination_of(&status, "auth")["mode"], "Enforce");
}

#[test]
fn workloads_are_named_and_selected_by_their_cgroup_also_new_ones() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy(
        "auth.yaml",
        &ENFORCE.replace(
            "  mode: Enforce",
            "  mode: Enforce\n  workloads: [{cgroup: \"/legacy-*.service\"}]",
        ),
    );
    let _daemon = node.start_daemon();
    // Both are made after the daemon has looked; each makes a leaf of its own.
    let legacy = lab.cgroup().child("legacy-a.service");
    let leaf = legacy.child("leaf");
    let other = lab.cgroup().child("other.service");
    thread::sleep(Duration::from_millis(200));
    for place in [
        Place::new(lab.netns(), &leaf),
        Place::new(lab.netns(), &other),
    ] {
        let mut caller = Caller::start(lab.address(PORT), Speech::Line, &place);
        for _ in 0..15 {
            assert_eq!(caller.call().outcome, Outcome::Refused);
        }
    }
    let status = node.status();
    let auth = destination_of(&status, "auth");
    assert_eq!(
        auth["workloads"][0]["workload"], "/legacy-a.service",
        "{auth}"
    );
    assert!(auth["denied"]["breaker"].as_u64() > Some(0), "{auth}");
    let seen = destination_of(&status, &format!("127.0.0.1:{PORT}"));
    assert_eq!(
        (&seen["workloads"][0]["workload"], &seen["attempts"]),
        (&Value::from("/other.service"), &Value::from(15))
    );
}

#[test]
fn a_killed_daemon_leaves_the_programs_judging_and_its_successor_takes_over() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy(
        "auth.yaml",
        &ENFORCE.replace(
            "spec:",
            "spec:\n  circuitBreaker: {openDuration: {base: 5s, max: 5s}}",
        ),
    );
    let daemon = node.start_daemon();
    storm(&lab);
    daemon.crash();
    let syns = lab.count_syns(PORT);
    let tries = storm(&lab);
    assert!(
        syns.count() <= 2,
        "{} of {tries} tries passed without a daemon",
        syns.count()
    );

    let daemon = node.start_daemon();
    let status = node.status();
    let auth = destination_of(&status, "auth");
    assert_ne!(auth["endpoints"][0]["breaker"]["state"], "Closed", "{auth}");
    assert!(
        auth["offered"]["firstTries"].as_u64() > Some(40),
        "ledgers are taken over: {auth}"
    );
    let (_, metrics) = node.get("/metrics");
    assert!(metrics.contains("retry_governor_hook_attached{hook=\"connect4\"} 1"));
    daemon.stop().expect_success();
}

#[test]
fn a_daemon_that_is_told_to_end_leaves_nothing() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let daemon = node.start_daemon();
    storm(&lab);
    let ended = daemon.stop().expect_success();
    assert!(
        ended.stderr.contains("nothing is attached any more"),
        "{}",
        ended.stderr
    );
    assert!(!argument(&node, "--socket").exists());
    let syns = lab.count_syns(PORT);
    assert_eq!(storm(&lab), 40);
    assert_eq!(syns.count(), 40);
    let nothing = process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    assert!(
        nothing.stdout.contains("nothing of ours"),
        "{}",
        nothing.stdout
    );
}

#[test]
fn programs_that_are_kept_go_on_until_they_are_detached() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let mut command = node.run_command();
    command.args(["--on-exit", "keep"]);
    let daemon = Process::start(command, &node.place());
    eventually("it is up", || {
        argument(&node, "--socket").exists() && code(&node.ctl(["status"])) == Some(0)
    });
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    daemon.finish(LIMIT).expect_success();
    storm(&lab);
    let syns = lab.count_syns(PORT);
    storm(&lab);
    assert!(syns.count() <= 5, "{} passed", syns.count());
    let detached = process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    assert!(detached.stdout.contains("removed"), "{}", detached.stdout);
    let syns = lab.count_syns(PORT);
    assert_eq!((storm(&lab), syns.count()), (40, 40));
}

#[test]
fn a_second_daemon_is_refused_in_one_line_that_names_the_first() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    let second = process::run(node.run_command(), &node.place(), LIMIT);
    assert_eq!(code(&second), Some(1));
    assert!(
        error(&second).contains(&format!("pid {}", daemon.pid())),
        "{}",
        second.stderr
    );
    assert_eq!(node.get("/readyz").0, 200);
    node.status();
}

#[test]
fn a_cgroup_that_is_gone_is_told_by_readiness_not_by_health() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let inner = lab.cgroup().child("inner");
    let mut command = node.run_command();
    // The last one counts.
    command.arg("--cgroup").arg(inner.path());
    let command_line: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
    let first = command_line
        .iter()
        .position(|argument| argument == "--cgroup")
        .expect("it is given");
    let mut arguments = command_line.clone();
    arguments.drain(first..first + 2);
    let _daemon = Process::start(retry_governor(arguments), &node.place());
    eventually("it is ready", || {
        argument(&node, "--socket").exists() && node.get("/readyz").0 == 200
    });
    drop(inner);
    eventually("it is not ready any more", || node.get("/readyz").0 == 503);
    assert_eq!(node.get("/healthz").0, 200);
}

#[test]
fn retries_off_is_confirmed_shown_and_taken_back() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let unconfirmed = node.ctl(["retries", "off"]);
    assert_eq!(code(&unconfirmed), Some(2));
    assert!(error(&unconfirmed).contains("--yes"));

    let off = node
        .ctl(["retries", "off", "--yes", "--for", "10m"])
        .expect_success();
    assert!(off.stdout.contains("off for 10m"), "{}", off.stdout);
    let status = node.status();
    assert_eq!(
        (&status["retries"]["state"], &status["retries"]["percent"]),
        (&Value::from("Disabled"), &Value::from(0))
    );
    assert!(status["retries"]["expiresAt"].is_string());
    let shown = node.ctl(["retries", "status"]).expect_success();
    assert!(shown.stdout.contains("0 % of retries"), "{}", shown.stdout);
    let orders: Vec<_> = events(&node)
        .into_iter()
        .filter(|event| event["kind"] == "Order")
        .collect();
    assert_eq!(orders[0]["by"]["uid"], 0, "{orders:?}");
    assert!(
        orders[0]["by"]["pid"].is_number() && orders[0]["until"].is_string(),
        "{orders:?}"
    );

    node.ctl(["retries", "on"]).expect_success();
    assert_eq!(node.status()["retries"]["state"], "Enabled");
}

#[test]
fn shedding_everything_refuses_first_tries_until_it_is_off() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    assert_eq!(caller.call().outcome, Outcome::Ok);
    assert_eq!(
        code(&node.ctl(["shed", "100"])),
        Some(2),
        "shedding needs an end"
    );
    node.ctl(["shed", "100", "--destination", "auth", "--for", "10m"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);
    let status = node.status();
    assert_eq!(destination_of(&status, "auth")["denied"]["shed"], 1);
    node.ctl(["shed", "off", "--destination", "auth"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Ok);
}

#[test]
fn an_order_ends_by_itself_and_is_then_forgotten() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let _server = lab.line_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Line);
    node.ctl(["breaker", "open", "auth", "--for", "1s"])
        .expect_success();
    assert_eq!(caller.call().outcome, Outcome::Refused);
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(caller.call().outcome, Outcome::Ok);
    eventually("the end is told", || heard(&node, "Order", "has ended"));
    assert_eq!(request(&node, "GET /v1/orders", "").1, "{\"orders\":[]}");
}

#[test]
fn a_breaker_that_is_held_closed_lets_a_storm_through() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let unlimited = "spec:\n  concurrency: {mode: Disabled}\n  retryConstraint: {mode: Disabled}";
    node.write_policy("auth.yaml", &ENFORCE.replace("spec:", unlimited));
    let _daemon = node.start_daemon();
    node.ctl(["breaker", "close", "auth"]).expect_success();
    let syns = lab.count_syns(PORT);
    assert_eq!((storm(&lab), syns.count()), (40, 40));
    node.ctl(["breaker", "auto", "auth"]).expect_success();
    storm(&lab);
    let syns = lab.count_syns(PORT);
    storm(&lab);
    assert!(syns.count() < 10, "{} passed", syns.count());
}

#[test]
fn orders_for_what_is_not_there_are_refused_in_one_line() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    for arguments in [
        ["breaker", "open", "nobody", "--for", "1m"],
        ["shed", "10", "--for=1m", "--destination", "nobody"],
        ["shed", "10", "--for=1m", "--workload", "/nobody.service"],
    ] {
        let refused = node.ctl(arguments);
        assert_eq!(code(&refused), Some(1), "{arguments:?}");
        assert!(error(&refused).contains("nobody"), "{}", refused.stderr);
    }
}

#[test]
fn bad_requests_get_one_line_of_json_and_change_nothing() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let long = format!(
        "{{\"state\":\"Disabled\",\"destination\":\"{}\"}}",
        "x".repeat(100_000)
    );
    let cases = [
        ("PUT /v1/retries", "", 400),
        ("PUT /v1/retries", "not json", 400),
        (
            "PUT /v1/retries",
            "{\"state\":\"Disabled\",\"unknown\":1}",
            400,
        ),
        (
            "PUT /v1/retries",
            "{\"state\":\"Disabled\",\"for\":\"90000h\"}",
            400,
        ),
        ("PUT /v1/retries", &long, 413),
        ("PUT /v1/shed", "{\"percent\":50}", 400),
        ("PUT /v1/shed", "{\"percent\":1e400,\"for\":\"1m\"}", 400),
        ("PUT /v1/breakers/nobody", "{\"state\":\"Open\"}", 404),
        ("GET /v1/nothing", "", 404),
        ("DELETE /v1/retries", "", 405),
        ("GET /v1/events?follow=maybe", "", 400),
        ("PUT /v1/breakers/%ff", "{\"state\":\"Open\"}", 400),
        ("POST /v1/policy/check", &long, 413),
    ];
    for (head, body, expected) in cases {
        let (status, answer) = request(&node, head, body);
        assert_eq!(
            status,
            expected,
            "{head} {}: {answer}",
            &body[..body.len().min(60)]
        );
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let line = answer["error"].as_str().expect("an error");
        assert!(!line.contains('\n'), "{line}");
    }
    assert_eq!(node.status()["retries"]["state"], "Enabled");
    let (status, checked) = request(&node, "POST /v1/policy/check", "kind: Nonsense\n");
    assert_eq!(status, 200);
    assert!(checked.contains("\"valid\":false"), "{checked}");
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let socket = argument(&node, "--socket");
    let mut silent = Vec::new();
    for _ in 0..200 {
        match UnixStream::connect(&socket) {
            Ok(stream) => silent.push(stream),
            // The queue is full: as many as fit.
            Err(_) => break,
        }
    }
    for stream in silent.iter_mut().step_by(2) {
        let _ = stream.write_all(b"GET /v1/status HTTP/1.1\r\nX-Slow: ");
    }
    drop(silent.split_off(100));
    node.ctl(["status"]).expect_success();
    drop(silent);
    node.ctl(["status"]).expect_success();
}

#[test]
fn commands_without_a_daemon_end_with_three() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    for arguments in [
        vec!["status"],
        vec!["events"],
        vec!["retries", "status"],
        vec!["breaker", "auto", "x"],
        vec!["shed", "off"],
    ] {
        let ended = node.ctl(&arguments);
        assert_eq!(code(&ended), Some(3), "{arguments:?}: {}", ended.stderr);
        assert!(error(&ended).contains("no daemon"), "{}", ended.stderr);
    }
}

#[test]
fn a_followed_event_arrives_as_it_happens() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let mut command = retry_governor(["events", "--follow", "--json", "--socket"]);
    command.arg(argument(&node, "--socket"));
    let follower = Process::start(command, &node.place());
    thread::sleep(Duration::from_millis(300));
    node.ctl(["retries", "off", "--yes"]).expect_success();
    thread::sleep(Duration::from_millis(300));
    follower.signal(nix::sys::signal::Signal::SIGINT);
    let heard = follower.finish(LIMIT);
    assert!(
        heard
            .stdout
            .contains("retries to every destination are off"),
        "{}",
        heard.stdout
    );
}

#[test]
fn doctor_finds_what_is_needed_and_leaves_nothing() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let report = process::run(retry_governor(["doctor", "--json"]), &node.place(), LIMIT);
    let json: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let checks = json["checks"].as_array().expect("checks");
    assert!(
        checks
            .iter()
            .any(|check| check["check"] == "attach" && check["state"] == "Ok"),
        "{}",
        report.stdout
    );
    assert_eq!(code(&report), Some(0));
    let root = governor_tests::cgroup::root().expect("a cgroup root");
    let left = std::fs::read_dir(root).expect("readable").flatten();
    let left = left.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("retry-governor-doctor")
    });
    assert_eq!(left.count(), 0);
}
