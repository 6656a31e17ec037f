//! A hostile workload. It may lose what is its own: what its neighbours are allowed, and what is said
//! of them, stays as it is.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::caller::{Caller, Storm};
use governor_tests::governed::denied;
use governor_tests::governor::{destination_of, workload_of};
use governor_tests::lab::Lab;
use governor_tests::node::Node;
use governor_tests::process::{self, Process};
use governor_tests::server::Behaviour;
use governor_tests::storm::exchange::Speech;
use governor_tests::storm::report::Outcome;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(60);
const NEIGHBOUR: &str = "loop 127.0.0.1:8080 --speak http --rate 50 --for 8s";
const ENFORCE: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: all}
spec: {mode: Enforce}
";

const SELECTS_LATE: &str = "{mode: Enforce, workloads: [{cgroup: /late}]}";

/// An attack, in a language in which a socket can be mistreated.
fn python(attack: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", attack]);
    command
}

#[test]
fn a_workload_whose_probes_hang_does_not_starve_a_slow_neighbour() {
    let lab = Lab::new();
    let (evil, neighbour) = (lab.cgroup().child("evil"), lab.cgroup().child("neighbour"));
    let server = lab.http_server(PORT, Behaviour::Refuse);
    let node = Node::new(&lab);
    node.write_policy("all.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    // Both breakers open. From then on no attempt of the evil one ever reports: its source address
    // is none, which the kernel says after the governor has judged.
    let attack = "
import socket, time
def attempt(hang):
    s = socket.socket()
    if hang:
        s.setsockopt(socket.IPPROTO_IP, 15, 1)
        s.bind(('192.0.2.1', 0))
    try: s.connect(('127.0.0.1', 8080))
    except OSError: pass
    s.close()
for _ in range(20): attempt(False)
end = time.time() + 40
while time.time() < end:
    attempt(True)
    time.sleep(0.01)
";
    let _evil = Process::start(python(attack), &lab.place().in_cgroup(&evil));
    let place = lab.place().in_cgroup(&neighbour);
    let mut slow = Caller::start(lab.address(PORT), Speech::Http, &place);
    for _ in 0..20 {
        slow.call();
    }
    thread::sleep(Duration::from_secs(4));
    server.set(Behaviour::Answer);
    let back = Instant::now();
    while slow.call().outcome != Outcome::Ok {
        // Slower than the second for which a waiter was remembered before.
        thread::sleep(Duration::from_millis(2_300));
        assert!(back.elapsed() < Duration::from_secs(30), "still refused");
    }
    println!("served again after {:?}", back.elapsed());
    // One lost probe, its own open time, two of its own pauses.
    assert!(back.elapsed() < Duration::from_secs(16));
}

#[test]
fn a_socket_that_connects_to_itself_is_no_failure() {
    let lab = Lab::new();
    let evil = lab.cgroup().child("evil");
    let node = Node::new(&lab);
    node.write_policy("all.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let itself = "
import socket, struct
for _ in range(30):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('127.0.0.1', 7777))
    s.connect(('127.0.0.1', 7777))
    s.sendall(b'hello')
    assert s.recv(5) == b'hello'
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
";
    process::run(python(itself), &lab.place().in_cgroup(&evil), LIMIT).expect_success();
    let status = node.status();
    let destination = destination_of(&status, "127.0.0.1:7777");
    assert_eq!(denied(destination), 0, "{destination:#}");
    assert_eq!(destination["failures"]["refused"], 0, "{destination:#}");
}

#[test]
fn a_workload_that_scans_addresses_costs_its_neighbour_neither_an_attempt_nor_its_events() {
    let lab = Lab::new();
    let (evil, neighbour) = (lab.cgroup().child("evil"), lab.cgroup().child("neighbour"));
    let _server = lab.http_server(PORT, Behaviour::Answer);
    let node = Node::new(&lab);
    node.write_policy("all.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let place = lab.place().in_cgroup(&neighbour);
    let calls = Storm::start(NEIGHBOUR, &place);
    let mut dead = Caller::start(lab.address(81), Speech::Http, &place);
    for _ in 0..20 {
        dead.call();
    }
    // 2,000 endpoints whose breakers open, each denied every second, then 20,000 more.
    let scan = "
import socket
def attempt(block, host, port):
    s = socket.socket()
    s.setblocking(False)
    try: s.connect((f'127.{block}.{host // 200}.{1 + host % 200}', port))
    except OSError: pass
    return s
for turn in range(16):
    for host in range(2000): attempt(1, host, 9).close()
for host in range(20000): attempt(2, host, 9).close()
";
    process::run(python(scan), &lab.place().in_cgroup(&evil), LIMIT).expect_success();
    let calls = calls.finish(LIMIT);
    assert_eq!(calls.count(Outcome::Ok), calls.tries.len());
    // What was not told is told of once its second is over.
    thread::sleep(Duration::from_secs(2));
    let events = node.ctl(["events"]).expect_success().stdout;
    let told = events.lines().filter(|line| line.contains("neighbour"));
    assert!(
        told.clone().any(|line| line.contains("breaker open")),
        "{events}"
    );
    assert!(events.contains("more events of this workload"), "{events}");

    let status = node.status();
    let passed = status["unjudged"]["ledgerFull"].as_u64();
    assert!(passed >= Some(10_000), "what is beyond its part is counted");
    let healthy = destination_of(&status, "127.0.0.1:8080");
    assert_eq!(workload_of(healthy, "neighbour")["denied"], 0);
    // In flight comes to nothing once it is parked.
    thread::sleep(Duration::from_millis(2_300));
    let metrics = node.get("/metrics").1;
    let values = metrics.lines().filter(|line| !line.starts_with('#'));
    for line in values {
        let value: f64 = line
            .rsplit(' ')
            .next()
            .map_or(Ok(0.0), str::parse)
            .expect("a number");
        assert!((0.0..1e15).contains(&value), "{line}");
        assert!(!line.contains("in_flight{") || value == 0.0, "{line}");
    }
}

#[test]
fn a_container_full_of_cgroups_costs_a_pod_that_comes_later_nothing_of_its_policy() {
    let lab = Lab::new();
    let evil = lab.cgroup().child("evil");
    let node = Node::new(&lab);
    let policy = ENFORCE.replace("{mode: Enforce}", SELECTS_LATE);
    node.write_policy("late.yaml", &policy);
    let _daemon = node.start_daemon();
    for number in 0..17_000 {
        let path = evil.path().join(format!("{number}"));
        fs::create_dir(path).expect("a cgroup below its own");
    }
    // The daemon looks every five seconds.
    thread::sleep(Duration::from_secs(6));
    let late = lab.cgroup().child("late");
    thread::sleep(Duration::from_secs(1));
    let storm = Storm::start(
        "loop 127.0.0.1:9 --rate 100 --for 3s",
        &lab.place().in_cgroup(&late),
    );
    storm.finish(LIMIT);
    let status = node.status();
    let destination = destination_of(&status, "127.0.0.1:9");
    assert!(denied(destination) > 100, "{destination:#}");
}
