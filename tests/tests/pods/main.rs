//! Pods on a node: each with a network namespace, a wire and a cgroup of its own, behind a router that
//! translates services. The daemon lives with the router, as on a node, and sees all of it from there.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what a test needs and cannot have fails it"
)]

mod cluster;
mod incident;
mod law;
mod ledger;
mod lifecycle;
mod modes;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use cluster::{Cluster, Family, Pod};
use governor_tests::governor::{destination_of, workload_of};
use governor_tests::node::Node;
use governor_tests::server::Percent;
use governor_tests::server::faults::{Fault, Plan};
use ledger::Truth;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
/// How long the daemon may take to notice a change; the machine may be busy.
const NOTICED: Duration = Duration::from_secs(10);
/// What fails here fails with 500, so that a 503 is the governor's.
const FAILURE: Fault = Fault::Status(500);

fn policy(mode: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {{name: shop}}, spec: {{mode: {mode}, \
         destinations: [{{name: shop, cidrs: [10.96.0.1/32, \"fd96::1/128\"], ports: [80, 81]}}], {spec}}}}}\n"
    )
}

/// Only the budget refuses; what it admits is not delayed.
const BUDGET: &str =
    "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}, pacing: {jitter: None}";
/// Nothing refuses but an order.
const ORDERS: &str = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}, \
                      retryConstraint: {mode: Disabled}, pacing: {jitter: None}";

/// Patient callers: an answer that does not come at all is lost, and not late on a busy machine.
fn storm(address: SocketAddr, callers: u32, every: &str, length: Duration) -> String {
    let length = length.as_secs_f64();
    format!(
        "requests {address} --callers {callers} --every {every} --tries 4 --delay 50ms --backoff 2 \
         --connect-timeout 10s --answer-timeout 10s --for {length}s"
    )
}

fn failing(percent: u8) -> Plan {
    Plan::healthy().scattered(Percent(percent), FAILURE)
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + NOTICED;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {NOTICED:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// The sum of a reason's counts.
fn sum(reasons: &Value) -> u64 {
    reasons.as_object().unwrap().values().map(number).sum()
}
