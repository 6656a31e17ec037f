//! A daemon that starts in the middle of a storm: the pools are older than itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::thread::sleep;
use std::time::Duration;

use governor_tests::dial::Dialler;
use governor_tests::governor::destination_of;
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::node::Node;
use governor_tests::veth::Veth;
use serde_json::Value;

use super::outcomes::{A_WHILE, reset};
use super::{BUSY, OK, Wire, get, listen, mapped, seen, v6};

pub const PORT: u16 = 8080;
const POOL: usize = 60;
pub const POLICY: &str = "{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {name: storm}, \
     spec: {mode: Enforce, circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}}}\n";

/// Wires of which each was used before the daemon came.
fn pool(count: usize, listener: &TcpListener, callers: &Dialler, address: SocketAddr) -> Vec<Wire> {
    let old = |_| {
        let mut wire = Wire::new(listener, callers, address);
        wire.exchange(get("/old"), OK);
        wire
    };
    (0..count).map(old).collect()
}

fn retry(number: usize) -> String {
    format!(
        "GET /{number} HTTP/1.1\r\nHost: shop\r\nUser-Agent: till\r\nx-envoy-attempt-count: 2\r\n\r\n"
    )
}

/// Sends a retry; whether it reached the server, else it was refused.
fn reaches(wire: &mut Wire, request: &str) -> bool {
    wire.caller.write_all(request.as_bytes()).unwrap();
    let mut heard = vec![0; request.len()];
    match wire.server.read_exact(&mut heard) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            let mut answer = String::new();
            wire.caller.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("x-retry-governor: budget\r\n"), "{answer}");
            false
        }
    }
}

fn a_pool_is_governed(lab: &Lab, listener: &TcpListener, address: SocketAddr) {
    let node = Node::new(lab);
    node.write_policy("storm.yaml", POLICY);
    let callers = Dialler::start(&lab.place());
    let mut pool = pool(POOL, listener, &callers, address);
    let daemon = node.start_daemon();
    for (number, wire) in pool.iter_mut().enumerate() {
        wire.exchange(get(&format!("/{number}")), BUSY);
    }
    let mut reached = 0;
    for (number, wire) in pool.iter_mut().enumerate() {
        if reaches(wire, &retry(number)) {
            wire.answer(&[BUSY]);
            reached += 1;
        }
    }
    let status = node.status();
    let canonical = SocketAddr::new(address.ip().to_canonical(), address.port());
    let destination = destination_of(&status, &canonical.to_string());
    println!("{destination}");
    let counts = &destination["requests"];
    // An executor is known to reach a socket once a packet has passed it.
    assert_eq!(counts["unreached"], POOL);
    assert_eq!(counts["firstOnConnection"], 0);
    assert_eq!(counts["sent"], POOL + reached);
    assert_eq!(destination["retries"], reached);
    assert_eq!(destination["denied"]["budget"], POOL - reached);
    assert_eq!(destination["failures"]["status"]["503"], POOL + reached);
    assert!((1..POOL / 2).contains(&reached), "{reached} retries passed");
    daemon.stop().expect_success();
}

#[test]
fn a_pool_on_loopback_that_is_older_than_the_daemon_is_governed_without_a_redial() {
    let lab = Lab::new();
    a_pool_is_governed(&lab, &listen(&lab, PORT), lab.address(PORT));
}

#[test]
fn a_pool_over_a_wire_that_is_older_than_the_daemon_is_governed_without_a_redial() {
    let lab = Lab::new();
    let elsewhere = Netns::create();
    let veth = Veth::between(lab.netns(), &elsewhere);
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let listener = elsewhere.run(|| TcpListener::bind(everywhere)).unwrap();
    a_pool_is_governed(&lab, &listener, SocketAddr::new(veth.right.v4, PORT));
    a_pool_is_governed(&lab, &listener, SocketAddr::new(veth.right.v6, PORT));
}

/// They have no callbacks: their packets tell.
#[test]
fn how_an_old_connection_ends_is_seen() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("storm.yaml", POLICY);
    let callers = Dialler::start(&lab.place());
    let mut wires = pool(5, &listen(&lab, PORT), &callers, lab.address(PORT));
    let daemon = node.start_daemon();
    for (number, wire) in wires.iter_mut().enumerate() {
        wire.exchange(get(&format!("/well/{number}")), OK);
        wire.say(&[get(&format!("/{number}"))]);
    }
    sleep(A_WHILE);
    let [closes, resets, gives_up, half, bad] = wires.try_into().ok().unwrap();
    drop(closes.server);
    reset(&resets);
    drop(resets.server);
    drop(gives_up.caller);
    // A head that ends with the connection, in one segment.
    let mut bad: Wire = bad;
    bad.answer(&["HTTP/1.1 502 Bad\r\nServer"]);
    drop(bad.server);
    let mut half: Wire = half;
    half.answer(&[OK]);
    half.say(&[get("/last")]);
    half.caller.shutdown(std::net::Shutdown::Write).unwrap();
    half.answer(&[OK]);
    sleep(Duration::from_millis(50));
    let status = node.status();
    let destination = destination_of(&status, &format!("127.0.0.1:{PORT}"));
    assert_eq!(
        seen(destination),
        "11 sent, 5 out of reach, 6 well, 1 noAnswer, 1 reset, 1 timeout, 1 status 502",
        "{destination}"
    );
    daemon.stop().expect_success();
}

