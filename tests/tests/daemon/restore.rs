//! The staged return of retries, on real traffic.

use std::collections::BTreeMap;

use governor_tests::caller::Storm;
use governor_tests::server::Percent;
use governor_tests::server::faults::{Fault, Plan};
use governor_tests::server::faulty::FaultyServer;

use super::*;

/// What an operator orders refuses alone: the law has no part in it.
const ORDERS_ALONE: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: auth}
spec:
  mode: Enforce
  destinations: [{name: auth, cidrs: [127.0.0.1/32], ports: [8080]}]
  retry: {attempts: 10}
  retryConstraint: {mode: Disabled}
  circuitBreaker: {mode: Disabled}
  concurrency: {mode: Disabled}
";

/// 200 operations a second, each asked for up to three times where it fails.
fn callers(lab: &Lab, seconds: u64) -> Storm {
    lab.start_storm(&format!(
        "requests 127.0.0.1:{PORT} --callers 20 --every 100ms --tries 3 --delay 5ms --for {seconds}s"
    ))
}

fn failing(percent: u8) -> Plan {
    Plan::healthy().scattered(Percent(percent), Fault::Status(503))
}

/// What is ordered about retries to auth; null: nothing.
fn ordered(node: &Node<'_>) -> Value {
    node.status()["orders"][0]["retries"].clone()
}

#[track_caller]
fn admitted_are(node: &Node<'_>, percent: u32) {
    eventually(&format!("{percent} % are admitted"), || {
        ordered(node)["percent"] == percent
    });
}

#[track_caller]
fn told(node: &Node<'_>, words: &str) {
    eventually(words, || heard(node, "Order", words));
}

/// Retries that reached the server so far, and those that were refused.
fn retries(status: &Value) -> [u64; 2] {
    let destination = destination_of(status, "auth");
    let counted = [&destination["retries"], &destination["denied"]["shed"]];
    counted.map(|count| count.as_u64().expect("a count"))
}

#[test]
fn retries_return_in_the_stages_that_were_ordered() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ORDERS_ALONE);
    let _daemon = node.start_daemon();
    let _server = FaultyServer::start(lab.netns(), PORT, failing(30));
    node.ctl(["retries", "off", "--destination", "auth"])
        .expect_success();
    let _storm = callers(&lab, 30);
    eventually("retries are refused", || {
        let status = node.status();
        let seen = status["destinations"][0].is_object();
        seen && retries(&status)[1] > 50
    });
    let restore =
        "retries restore --destination auth --stages 20,60,100 --every 4s --hold-above 30";
    let restore = node.ctl(restore.split(' ')).expect_success();
    assert!(
        restore.stdout.contains(
            "retries to destination auth return from now on in stages: 20, 60, 100 % every 4s"
        ),
        "{}",
        restore.stdout
    );

    // Admitted and refused while the percent stayed the same from one look to the next.
    let mut seen: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    let mut stages = Vec::new();
    let mut before: Option<(u64, [u64; 2])> = None;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(
            Instant::now() < deadline,
            "the restore does not end: {seen:?}"
        );
        let status = node.status();
        let Some(shown) = status["orders"][0]["retries"].as_object() else {
            break;
        };
        let percent = shown["percent"].as_u64().expect("a percent");
        if stages.last() != Some(&shown["stage"]["number"]) {
            stages.push(shown["stage"]["number"].clone());
        }
        let counts = retries(&status);
        if let Some((_, counted)) = before.filter(|(same, _)| *same == percent) {
            let sums = seen.entry(percent).or_default();
            for (sum, (now, then)) in sums.iter_mut().zip(counts.into_iter().zip(counted)) {
                *sum += now - then;
            }
        }
        before = Some((percent, counts));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(stages, [1, 2, 3].map(Value::from));
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [20, 60, 100]);
    for (percent, [admitted, refused]) in seen {
        let share = 100.0 * admitted as f64 / (admitted + refused) as f64;
        // 150 or more are counted: a tenth is more than two standard deviations.
        assert!(
            admitted + refused >= 150,
            "{percent} %: {admitted} + {refused}"
        );
        assert!(
            (share - percent as f64).abs() < 10.0,
            "{percent} %: {share:.0} %"
        );
    }
    for percent in [60, 100] {
        told(
            &node,
            &format!("{percent} % of retries to destination auth are admitted: "),
        );
    }
}

#[test]
fn a_stage_in_which_more_attempts_fail_is_held_falls_back_and_comes_again() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ORDERS_ALONE);
    let _daemon = node.start_daemon();
    let server = FaultyServer::start(lab.netns(), PORT, failing(10));
    let off =
        "retries off --destination auth --for 3s --stages 20,60,100 --every 6s --hold-above 10";
    node.ctl(off.split(' ')).expect_success();
    let _storm = callers(&lab, 60);
    assert_eq!(ordered(&node)["nextPercent"], 20);
    admitted_are(&node, 20);
    told(&node, "20 % of retries to destination auth are admitted: 1");
    admitted_are(&node, 60);

    server.set(failing(50));
    told(&node, "retries to destination auth are held at 60 %: ");
    let held = node.ctl(["retries", "status"]).expect_success().stdout;
    for words in [
        "(stage 2 of 3, held since 2",
        "when it began; worst: ",
        "), 20 % from 2",
    ] {
        assert!(held.contains(words), "{words}: {held}");
    }
    assert_eq!(ordered(&node)["nextAt"], Value::Null);
    told(&node, "fall back from 60 % to 20 %: ");
    assert_eq!(ordered(&node)["percent"], 20);
    told(&node, "retries to destination auth are held at 20 %: ");

    server.set(failing(10));
    told(&node, "retries to destination auth go on from 20 %: ");
    admitted_are(&node, 60);
    let restore = node
        .ctl(["retries", "restore", "--every", "30s"])
        .expect_success();
    assert!(
        restore.stdout.contains("to destination auth return"),
        "{}",
        restore.stdout
    );
    let again = "in stages: 20, 60, 100 % every 30s; that begins anew: 60 % were admitted";
    assert!(restore.stdout.contains(again), "{}", restore.stdout);
    assert_eq!(ordered(&node)["percent"], 20);
}

