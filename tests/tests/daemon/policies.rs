//! What policies do: observed, enforced, changed, refused; for whom they count.

use super::*;

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
    let recent = &seen["recent"];
    assert_eq!(
        [&recent["attempts"], &recent["failed"], &recent["denied"]],
        [40, 40, 0],
        "{seen}"
    );
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
        .ctl(["events", "--json", "--destination", "10.9.9.9:1"])
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
        metrics.contains("retry_governor_policy_reloads_total{result=\"failure\"}"),
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
fn a_host_that_does_not_resolve_is_said_and_holds_up_nothing() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let hosts = "hosts: [localhost, nowhere.invalid]";
    node.write_policy(
        "auth.yaml",
        &ENFORCE.replace("cidrs: [127.0.0.1/32]", hosts),
    );
    let daemon = node.start_daemon();
    storm(&lab);
    assert_eq!(destination_of(&node.status(), "auth")["mode"], "Enforce");
    let said = daemon.stop().expect_success().stderr;
    assert!(said.contains("host nowhere.invalid: "), "{said}");
}

#[test]
fn what_is_in_force_is_shown_and_a_repaired_file_is_told() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    node.write_policy("auth.yaml", &ENFORCE.replace("mode", "mdoe"));
    eventually("the mistake is told", || heard(&node, "Policy", "mdoe"));
    let shown = node.ctl(["policy", "show"]).expect_success().stdout;
    assert!(
        shown.contains("mode: Enforce") && shown.contains("name: auth"),
        "{shown}"
    );
    node.write_policy("auth.yaml", ENFORCE);
    eventually("the repair is told", || {
        heard(&node, "Policy", "policies are valid again")
    });
}

#[test]
fn the_status_of_one_destination_says_why_and_who() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    storm(&lab);
    let told = node.ctl(["status", "auth"]).expect_success().stdout;
    for words in [
        "AMP, P99: last ",
        "auth: policy auth, Enforce",
        "since it was first called: ",
        "failed (refused)",
        "denied (breaker)",
        "breaker open since ",
        "127.0.0.1:8080 by ",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
