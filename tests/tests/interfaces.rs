//! Where `run` and `exec` attach the executor, and that they follow what comes and goes. All in
//! networks of the test's own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use aya::programs::{ProgramInfo, SchedClassifier, TcAttachType};
use aya::sys::{Stats, enable_stats};
use governor_tests::bench::empty;
use governor_tests::governor::{exec, retry_governor};
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::node::{Daemon, Node};
use governor_tests::process::{self, Process};
use governor_tests::server::Behaviour;
use governor_tests::storm::report::Outcome;
use governor_tests::veth::Veth;
use nix::sys::signal::Signal;
use serde_json::Value;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(30);
/// A change is heard at once; the machine may be busy.
const NOTICED: Duration = Duration::from_secs(10);
const EGRESS: &str = "act_egress";
const INGRESS: &str = "act_ingress";

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + NOTICED;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {NOTICED:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What runs at a device, in order.
fn at(netns: &Netns, device: &str, direction: TcAttachType) -> Vec<ProgramInfo> {
    let query = || SchedClassifier::query_tcx(device, direction);
    netns
        .run(query)
        .map_or(Vec::new(), |(_, programs)| programs)
}

fn names(netns: &Netns, device: &str, direction: TcAttachType) -> Vec<String> {
    let name = |program: &ProgramInfo| program.name_as_str().unwrap_or_default().to_owned();
    at(netns, device, direction).iter().map(name).collect()
}

fn egress(netns: &Netns, device: &str) -> Vec<String> {
    names(netns, device, TcAttachType::Egress)
}

fn ingress(netns: &Netns, device: &str) -> Vec<String> {
    names(netns, device, TcAttachType::Ingress)
}

/// Both ends of a wire in one namespace: a device like any other.
fn add(netns: &Netns, name: &str) {
    let peer = format!("{name}p");
    netns.ip(&["link", "add", name, "type", "veth", "peer", "name", &peer]);
}

fn set(netns: &Netns, name: &str, what: &[&str]) {
    netns.ip(&[&["link", "set", name], what].concat());
}

/// The hooks of a status, as name and place.
fn hooks(status: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hooks = status["kernel"]["hooks"].as_array().expect("hooks");
    let acting = hooks
        .iter()
        .filter(|hook| text(&hook["name"]).starts_with("act_"));
    acting
        .map(|hook| (text(&hook["name"]), text(&hook["path"])))
        .collect()
}

fn run_on(node: &Node<'_>, interface: &str) -> Command {
    let mut command = node.run_command();
    command.args(["--interface", interface]);
    command
}

/// The pins of executors.
fn pins(daemon: &Daemon<'_>) -> Vec<String> {
    let root = PathBuf::from(format!(
        "/proc/{}/root/sys/fs/bpf/retry-governor",
        daemon.pid()
    ));
    let versions = fs::read_dir(root).into_iter().flatten().flatten();
    let links = versions.flat_map(|version| fs::read_dir(version.path().join("links")));
    let links = links.flatten().flatten();
    let names = links.map(|link| link.file_name().to_string_lossy().into_owned());
    let mut pins: Vec<_> = names.filter(|name| name.starts_with("act_")).collect();
    pins.sort();
    pins
}

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

#[test]
fn an_exec_governs_the_devices_of_its_command_and_leaves_none_governed() {
    let lab = Lab::new();
    let netns = lab.netns();
    add(netns, "there");
    set(netns, "there", &["up"]);
    let mut governed = retry_governor(["exec", "--", "sleep", "60"]);
    governed.env("LANG", "C");
    let process = Process::start(governed, &lab.place());
    eventually("lo and what is up are governed", || {
        egress(netns, "lo") == [EGRESS] && egress(netns, "there") == [EGRESS]
    });
    add(netns, "later");
    set(netns, "later", &["up"]);
    eventually("so is what comes later", || {
        egress(netns, "later") == [EGRESS]
    });
    process.signal(Signal::SIGKILL);
    drop(process);
    eventually("a killed exec governs nothing", || {
        ["lo", "there", "later"]
            .iter()
            .all(|device| egress(netns, device).is_empty())
    });
}

#[test]
fn an_exec_takes_the_interfaces_that_it_is_given() {
    let lab = Lab::new();
    add(lab.netns(), "there");
    set(lab.netns(), "there", &["up"]);
    let of = |interface: &str| {
        let executed = exec(
            &lab,
            &["--interface", interface],
            &Command::new("true"),
            LIMIT,
        );
        assert_eq!(executed.code(), 0, "{}", executed.finished.stderr);
        hooks(&executed.summary.expect("a summary"))
    };
    let egress_of = |device: &str| (EGRESS.to_owned(), device.to_owned());
    assert_eq!(of("none"), []);
    assert_eq!(of("lo"), [egress_of("lo")]);
    let mut all = of("auto");
    all.sort();
    assert_eq!(all, [egress_of("lo"), egress_of("there")]);
}

#[test]
fn a_name_that_nobody_has_is_refused_with_nothing_done() {
    let lab = Lab::new();
    let refused = exec(
        &lab,
        &["--interface", "lo,absent"],
        &Command::new("true"),
        LIMIT,
    );
    assert_eq!(refused.code(), 2);
    assert_eq!(
        refused.finished.stderr,
        "error: --interface absent: there is no such interface in this network namespace (there \
         are: lo)\n"
    );
    let node = Node::new(&lab);
    let refused = process::run(run_on(&node, "absent"), &node.place(), LIMIT);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    let nothing = process::run(retry_governor(["detach"]), &node.place(), LIMIT).expect_success();
    assert!(
        nothing.stdout.contains("nothing of ours"),
        "{}",
        nothing.stdout
    );
}

#[test]
fn where_no_interface_is_up_connects_are_governed_and_it_is_told() {
    let lab = Lab::new();
    set(lab.netns(), "lo", &["down"]);
    let executed = exec(&lab, &[], &Command::new("true"), LIMIT);
    assert_eq!(executed.code(), 0);
    let told = executed
        .finished
        .stderr
        .lines()
        .filter(|line| line.contains("interface"));
    assert_eq!(told.count(), 1, "{}", executed.finished.stderr);
}

#[test]
fn doctor_says_what_is_reached_and_what_is_delayed() {
    let lab = Lab::new();
    add(lab.netns(), "there");
    set(lab.netns(), "there", &["up"]);
    let node = Node::new(&lab);
    let report = process::run(retry_governor(["doctor", "--json"]), &node.place(), LIMIT);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let found = |check: &str| {
        let checks = report["checks"].as_array().expect("checks");
        let check = checks
            .iter()
            .find(|it| it["check"] == check)
            .expect("a check");
        check["found"].as_str().expect("text").to_owned()
    };
    let reached = found("interfaces");
    assert!(reached.starts_with("lo, there by TCX"), "{reached}");
    assert!(reached.contains("therep is down"), "{reached}");
    assert_eq!(found("pacing"), "no fq: there");
    assert!(
        egress(lab.netns(), "lo").is_empty(),
        "doctor attaches nothing"
    );
}

/// The same, as root without that privilege.
fn without_sys_admin(command: &Command) -> Command {
    let mut lesser = Command::new("setpriv");
    lesser.args(["--bounding-set=-sys_admin", "--inh-caps=-all"]);
    lesser.arg(command.get_program()).args(command.get_args());
    lesser
}

#[test]
fn without_cap_sys_admin_all_is_attached_and_doctor_says_what_is_lost() {
    let lab = Lab::new();
    let node = Node::new(&lab);
    let daemon = Process::start(without_sys_admin(&node.run_command()), &node.place());
    eventually("it is ready", || {
        node.socket().exists() && node.get("/readyz").0 == 200
    });
    let status = node.status();
    assert_eq!(hooks(&status), [(EGRESS.to_owned(), "lo".to_owned())]);
    let hooks = status["kernel"]["hooks"].as_array().expect("hooks");
    assert!(
        hooks.iter().all(|hook| hook["attached"] == true),
        "{status}"
    );

    // Something is attached, whose name may not be asked.
    let doctor = without_sys_admin(&retry_governor(["doctor", "--json"]));
    let report = process::run(doctor, &node.place(), LIMIT).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let check = |name: &str| checks.iter().find(|it| it["check"] == name);
    let privileges = check("privileges").expect("a check");
    assert_eq!(privileges["state"], "Degraded", "{report}");
    assert_eq!(privileges["found"], "without CAP_SYS_ADMIN");
    assert_eq!(check("interfaces").expect("a check")["found"], "lo by TCX");

    daemon.signal(Signal::SIGTERM);
    daemon.finish(LIMIT).expect_success();
    assert!(egress(lab.netns(), "lo").is_empty());
}
