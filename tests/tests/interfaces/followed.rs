//! The daemon governs the devices that are up, as they come and go.

use super::*;

#[test]
fn a_device_is_governed_from_when_it_comes_up_until_it_goes() {
    let lab = Lab::new();
    let netns = lab.netns();
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    assert_eq!(egress(netns, "lo"), [EGRESS]);
    assert!(ingress(netns, "lo").is_empty());

    add(netns, "one");
    set(netns, "one", &["up"]);
    eventually("it is governed", || egress(netns, "one") == [EGRESS]);
    assert!(egress(netns, "onep").is_empty(), "its other end is down");
    set(netns, "one", &["down"]);
    eventually("it is let go", || egress(netns, "one").is_empty());
    set(netns, "one", &["name", "two"]);
    set(netns, "two", &["up"]);
    eventually("it is governed by its new name", || {
        egress(netns, "two") == [EGRESS]
    });
    assert_eq!(pins(&daemon).len(), 2);
    let (_, metrics) = node.get("/metrics");
    let line = "retry_governor_hook_attached{hook=\"act_egress/two\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    netns.ip(&["link", "delete", "two"]);
    eventually("nothing is kept of it", || pins(&daemon).len() == 1);
    assert_eq!(
        hooks(&node.status()),
        [(EGRESS.to_owned(), "lo".to_owned())]
    );
    daemon.stop().expect_success();
    assert!(egress(netns, "lo").is_empty());
}

#[test]
fn many_devices_at_once_are_all_governed() {
    let lab = Lab::new();
    let netns = lab.netns();
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    // One process makes them all: more messages than are heard one by one.
    let lines =
        (0..60).map(|n| format!("link add m{n} type veth peer name n{n}\nlink set m{n} up\n"));
    let scratch = std::env::temp_dir().join(format!("{}-batch", netns.name()));
    fs::write(&scratch, lines.collect::<String>()).unwrap();
    netns.ip(&["-batch", scratch.to_str().unwrap()]);
    fs::remove_file(&scratch).unwrap();
    for n in 0..60 {
        let name = format!("m{n}");
        eventually(&name, || egress(netns, &name) == [EGRESS]);
    }
    assert_eq!(pins(&daemon).len(), 61);
    daemon.stop().expect_success();
    assert!((0..60).all(|n| egress(netns, &format!("m{n}")).is_empty()));
}

#[test]
fn a_container_is_reached_where_its_wire_comes_in() {
    let lab = Lab::new();
    let container = Netns::create();
    let host_side = Veth::between(lab.netns(), &container).left.device;
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    assert_eq!(ingress(lab.netns(), &host_side), [INGRESS]);
    assert_eq!(egress(lab.netns(), &host_side), [EGRESS]);

    let bridge = ["link", "add", "bridge", "type", "bridge"];
    lab.netns().ip(&bridge);
    set(lab.netns(), "bridge", &["up"]);
    set(lab.netns(), &host_side, &["master", "bridge"]);
    eventually("as a port it is reached from the container only", || {
        egress(lab.netns(), &host_side).is_empty()
    });
    assert_eq!(ingress(lab.netns(), &host_side), [INGRESS]);
    eventually("the bridge itself carries what the host sends", || {
        egress(lab.netns(), "bridge") == [EGRESS]
    });
    daemon.stop().expect_success();
    assert!(ingress(lab.netns(), &host_side).is_empty());
}
