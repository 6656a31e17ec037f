//! What a daemon leaves, and what another finds: its successor, `detach`, programs of others.

use super::*;

#[test]
fn a_killed_daemon_leaves_its_executors_and_its_successor_takes_their_place() {
    let lab = Lab::new();
    let netns = lab.netns();
    add(netns, "stays");
    add(netns, "goes");
    set(netns, "stays", &["up"]);
    set(netns, "goes", &["up"]);
    let node = Node::new(&lab);
    node.start_daemon().crash();
    let left = at(netns, "stays", TcAttachType::Egress);
    assert_eq!(left.len(), 1);
    netns.ip(&["link", "delete", "goes"]);
    set(netns, "lo", &["down"]);
    set(netns, "lo", &["up"]);

    let daemon = node.start_daemon();
    let ours = at(netns, "stays", TcAttachType::Egress);
    assert_eq!(ours.len(), 1, "one, and not two");
    assert_ne!(ours[0].id(), left[0].id(), "the successor's");
    assert_eq!(egress(netns, "lo"), [EGRESS]);
    assert_eq!(
        pins(&daemon).len(),
        2,
        "of the device that went nothing is left"
    );
    daemon.crash();

    // A successor that governs no interface leaves none governed.
    let daemon = Process::start(run_on(&node, "none"), &node.place());
    eventually("what was left is removed", || {
        egress(netns, "stays").is_empty() && egress(netns, "lo").is_empty()
    });
    daemon.signal(Signal::SIGTERM);
    daemon.finish(LIMIT).expect_success();
}

#[test]
fn what_is_detached_by_order_does_not_come_back() {
    let lab = Lab::new();
    let netns = lab.netns();
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    assert_eq!(egress(netns, "lo"), [EGRESS]);
    node_detach(&node);
    assert!(egress(netns, "lo").is_empty());
    add(netns, "new");
    set(netns, "new", &["up"]);
    thread::sleep(Duration::from_millis(500));
    assert!(egress(netns, "new").is_empty() && egress(netns, "lo").is_empty());
    daemon.stop().expect_success();

    let daemon = node.start_daemon();
    daemon.crash();
    node_detach(&node);
    assert!(egress(netns, "lo").is_empty() && egress(netns, "new").is_empty());
}

fn node_detach(node: &Node<'_>) {
    process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
}

#[test]
fn anothers_program_goes_on_and_so_does_ours_whoever_came_first() {
    let lab = Lab::new();
    let netns = lab.netns();
    let _server = lab.http_server(PORT, Behaviour::Answer);
    let _statistics = enable_stats(Stats::RunTime).unwrap();
    // It says OK, which ends the run: whatever comes after it never sees a packet.
    let mut first = empty::load().unwrap();
    let mut second = empty::load().unwrap();
    let attach = |ebpf: &mut aya::Ebpf| {
        let program: &mut SchedClassifier = ebpf.program_mut("law").unwrap().try_into().unwrap();
        program.load().unwrap();
        netns
            .run(|| program.attach("lo", TcAttachType::Egress).map(drop))
            .unwrap();
    };
    attach(&mut first);
    let node = Node::new(&lab);
    let daemon = node.start_daemon();
    attach(&mut second);
    assert_eq!(egress(netns, "lo"), [EGRESS, "law", "law"]);

    let report = lab.storm(
        &format!("loop 127.0.0.1:{PORT} --rate 100 --count 20"),
        LIMIT,
    );
    assert_eq!(report.count(Outcome::Ok), 20);
    let runs: Vec<_> = at(netns, "lo", TcAttachType::Egress)
        .iter()
        .map(ProgramInfo::run_count)
        .collect();
    assert!(runs[0] > 20 && runs[1] > 20, "{runs:?}");
    assert_eq!(
        runs[2], 0,
        "{runs:?}: the first of the others ends the run, not ours"
    );
    daemon.stop().expect_success();
    assert_eq!(egress(netns, "lo"), ["law", "law"]);
}
