//! How a daemon starts, ends, dies, and what it leaves.

use super::*;

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
    node.ctl(["retries", "off", "--yes"]).expect_success();
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
    assert_eq!(
        auth["recent"]["attempts"], 0,
        "what a predecessor counted is not recent: {auth}"
    );
    assert_eq!(status["retries"]["state"], "Disabled", "orders are kept");
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

/// `systemctl restart` in an incident must not bring all retries back at once.
#[test]
fn what_is_ordered_outlives_a_stop_though_nothing_is_attached() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let daemon = node.start_daemon();
    node.ctl(["retries", "off", "--yes"]).expect_success();
    let ended = daemon.stop().expect_success();
    assert!(
        ended
            .stderr
            .contains("nothing is attached any more. 1 order"),
        "{}",
        ended.stderr
    );
    let syns = lab.count_syns(PORT);
    assert_eq!(storm(&lab), 40);
    assert_eq!(syns.count(), 40, "nobody refuses");

    let daemon = node.start_daemon();
    assert_eq!(node.status()["retries"]["state"], "Disabled");
    node.ctl(["retries", "on"]).expect_success();
    daemon.stop().expect_success();
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
fn detach_is_obeyed_at_once_even_while_a_daemon_runs() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let daemon = node.start_daemon();
    storm(&lab);
    let detached = process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    assert!(
        detached.stderr.contains(&format!("pid {}", daemon.pid())),
        "{}",
        detached.stderr
    );
    let syns = lab.count_syns(PORT);
    assert_eq!((storm(&lab), syns.count()), (40, 40));
    assert_eq!(node.get("/readyz").0, 503);
    daemon.stop().expect_success();
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

#[test]
fn a_start_that_fails_leaves_nothing() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    // The metrics address is taken.
    let taken = lab
        .netns()
        .run(|| std::net::TcpListener::bind("127.0.0.1:9478"));
    let failed = process::run(node.run_command(), &node.place(), LIMIT);
    assert_eq!(code(&failed), Some(1));
    assert!(error(&failed).contains("--listen"), "{}", failed.stderr);
    drop(taken);
    let nothing = process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    assert!(
        nothing.stdout.contains("nothing of ours"),
        "{}",
        nothing.stdout
    );
}
