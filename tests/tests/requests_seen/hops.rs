//! A pod behind its host: each packet passes two devices of the host, and the executor is on both.

use std::net::{SocketAddr, TcpListener};

use governor_tests::dial::Dialler;
use governor_tests::governor::destination_of;
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::node::Node;
use governor_tests::veth::Veth;

use super::adoption::{POLICY, PORT};
use super::{OK, Wire, get, seen};

#[test]
fn a_request_that_passes_two_devices_is_one_and_is_refused_once() {
    let lab = Lab::new();
    let (pod, beyond) = (Netns::create(), Netns::create());
    let inner = Veth::between(&pod, lab.netns());
    let outer = Veth::between(lab.netns(), &beyond);
    lab.netns().sysctl("ipv4/ip_forward", "1");
    for (netns, gateway) in [(&pod, inner.right.v4), (&beyond, outer.left.v4)] {
        netns.ip(&["route", "add", "default", "via", &gateway.to_string()]);
    }
    let node = Node::new(&lab);
    node.write_policy("storm.yaml", POLICY);
    let daemon = node.start_daemon();
    let callers = Dialler::start(&lab.place().in_netns(&pod));
    let address = SocketAddr::new(outer.right.v4, PORT);
    let listener = beyond.run(|| TcpListener::bind(address)).unwrap();

    let mut wire = Wire::new(&listener, &callers, address);
    wire.exchange(get("/1"), OK);
    wire.say(&get("/2").as_bytes().chunks(9).collect::<Vec<_>>());
    wire.answer(&[OK]);
    wire.exchange(
        get("/3"),
        "HTTP/1.1 503 No\r\nx-should-retry: false\r\n\r\n",
    );
    let retry =
        "GET /3 HTTP/1.1\r\nHost: shop\r\nUser-Agent: till\r\nx-envoy-attempt-count: 2\r\n\r\n";
    let heard = wire.refused(retry);
    assert!(heard.starts_with("HTTP/1.1 503 "), "{heard}");

    let status = node.status();
    let destination = destination_of(&status, &address.to_string());
    assert_eq!(
        seen(destination),
        "3 sent, 2 well, 1 status 503, 1 denied notRetryable",
        "{destination}"
    );
    assert_eq!(destination["deniedAgain"], 0);
    daemon.stop().expect_success();
}