/// Addresses of the callers' own server, by the names that destinations have.
#[test]
fn what_a_server_of_the_same_cgroup_accepted_is_not_taken_for_a_caller() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("storm.yaml", POLICY);
    let callers = Dialler::start(&lab.place());
    let everywhere = callers.listen((Ipv6Addr::UNSPECIFIED, PORT).into());
    let v4_only = callers.listen(lab.address(PORT + 1));
    let mut wires = pool(1, &everywhere, &callers, lab.address(PORT));
    wires.extend(pool(1, &everywhere, &callers, v6(PORT)));
    wires.extend(pool(1, &everywhere, &callers, mapped(PORT)));
    wires.extend(pool(1, &v4_only, &callers, lab.address(PORT + 1)));
    let daemon = node.start_daemon();
    for wire in &mut wires {
        for number in 0..3 {
            wire.exchange(get(&format!("/{number}")), OK);
        }
        // A server that speaks first.
        wire.answer(&["hello"]);
    }
    let status = node.status();
    let called = |entry: &Value| (entry["destination"].to_string(), seen(entry));
    let destinations = status["destinations"].as_array().unwrap();
    let mut called: Vec<_> = destinations.iter().map(called).collect();
    called.sort();
    let expected = [
        ("\"127.0.0.1:8080\"", "6 sent, 2 out of reach, 6 well"),
        ("\"127.0.0.1:8081\"", "3 sent, 1 out of reach, 3 well"),
        ("\"[::1]:8080\"", "3 sent, 1 out of reach, 3 well"),
    ]
    .map(|(name, what)| (name.to_owned(), what.to_owned()));
    assert_eq!(called, expected);
    daemon.stop().expect_success();
}

#[test]
fn old_connections_in_the_middle_of_something_are_read_from_their_next_request_on() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("storm.yaml", POLICY);
    let callers = Dialler::start(&lab.place());
    let wires = pool(4, &listen(&lab, PORT), &callers, lab.address(PORT));
    let [mut body, mut answer, mut chunked, mut redis] = wires.try_into().ok().unwrap();
    body.say(&["POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 12\r\n\r\nsome"]);
    answer.say(&[get("/")]);
    chunked.say(&["POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n"]);
    let daemon = node.start_daemon();
    body.say(&["data", "more"]);
    chunked.say(&["4\r\ndata\r\n", "0\r\n\r\n"]);
    for wire in [&mut body, &mut answer, &mut chunked] {
        wire.answer(&[BUSY]);
        for path in ["/1", "/2"] {
            wire.exchange(get(path), OK);
        }
    }
    let status = node.status();
    let destination = destination_of(&status, &format!("127.0.0.1:{PORT}"));
    let expected = "6 sent, 1 out of reach, 6 well";
    assert_eq!(seen(destination), expected, "{destination}");
    // Of another protocol, the first turn is not told from the middle of a body.
    for _ in 0..3 {
        redis.exchange("*1\r\n$4\r\nPING\r\n", "+PONG\r\n");
    }
    redis.say(&["*1\r\n$4\r\nPING\r\n"]);
    drop(redis.server);
    sleep(Duration::from_millis(50));
    let status = node.status();
    let destination = destination_of(&status, &format!("127.0.0.1:{PORT}"));
    let expected = "6 sent, 1 out of reach, 8 well, 1 noAnswer";
    assert_eq!(seen(destination), expected, "{destination}");
    daemon.stop().expect_success();
}

/// I8: `run` without a policy only observes, and requests are observed, too.
#[test]
fn without_a_policy_requests_are_seen_all_the_same() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    let callers = Dialler::start(&lab.place());
    let listener = listen(&lab, PORT);
    let mut wire = Wire::new(&listener, &callers, lab.address(PORT));
    wire.exchange(get("/1"), OK);
    for _ in 0..30 {
        wire.exchange(retry(2), BUSY);
    }
    let status = node.status();
    let destination = destination_of(&status, &format!("127.0.0.1:{PORT}"));
    let expected = "31 sent, 1 well, 30 status 503, 30 retries";
    assert_eq!(seen(destination), expected, "{destination}");
    daemon.stop().expect_success();
}
