//! What each mode does with requests, and how one becomes another while requests are on their way.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use governor_tests::storm::report::monotonic_micros;

use super::*;
use crate::ledger::is_denied;

const SECOND: Duration = Duration::from_secs(1);

fn policy_directory(node: &Node<'_>) -> PathBuf {
    let command = node.run_command();
    let mut arguments = command.get_args();
    arguments
        .find(|it| *it == OsStr::new("--policy-dir"))
        .unwrap();
    PathBuf::from(arguments.next().unwrap())
}

#[test]
fn audit_refuses_nothing_and_says_what_it_would_have_refused_and_what_became_of_it() {
    let cluster = Cluster::new();
    let pods = [cluster.pod(), cluster.pod()];
    let node = Node::new(&cluster.lab);
    // No retry is within the policy: whatever is one would be denied.
    node.write_policy(
        "shop.yaml",
        &policy("Audit", &format!("{ORDERS}, retry: {{attempts: 0}}")),
    );
    let _daemon = node.start_daemon();
    let storms = [(0, Family::V4), (1, Family::V6)].map(|(pod, family)| {
        pods[pod].storm(&storm(
            family.service(),
            20,
            "400ms",
            Duration::from_secs(8),
        ))
    });
    thread::sleep(3 * SECOND);
    cluster.server.set(failing(40));
    let mut all = Truth::default();
    let (mut well, mut failed) = (0, 0);
    for storm in storms {
        let report = storm.finish(LIMIT);
        let retries = report.tries.iter().filter(|it| it.attempt > 1);
        let (ok, not): (Vec<_>, Vec<_>) = retries.partition(|it| it.status.is_none());
        well += ok.len() as u64;
        failed += not.len() as u64;
        all = all.and(Truth::of(&report));
    }
    assert_eq!(all.denied, 0);
    let status = node.status();
    let shop = destination_of(&status, "shop");
    println!("{all:?}, {well} retries went well, {failed} failed: {shop}");
    assert!(well > 50 && failed > 50);
    assert_eq!(shop["mode"], "Audit");
    assert_eq!(sum(&shop["denied"]), 0);
    assert_eq!(number(&shop["wouldDeny"]["attempts"]), well + failed);
    assert_eq!(sum(&shop["wouldDeny"]), well + failed);
    assert_eq!(number(&shop["wouldDenySucceeded"]), well);
    assert_eq!(number(&shop["wouldDenyFailed"]), failed);
    assert_eq!(number(&shop["attempts"]), all.reached());
    assert_eq!(number(&shop["retries"]), all.retries);
    let metrics = node.get("/metrics").1;
    for (outcome, count) in [("succeeded", well), ("failed", failed)] {
        let line = format!(
            "would_deny_outcomes_total{{destination=\"shop\",outcome=\"{outcome}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let events = node.ctl(["events", "--json"]).expect_success().stdout;
    assert!(
        events.contains("Enforce would refuse this, one retry more than the policy allows"),
        "{events}"
    );
}

#[test]
fn a_disabled_policy_only_sees() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Disabled", "retry: {attempts: 0}"));
    let _daemon = node.start_daemon();
    let storm = pod.storm(&storm(
        Family::V4.service(),
        20,
        "400ms",
        Duration::from_secs(5),
    ));
    thread::sleep(2 * SECOND);
    cluster.server.set(failing(100));
    let truth = Truth::of(&storm.finish(LIMIT));
    assert_eq!(truth.denied, 0);
    let status = node.status();
    let shop = destination_of(&status, "shop");
    assert_eq!(number(&shop["attempts"]), truth.reached(), "{shop}");
    assert_eq!(
        (sum(&shop["denied"]), sum(&shop["wouldDeny"])),
        (0, 0),
        "{shop}"
    );
    assert_eq!(
        (&shop["wouldDenySucceeded"], &shop["wouldDenyFailed"]),
        (&0.into(), &0.into())
    );
}

/// Each change finds requests on their way and connections in use.
#[test]
fn a_policy_that_changes_holds_for_the_next_request_of_a_kept_connection() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    let strict = |mode: &str| policy(mode, &format!("{ORDERS}, retry: {{attempts: 0}}"));
    node.write_policy("shop.yaml", &strict("Audit"));
    let daemon = node.start_daemon();
    let running = pod.storm(&storm(
        Family::V4.service(),
        40,
        "200ms",
        Duration::from_secs(16),
    ));
    thread::sleep(2 * SECOND);
    cluster.server.set(failing(30));
    let mut phases = Vec::new();
    let mut phase = |name: &'static str, change: &dyn Fn()| {
        change();
        thread::sleep(SECOND);
        let from = monotonic_micros();
        thread::sleep(SECOND + SECOND / 2);
        phases.push((name, from, monotonic_micros()));
    };
    let write = |mode: &str| {
        node.write_policy("shop.yaml", &strict(mode));
        daemon.reload();
    };
    phase("audit", &|| {});
    phase("enforce", &|| write("Enforce"));
    phase("disabled", &|| write("Disabled"));
    phase("enforce again", &|| write("Enforce"));
    phase("gone", &|| {
        fs::remove_dir_all(policy_directory(&node)).unwrap();
        daemon.reload();
    });
    let report = running.finish(LIMIT);
    for (name, from, to) in phases {
        let part = report.within(from, Duration::from_micros(to - from)).tries;
        let retries = part.iter().filter(|it| it.attempt > 1).count();
        let denied = part.iter().filter(|it| is_denied(it)).count();
        println!(
            "{name}: {} tries, {retries} retries, {denied} denied",
            part.len()
        );
        assert!(retries > 20, "{name}: {retries}");
        let expected = if name.starts_with("enforce") {
            retries
        } else {
            0
        };
        assert_eq!(denied, expected, "{name}");
    }
    // Not one request was lost between two policies.
    let truth = Truth::of(&report);
    assert_eq!(truth.reached(), cluster.server.log().arrivals.len() as u64);
    assert_eq!(node.get("/readyz").0, 200);
    assert_eq!(truth.denied_first, 0);
}

