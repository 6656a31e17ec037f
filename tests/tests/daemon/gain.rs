//! How far three layers on one node multiply, as they do it and as `gain` says it.

use governor_tests::caller::Storm;
use governor_tests::cgroup::Cgroup;
use governor_tests::dial::Dialler;
use governor_tests::service::Service;

use super::*;

const EDGE: u16 = 8081;
const MID: u16 = 8082;
const LEAF: u16 = 8083;

/// Only the outermost layer may retry. Of the law nothing else is in force, so
/// that what passes is a whole number.
const ONE_LAYER: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: outer}
spec:
  mode: Enforce
  destinations: [{name: edge, cidrs: [127.0.0.1/32], ports: [8081]}]
  retryConstraint: {mode: Disabled}
  circuitBreaker: {mode: Disabled}
  concurrency: {mode: Disabled}
  pushback: {honorRetryAfter: false}
  retry: {attempts: 2}
---
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: inner}
spec:
  mode: Enforce
  destinations:
    - {name: mid, cidrs: [127.0.0.1/32], ports: [8082]}
    - {name: leaf, cidrs: [127.0.0.1/32], ports: [8083]}
  retryConstraint: {mode: Disabled}
  circuitBreaker: {mode: Disabled}
  concurrency: {mode: Disabled}
  pushback: {honorRetryAfter: false}
  retry: {attempts: 0}
";

/// A client, two layers that each try three times, and a leaf.
struct Layers<'a> {
    lab: &'a Lab,
    client: Cgroup,
    leaf: Service,
    _between: [Service; 2],
    _cgroups: [Cgroup; 3],
}

impl<'a> Layers<'a> {
    fn start(lab: &'a Lab) -> Self {
        let cgroups = ["edge", "mid", "leaf"].map(|name| lab.cgroup().child(name));
        let place = |layer: usize| Place::new(lab.netns(), &cgroups[layer]);
        let leaf = Service::start(LEAF, "--capacity 5000", &place(2));
        let calling = |name: &str, backend: u16| {
            format!(
                "--capacity 5000 --name {name} --backend 127.0.0.1:{backend} --idempotency-key \
                 --retry naive --tries 3 --delay 10ms"
            )
        };
        let mid = Service::start(MID, &calling("mid", LEAF), &place(1));
        let edge = Service::start(EDGE, &calling("edge", MID), &place(0));
        Self {
            lab,
            client: lab.cgroup().child("client"),
            leaf,
            _between: [edge, mid],
            _cgroups: cgroups,
        }
    }

    fn crowd(&self, rate: u32, lasting: &str) -> Storm {
        let arguments = format!(
            "crowd 127.0.0.1:{EDGE} --name client --rate {rate} --arrivals even --for {lasting} \
             --retry naive --tries 3 --delay 10ms"
        );
        Storm::start(&arguments, &Place::new(self.lab.netns(), &self.client))
    }

    /// What the leaf got per operation.
    fn factor(&self, rate: u32, lasting: &str) -> f64 {
        let came = || {
            self.leaf
                .slots()
                .iter()
                .map(|slot| slot.came())
                .sum::<u64>()
        };
        let before = came();
        let report = self.crowd(rate, lasting).finish(LIMIT);
        thread::sleep(Duration::from_millis(200));
        let operations = report.tries.iter().filter(|each| each.attempt == 1).count();
        (came() - before) as f64 / operations as f64
    }
}

fn gain(node: &Node<'_>, arguments: &[&str]) -> Value {
    let all = ["gain", "--json", "--over", "200ms"]
        .iter()
        .chain(arguments);
    let shown = node.ctl(all).expect_success();
    serde_json::from_str(&shown.stdout).expect("JSON")
}

/// The destination of `gain` that is called at a port.
#[track_caller]
fn at(gain: &Value, port: u16) -> &Value {
    let ends = format!(":{port}");
    let called = |destination: &&Value| {
        let mut addresses = destination["addresses"].as_array().into_iter().flatten();
        addresses.any(|address| address.as_str().is_some_and(|text| text.ends_with(&ends)))
    };
    let destinations = gain["destinations"].as_array().expect("destinations");
    let found = destinations.iter().find(called);
    assert!(found.is_some(), "{port}: {gain}");
    found.expect("it was found")
}