#[test]
fn while_every_attempt_fails_retries_do_not_return() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ORDERS_ALONE);
    let _daemon = node.start_daemon();
    let _server = FaultyServer::start(lab.netns(), PORT, failing(100));
    let off = "retries off --destination auth --for 1s --stages 10,100 --every 1s";
    node.ctl(off.split(' ')).expect_success();
    let _storm = callers(&lab, 30);
    told(
        &node,
        "held at 10 %: 100 % of attempts fail, more than half (`retry-governor retries on` ends it); worst: /",
    );
    thread::sleep(Duration::from_secs(2));
    let shown = node.ctl(["retries", "status"]).expect_success().stdout;
    for words in [
        "10 % of retries",
        " of attempts fail, more than half; worst: /",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    node.ctl(["retries", "on"]).expect_success();
    eventually("the order ends", || ordered(&node).is_null());
}

#[test]
fn the_kernel_goes_on_with_a_restore_whose_daemon_is_killed_while_it_holds() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ORDERS_ALONE);
    let daemon = node.start_daemon();
    let server = FaultyServer::start(lab.netns(), PORT, failing(10));
    let off = "retries off --destination auth --for 2s --stages 1,100 --every 5s";
    node.ctl(off.split(' ')).expect_success();
    let _storm = callers(&lab, 40);
    admitted_are(&node, 1);
    // Two looks later it is known what the stage began with.
    thread::sleep(Duration::from_secs(1));
    server.set(failing(60));
    told(&node, "held at 1 %: ");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(ordered(&node)["percent"], 1);
    daemon.crash();

    // Each of 200 operations a second fails, and comes again, with 60 in 100.
    let repeats = || {
        let log = server.log();
        log.arrivals.iter().filter(|each| each.attempt > 1).count()
    };
    let held = repeats();
    eventually("retries come again though nobody watches", || {
        repeats() > held + 200
    });
    // Or the successor would hold it again.
    server.set(failing(10));
    let _daemon = node.start_daemon();
    eventually("the order ends", || ordered(&node).is_null());
}

#[test]
fn a_successor_goes_on_holding_what_the_killed_daemon_held() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ORDERS_ALONE);
    let daemon = node.start_daemon();
    let server = FaultyServer::start(lab.netns(), PORT, failing(10));
    let off =
        "retries off --destination auth --for 2s --stages 10,100 --every 20s --hold-above 12.5";
    node.ctl(off.split(' ')).expect_success();
    let _storm = callers(&lab, 40);
    told(&node, "10 % of retries to destination auth are admitted: ");
    server.set(failing(60));
    told(&node, "held at 10 %: ");
    let known = ordered(&node)["stage"]["failingAtStart"].clone();
    assert!(known.is_number(), "{known}");
    daemon.crash();
    let _daemon = node.start_daemon();
    told(&node, "held at 10 %: ");
    let stage = ordered(&node)["stage"].clone();
    assert_eq!(
        (&stage["failingAtStart"], &stage["holdAbove"]),
        (&known, &Value::from(12.5))
    );
}

#[test]
fn a_restore_of_nothing_and_other_mistakes_are_refused_in_one_line() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    for (arguments, words) in [
        ("restore", "nothing is ordered"),
        ("restore --destination auth", "nothing is ordered"),
        ("restore --for 1m", "--for"),
        ("off --destination auth --stages 50,25", "rising"),
        ("off --destination auth --stages 0,50", "1 to 100"),
        ("off --destination auth --every 2h", "1s to 1h"),
        ("off --destination auth --hold-above 101", "0 to 100"),
        (
            "on --stages 10,100",
            "only `retries off` and `retries restore`",
        ),
        (
            "status --every 1m",
            "only `retries off` and `retries restore`",
        ),
    ] {
        let refused = node.ctl(format!("retries {arguments}").split(' '));
        assert_eq!(code(&refused), Some(2), "{arguments}: {}", refused.stderr);
        assert!(
            error(&refused).contains(words),
            "{arguments}: {}",
            refused.stderr
        );
    }
    let (status, body) = request(&node, "PUT /v1/retries", "{\"state\":\"Restoring\"}");
    assert!(
        status == 400 && body.contains("nothing is ordered"),
        "{status} {body}"
    );
    node.ctl(["retries", "off", "--yes"]).expect_success();
    let body = "{\"state\":\"Restoring\",\"stages\":[30,100],\"every\":\"10s\",\"holdAbove\":2.5}";
    assert_eq!(request(&node, "PUT /v1/retries", body).0, 200);
    let shown = node.status()["retries"].clone();
    assert_eq!(
        (&shown["state"], &shown["percent"], &shown["nextPercent"]),
        (&"Restoring".into(), &30.into(), &100.into()),
        "{shown}"
    );
    assert_eq!(shown["stage"]["holdAbove"], 2.5, "{shown}");
}