/// It began under one policy and ends under another, which calls its destination by another name.
#[test]
fn a_request_on_its_way_while_policies_change_is_counted_once_and_leaves_its_place() {
    let cluster = Cluster::new();
    let pods = [cluster.pod(), cluster.pod()];
    let node = Node::new(&cluster.lab);
    let usual = |mode: &str| policy(mode, "pacing: {jitter: None}");
    let renamed = usual("Enforce").replace("name: shop", "name: store");
    node.write_policy("shop.yaml", &usual("Enforce"));
    let daemon = node.start_daemon();
    let (_server, service) = cluster.slow_server(Family::V4, Duration::from_millis(400));
    let load = storm(service, 20, "10ms", Duration::from_secs(8));
    let storms = pods.each_ref().map(|pod| pod.storm(&load));
    for text in [
        &renamed,
        &usual("Disabled"),
        &usual("Audit"),
        &usual("Enforce"),
        &renamed,
    ] {
        thread::sleep(SECOND);
        node.write_policy("shop.yaml", text);
        daemon.reload();
    }
    let truths = storms.map(|storm| Truth::of(&storm.finish(LIMIT)));
    let truth = truths[0].and(truths[1]);
    assert_eq!(
        (truth.denied, truth.retries, truth.failed),
        (0, 0, 0),
        "{truth:?}"
    );
    let status = node.status();
    let mut told = Truth::default();
    assert_eq!(status["destinations"].as_array().unwrap().len(), 2);
    let mut measured = Truth::default();
    for name in ["shop", "store"] {
        told = told.and(Truth::told(destination_of(&status, name)));
        for pod in &pods {
            measured = measured.and(Truth::measured(&node, name, &pod.name()));
        }
    }
    assert_eq!((told, measured), (truth, truth));
}