#[test]
fn three_layers_of_three_tries_are_27_and_one_layer_that_may_retry_is_3() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let layers = Layers::start(&lab);
    // Until all differ, equal requests say nothing.
    assert_eq!(layers.factor(40, "1s"), 1.0);
    let calm = gain(&node, &[]);
    assert_eq!(at(&calm, LEAF)["worstCase"]["multiplier"], 1.0, "{calm}");

    layers.leaf.order("status 503");
    assert_eq!(layers.factor(2, "2s"), 27.0);
    let shown = gain(&node, &[]);
    let leaf = at(&shown, LEAF);
    assert_eq!(leaf["worstCase"]["multiplier"], 27.0, "{shown}");
    assert_eq!(leaf["worstCase"]["inferred"], false, "{leaf}");
    assert_eq!(leaf["longestChain"], 3, "{leaf}");
    let path = leaf["worstCase"]["path"].as_array().expect("a path");
    let callers: Vec<_> = path
        .iter()
        .map(|layer| layer["workload"].as_str())
        .collect();
    let last = |name: &Option<&str>| name.and_then(|it| it.rsplit('/').next().map(str::to_owned));
    let callers: Vec<_> = callers.iter().filter_map(last).collect();
    assert_eq!(callers, ["client", "edge", "mid"]);

    // While it is called, with a capacity that bears 27 only just not.
    let storm = layers.crowd(4, "3s");
    thread::sleep(Duration::from_millis(500));
    let leaf = format!("127.0.0.1:{LEAF}");
    let arguments = ["--over", "2s", "--destination", &leaf, "--capacity", "60"];
    let all = ["gain", "--json"].iter().chain(&arguments);
    let shown = node.ctl(all).expect_success().stdout;
    storm.finish(LIMIT);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let (load, survival) = (&at(&shown, LEAF)["load"], &at(&shown, LEAF)["survival"]);
    let operations = load["operationsPerSecond"].as_f64().expect("a rate");
    assert!(
        (2.5..=5.5).contains(&operations),
        "4 operations a second: {load}"
    );
    assert_eq!(survival["warm"]["calm"], true, "{survival}");
    assert_eq!(survival["warm"]["worstCase"], false, "{survival}");
    assert_eq!(survival["cold"]["capacityPerSecond"], 12.0, "{survival}");

    node.write_policy("one.yaml", ONE_LAYER);
    eventually("the policy is in force", || {
        request(&node, "GET /v1/policy", "").1.contains("inner")
    });
    // Destinations have got names: what is known of them begins anew.
    layers.leaf.order("serve");
    assert_eq!(layers.factor(40, "1s"), 1.0);
    layers.leaf.order("status 503");
    assert_eq!(layers.factor(2, "2s"), 3.0);
    let shown = gain(&node, &[]);
    let inner = at(&shown, LEAF);
    assert_eq!(inner["allowed"]["multiplier"], 3.0, "{shown}");
    // What the layers in between would do: refused tries count.
    assert_eq!(inner["worstCase"]["multiplier"], 12.0, "{shown}");
}

#[test]
fn a_capacity_is_of_one_destination_and_a_service_that_nobody_called_is_told() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let empty = node.ctl(["gain"]).expect_success();
    assert!(empty.stdout.contains("No calls"), "{}", empty.stdout);
    let _servers = [PORT, EDGE].map(|port| lab.http_server(port, Behaviour::Answer));
    for port in [PORT, EDGE] {
        lab.storm(&format!("tries 127.0.0.1:{port}"), LIMIT);
    }
    let whose = node.ctl(["gain", "--over", "100ms", "--capacity", "10"]);
    assert_eq!(code(&whose), Some(2), "{}", whose.stderr);
    assert!(error(&whose).contains("--destination"), "{}", whose.stderr);
    let nobody = node.ctl(["gain", "--over", "100ms", "--destination", "nobody"]);
    assert_eq!(code(&nobody), Some(1));
    assert!(error(&nobody).contains("nobody has called it"));
    let (status, _) = request(&node, "GET /v1/gain?seconds=3600", "");
    assert_eq!(status, 400);
}

#[test]
fn a_new_process_that_is_refused_four_times_is_guessed_to_try_one_operation() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let _daemon = node.start_daemon();
    let storm = lab.storm(
        &format!("tries 127.0.0.1:{PORT} --tries 4 --delay 10ms"),
        LIMIT,
    );
    assert_eq!(storm.tries.len(), 4);
    let shown = gain(&node, &[]);
    let called = at(&shown, PORT);
    assert_eq!(called["longestChain"], 4, "{shown}");
    assert_eq!(called["inferred"], true, "{shown}");
    assert_eq!(called["worstCase"]["multiplier"], 4.0, "{shown}");
    let text = node
        .ctl(["gain", "--over", "100ms"])
        .expect_success()
        .stdout;
    assert!(text.contains("~4x"), "{text}");
}

/// Of the law only the rule about tries is in force.
fn tries(attempts: u32) -> String {
    ONE_LAYER
        .split("---")
        .take(1)
        .map(|outer| outer.replace("8081", &PORT.to_string()))
        .map(|outer| outer.replace("attempts: 2", &format!("attempts: {attempts}")))
        .collect()
}

#[test]
fn what_a_request_says_of_itself_multiplies_nothing_and_what_is_in_force_bounds_the_rest() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("one.yaml", &tries(2));
    let _daemon = node.start_daemon();
    let service = Service::start(PORT, "--capacity 5000", &lab.place());
    service.order("status 503");
    let claim = || {
        let mut stream = Dialler::start(&lab.place()).connect(lab.address(PORT));
        let head = "GET /a HTTP/1.1\r\nHost: a\r\nx-envoy-attempt-count: 50\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("it is answered");
    };
    let longest_worst_allowed = || {
        let shown = gain(&node, &[]);
        let called = at(&shown, PORT);
        [
            &called["longestChain"],
            &called["worstCase"]["multiplier"],
            &called["allowed"]["multiplier"],
        ]
        .map(|it| it.as_f64().expect("a number"))
    };
    claim();
    assert_eq!(longest_worst_allowed(), [1.0, 1.0, 1.0]);

    let storm = format!(
        "crowd 127.0.0.1:{PORT} --rate 4 --arrivals even --for 500ms --idempotency-key \
         --retry naive --tries 6 --delay 10ms"
    );
    lab.storm(&storm, LIMIT);
    claim();
    // The fourth was refused: the further ones are not told apart.
    assert_eq!(longest_worst_allowed(), [4.0, 4.0, 3.0]);

    // Nobody calls under the new policy.
    node.write_policy("one.yaml", &tries(1));
    eventually("it allows 2", || longest_worst_allowed() == [4.0, 4.0, 2.0]);
    node.ctl(["retries", "off", "--yes"]).expect_success();
    assert_eq!(longest_worst_allowed(), [4.0, 4.0, 1.0]);
    let idle = node
        .ctl(["gain", "--over", "100ms", "--capacity", "10"])
        .expect_success();
    assert!(idle.stdout.contains("cannot say"), "{}", idle.stdout);
}
