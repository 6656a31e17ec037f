//! Two workloads, one destination. What one of them does to itself is not the other's affair.

use std::process::Command;
use std::thread;
use std::time::Duration;

use governor_tests::caller::Storm;
use governor_tests::governed::denied;
use governor_tests::governor::{destination_of, workload_of};
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::node::Node;
use governor_tests::place::Place;
use governor_tests::server::Behaviour;
use governor_tests::storm::report::{Outcome, Report, monotonic_micros};

const PORT: u16 = 8080;
const WRONG_PORT: u16 = 8081;
const LIMIT: Duration = Duration::from_secs(60);
/// What the issue allows until the other workload is served again.
const SERVED_WITHIN: Duration = Duration::from_secs(9);

/// Both ports are one destination: one budget, one reserve, one shed.
const POLICY: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: shared}
spec:
  mode: Enforce
  destinations: [{name: shared, cidrs: [127.0.0.1/32, 10.99.0.1/32], ports: [8080, 8081]}]
";

/// An address of the lab that another network can have too: loopback would be
/// another place there.
const ADDRESS: &str = "10.99.0.1";

fn add_address(netns: &Netns) {
    let added = netns.run(|| {
        Command::new("ip")
            .args(["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])
            .status()
    });
    assert!(added.expect("ip(8) starts").success());
}

#[test]
fn a_workload_that_fails_by_its_own_fault_costs_another_not_a_single_attempt() {
    let lab = Lab::new();
    let (broken, healthy) = (lab.cgroup().child("broken"), lab.cgroup().child("healthy"));
    let _server = lab.http_server(PORT, Behaviour::Answer);
    let node = Node::new(&lab);
    node.write_policy("shared.yaml", POLICY);
    let daemon = node.start_daemon();

    let wrong = format!("loop 127.0.0.1:{WRONG_PORT} --rate 500 --for 10s");
    let broken_storm = Storm::start(&wrong, &lab.place().in_cgroup(&broken));
    let calls = format!("loop 127.0.0.1:{PORT} --speak http --rate 100 --for 10s --tries 3");
    let calls = Storm::start(&calls, &lab.place().in_cgroup(&healthy)).finish(LIMIT);
    let wrong = broken_storm.finish(LIMIT);

    assert_eq!((calls.tries.len(), calls.count(Outcome::Ok)), (1000, 1000));
    assert_eq!(wrong.count(Outcome::Refused), 5000);
    let status = node.status();
    let shared = destination_of(&status, "shared");
    assert_eq!(workload_of(shared, "/healthy")["denied"], 0, "{shared}");
    assert_eq!(
        workload_of(shared, "/healthy")["attempts"],
        1000,
        "{shared}"
    );
    // All that was denied was the broken one's, and little of that reached the network.
    assert_eq!(workload_of(shared, "/broken")["denied"], denied(shared));
    assert!(denied(shared) > 4900, "{shared}");
    daemon.stop().expect_success();
}

/// Two seconds of health, six of outage, and the time after. The calls of the healthy workload, and
/// when the endpoint was back. Meanwhile one workload hammers a wrong port, and another the very same
/// ip:port from a network where nothing answers, as if it were firewalled: it wants the same probe,
/// for ever in vain.
fn outage() -> (Report, u64) {
    let lab = Lab::new();
    let elsewhere = Netns::create();
    add_address(lab.netns());
    add_address(&elsewhere);
    let [broken, cut_off, healthy] =
        ["broken", "cut-off", "healthy"].map(|name| lab.cgroup().child(name));
    let server = lab.http_server(PORT, Behaviour::Answer);
    let node = Node::new(&lab);
    node.write_policy("shared.yaml", POLICY);
    let daemon = node.start_daemon();

    let hammer = |port: u16, place: Place<'_>| {
        Storm::start(
            &format!("loop {ADDRESS}:{port} --rate 500 --for 20s"),
            &place,
        )
    };
    let hammers = [
        hammer(WRONG_PORT, lab.place().in_cgroup(&broken)),
        hammer(PORT, lab.place().in_cgroup(&cut_off).in_netns(&elsewhere)),
    ];
    let calls = format!("loop {ADDRESS}:{PORT} --speak http --rate 100 --for 20s");
    let calls = Storm::start(&calls, &lab.place().in_cgroup(&healthy));
    thread::sleep(Duration::from_secs(2));
    server.set(Behaviour::Refuse);
    thread::sleep(Duration::from_secs(6));
    server.set(Behaviour::Answer);
    let back = monotonic_micros();
    let calls = calls.finish(LIMIT);
    for hammer in hammers {
        let report = hammer.finish(LIMIT);
        assert_eq!(report.count(Outcome::Refused), 10_000);
    }
    assert!(denied(destination_of(&node.status(), "shared")) > 0);
    daemon.stop().expect_success();
    (calls, back)
}

#[test]
fn after_an_outage_the_other_is_served_again_within_9_s_while_some_go_on_failing() {
    let (calls, back) = outage();
    // Served before it, not at all in it, and wholly after it.
    let health = calls.within(back - 8_000_000, Duration::from_millis(1_500));
    assert_eq!(health.count(Outcome::Ok), health.tries.len());
    let dark = calls.within(back - 4_000_000, Duration::from_secs(4));
    assert_eq!(dark.count(Outcome::Ok), 0, "the endpoint was not down");
    let after = calls.within(back, LIMIT);
    let last = after.tries.iter().rfind(|each| each.outcome != Outcome::Ok);
    let took = Duration::from_micros(last.map_or(0, |each| each.t - back));
    println!("served again after {took:?}");
    let rest = calls.within(back + SERVED_WITHIN.as_micros() as u64, LIMIT);
    assert!(rest.tries.len() > 100, "{}", rest.tries.len());
    let served = rest.count(Outcome::Ok);
    assert_eq!(served, rest.tries.len(), "only after {took:?}");
}
