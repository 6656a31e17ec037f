//! The daemon dies, comes back, is told to let go: what becomes of requests meanwhile.

use std::path::Path;

use aya::programs::{ProgramInfo, SchedClassifier, TcAttachType};
use governor_tests::governor::retry_governor;
use governor_tests::netns::Netns;
use governor_tests::process;
use governor_tests::storm::report::{Outcome, monotonic_micros};

use super::*;
use crate::ledger::is_denied;

const SECOND: Duration = Duration::from_secs(1);

/// Ids of what runs at a device, both directions.
fn programs(netns: &Netns, device: &str) -> Vec<u32> {
    let both = [TcAttachType::Ingress, TcAttachType::Egress];
    let at = |direction| {
        let queried = netns.run(|| SchedClassifier::query_tcx(device, direction));
        queried.map_or(Vec::new(), |(_, programs)| programs)
    };
    both.into_iter()
        .flat_map(at)
        .map(|it: ProgramInfo| it.id())
        .collect()
}

#[test]
fn refusals_go_on_while_the_daemon_is_dead_and_its_successor_takes_over() {
    let cluster = Cluster::new();
    let pods = [cluster.pod(), cluster.pod()];
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", BUDGET));
    let daemon = node.start_daemon();
    let storms = [(0, Family::V4), (1, Family::V6)].map(|(pod, family)| {
        pods[pod].storm(&storm(
            family.service(),
            20,
            "200ms",
            Duration::from_secs(14),
        ))
    });
    thread::sleep(4 * SECOND);
    cluster.server.set(failing(100));
    thread::sleep(2 * SECOND);
    node.ctl(["retries", "off", "--destination", "shop", "--for", "5m"])
        .expect_success();
    let wires = pods.each_ref().map(|pod| pod.host_side.as_str());
    let of_dead = wires.map(|wire| programs(cluster.lab.netns(), wire));
    daemon.crash();
    let died = monotonic_micros();
    thread::sleep(2 * SECOND);
    assert_eq!(
        wires.map(|wire| programs(cluster.lab.netns(), wire)),
        of_dead
    );
    let started = monotonic_micros();
    let daemon = node.start_daemon();
    let ready = monotonic_micros();
    let of_successor = wires.map(|wire| programs(cluster.lab.netns(), wire));
    for (dead, successor) in of_dead.iter().zip(&of_successor) {
        assert_eq!(dead.len(), successor.len(), "one each, and not two");
        assert!(
            dead.iter().all(|id| !successor.contains(id)),
            "the successor's"
        );
    }
    thread::sleep(2 * SECOND);
    let end = monotonic_micros();

    let mut all = Truth::default();
    for storm in storms {
        let report = storm.finish(LIMIT);
        for (when, from, to) in [
            ("dead", died, started),
            ("starting", started, ready),
            ("new", ready, end),
        ] {
            let part = report.within(from, Duration::from_micros(to - from)).tries;
            let retries: Vec<_> = part.iter().filter(|it| it.attempt > 1).collect();
            println!("{when}: {} tries, {} retries", part.len(), retries.len());
            let passed = retries.iter().filter(|it| !is_denied(it)).count();
            assert_eq!(passed, 0, "of {} retries, {when}", retries.len());
            assert!(
                part.iter().all(|it| it.attempt > 1 || !is_denied(it)),
                "{when}"
            );
            assert!(
                when == "starting" || retries.len() > 20,
                "{when}: {}",
                retries.len()
            );
        }
        all = all.and(Truth::of(&report));
    }
    let status = node.status();
    assert_eq!(Truth::told(destination_of(&status, "shop")), all);
    daemon.stop().expect_success();
}

#[test]
fn detach_leaves_nothing_and_kept_connections_go_on() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", ORDERS));
    let daemon = node.start_daemon();
    let mut callers = Family::ALL.map(|family| pod.caller(family));
    for caller in &mut callers {
        caller.open("kept");
        assert_eq!(caller.exchange("kept").status, None);
    }
    node.ctl(["shed", "100", "--destination", "shop", "--for", "5m"])
        .expect_success();
    let connections = cluster.server.log().connections;
    process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    for device in ["lo", &pod.host_side] {
        assert_eq!(programs(cluster.lab.netns(), device), [0; 0], "{device}");
    }
    let pins = format!("/proc/{}/root/sys/fs/bpf/retry-governor", daemon.pid());
    assert!(!Path::new(&pins).exists());
    let asked = cluster.server.log().arrivals.len();
    for caller in &mut callers {
        assert_eq!(caller.exchange("kept").outcome, Outcome::Ok);
    }
    assert_eq!(cluster.server.log().arrivals.len(), asked + 2);
    assert_eq!(
        cluster.server.log().connections,
        connections,
        "the same connections"
    );
    for family in Family::ALL {
        assert_eq!(pod.caller(family).call().outcome, Outcome::Ok, "a new one");
    }
    daemon.stop().expect_success();
}

/// Nobody follows devices then: what leaves by the new wire passes, and is counted as out of reach.
#[test]
fn a_pod_that_comes_while_the_daemon_is_dead_is_out_of_reach_until_there_is_a_successor() {
    let cluster = Cluster::new();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", ORDERS));
    let daemon = node.start_daemon();
    let shed = ["shed", "100", "--destination", "shop", "--for", "5m"];
    daemon.crash();
    let pod = cluster.pod();
    let mut callers = Family::ALL.map(|family| pod.caller(family));
    for caller in &mut callers {
        caller.open("kept");
        assert_eq!(caller.exchange("kept").outcome, Outcome::Ok);
    }
    let daemon = node.start_daemon();
    for caller in &mut callers {
        assert_eq!(caller.exchange("kept").outcome, Outcome::Ok);
    }
    node.ctl(shed).expect_success();
    for caller in &mut callers {
        assert_eq!(caller.exchange("kept").status, Some(503));
    }
    let status = node.status();
    let shop = destination_of(&status, "shop");
    // Of each connection the one before, and the one whose packet showed that there is a way now.
    assert_eq!(shop["requests"]["unreached"], 4, "{shop}");
    assert_eq!(shop["denied"]["shed"], 2, "{shop}");
    workload_of(shop, &pod.name());
    daemon.stop().expect_success();
}

/// Its wire goes first: nothing that its sockets still say arrives anywhere.
#[test]
fn a_pod_that_is_killed_in_the_middle_of_its_requests_leaves_nothing_in_flight() {
    let cluster = Cluster::new();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", "pacing: {jitter: None}"));
    let _daemon = node.start_daemon();
    let in_flight = || {
        let status = node.status();
        let destinations = status["destinations"].as_array().unwrap().iter();
        destinations
            .map(|it| number(&it["concurrency"]["inFlight"]))
            .sum::<u64>()
    };
    for family in Family::ALL {
        let (_server, service) = cluster.slow_server(family, Duration::from_millis(1500));
        let pod = cluster.pod();
        let storm = pod.storm(&storm(service, 20, "10ms", 5 * SECOND));
        eventually("all are on their way", || in_flight() == 20);
        drop(pod);
        let died = Instant::now();
        eventually("none is any more", || in_flight() == 0);
        println!("{family:?}: within {:?}", died.elapsed());
        storm.kill();
    }
    let status = node.status();
    assert_eq!(sum(&destination_of(&status, "shop")["denied"]), 0);
}
