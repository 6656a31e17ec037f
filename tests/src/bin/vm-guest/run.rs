//! `retry-governor run` on the root cgroup: who is governed, how it is named, what orders do.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use governor_tests::caller::Caller;
use governor_tests::cgroup::Cgroup;
use governor_tests::governed::{denied, failures};
use governor_tests::governor::destination_of;
use governor_tests::place::Place;
use governor_tests::storm::exchange::Speech;
use governor_tests::storm::report::Outcome;
use serde_json::Value;

use crate::echo::{Echo, Silent};
use crate::load::{Ended, eventually, fleet, storm};
use crate::machine;
use crate::node::{self, Daemon, ctl, get, status};
use crate::report::{Checks, remark};

const PORT: u16 = 8080;
const AUTH: &str = "127.0.0.1:8080";
/// A pod as the kubelet names it, with a container inside.
const POD: &str = "kubepods-pod6a2f9a4e_0b1c_4f0e_9a57_2f1c8b7d6e5f.slice";
/// How long the daemon may take to learn of a cgroup.
const NOTICED: Duration = Duration::from_millis(300);
/// A breaker's longest open time, with its jitter and the ramp after it.
const BACK: Duration = Duration::from_secs(12);

/// Runs the checks. All with one daemon, in the order of a bad day.
pub fn check(checks: &mut Checks) {
    let slice = Cgroup::top("system.slice");
    let service = |name: &str| {
        let service = slice.child(&format!("{name}.service"));
        // inotify tells the daemon; systemd too needs a moment to start a process in it.
        thread::sleep(NOTICED);
        service
    };
    let unit = service("retry-governor");
    let (legacy, healthy) = (service("legacy"), service("healthy"));
    let mut daemon = None;
    checks.check("run takes the whole node, from its default paths", || {
        daemon = Some(takes_the_node(&unit))
    });
    checks.check("healthy traffic of a service is never denied", || {
        healthy_traffic(&healthy);
    });
    checks.check(
        "a storm of one service is kept away, and the status has its name",
        || storm_of(AUTH, &legacy),
    );
    checks.check("so is one over IPv6", || {
        storm_of("[::1]:8080", &service("legacy-v6"));
    });
    checks.check(
        "so is one of a pod with a network of its own, and its name is the pod's",
        storm_of_a_pod,
    );
    checks.check("a unit that a policy only audits loses nothing", || {
        audited(&service("bystander"));
    });
    checks.check(
        "callers of a port that swallows SYNs soon fail fast",
        || {
            swallowed(&service("patient"));
        },
    );
    checks.check("metrics answer and name the services", metrics);
    checks.check(
        "retries off refuses the retry of a sequential caller, and no first try",
        || retries_off(&service("sequential")),
    );
    checks.check("shed 100 refuses everything until it is off", || {
        shed(&service("shed"));
    });
    checks.check("breaker open refuses everything until it is let go", || {
        breaker_open(&service("held"));
    });
    checks.check(
        "a service that stormed is served again once the port is back",
        || served_again(&legacy),
    );
    drop(daemon);
}

fn takes_the_node(unit: &Cgroup) -> Daemon {
    node::write_policies();
    let daemon = Daemon::start(unit);
    let status = status();
    let hooks = status["kernel"]["hooks"].as_array().expect("hooks");
    let all: Vec<_> = hooks
        .iter()
        .filter(|hook| hook["attached"] == true)
        .collect();
    let at = |place: &str| all.iter().filter(|hook| hook["path"] == place).count();
    // Five judge at the cgroup; one carries out at the machine's one interface.
    assert_eq!((all.len(), at("/"), at("lo")), (6, 5, 1), "{hooks:?}");
    daemon
}

fn healthy_traffic(service: &Cgroup) {
    let place = Place::default().in_cgroup(service);
    let _server = Echo::start(PORT);
    for load in [
        "loop 127.0.0.1:8080 --speak line --rate 50 --for 3s",
        "loop [::1]:8080 --speak line --rate 50 --for 1s",
        "pool 127.0.0.1:8080 --connections 100 --for 1s",
        "keepalive 127.0.0.1:8080 --speak line --connections 10 --exchanges 10 --gap 50ms",
    ] {
        storm(load, &place).all(Outcome::Ok);
    }
    let status = status();
    let auth = destination_of(&status, "auth");
    assert_eq!((denied(auth), failures(auth)), (0, 0), "{auth}");
    workload(auth, "/system.slice/healthy.service");
}

/// The entry of a workload.
#[track_caller]
fn workload<'v>(destination: &'v Value, name: &str) -> &'v Value {
    let workloads = destination["workloads"].as_array().expect("workloads");
    let found = workloads.iter().find(|entry| entry["workload"] == name);
    found.unwrap_or_else(|| panic!("no workload {name} in {destination}"))
}

/// A storm against the refusing port from a cgroup; what became of it.
#[track_caller]
fn kept_away(ended: &Ended, name: &str) {
    ended.all(Outcome::Refused);
    let (tries, syns) = (ended.report.tries.len() as u64, ended.syns);
    remark(format_args!("{name}: {syns} of {tries} connects left"));
    assert!((7..=25).contains(&syns), "{syns} of {tries} left");
    let status = status();
    let seen = workload(destination_of(&status, "auth"), name);
    assert_eq!(seen["attempts"], syns, "{seen}");
    assert_eq!(seen["denied"], tries - syns, "{seen}");
}

fn storm_of(address: &str, cgroup: &Cgroup) {
    let ended = fleet(address, &Place::default().in_cgroup(cgroup));
    kept_away(&ended, &cgroup.name());
}

fn storm_of_a_pod() {
    let slice = Cgroup::top("kubepods.slice");
    let pod = slice.child(POD);
    let container = pod.child("cri-containerd-0f3c.scope");
    thread::sleep(NOTICED);
    let place = Place::default().in_cgroup(&container);
    let ended = machine::in_another_network(|| fleet(AUTH, &place));
    kept_away(&ended, &pod.name());
}

fn audited(service: &Cgroup) {
    let ended = fleet(AUTH, &Place::default().in_cgroup(service));
    assert_eq!(ended.syns as usize, ended.report.tries.len());
    let status = status();
    let seen = destination_of(&status, AUTH);
    assert_eq!(seen["mode"], "Audit", "{seen}");
    assert!(seen["wouldDeny"]["breaker"].as_u64() > Some(0), "{seen}");
}

fn swallowed(service: &Cgroup) {
    let _server = Silent::start(8082);
    let load = "loop 127.0.0.1:8082 --rate 20 --threads 40 --for 6s --connect-timeout 1s";
    let ended = storm(load, &Place::default().in_cgroup(service));
    let Ended { report, syns } = &ended;
    let (silent, refused) = (
        report.count(Outcome::ConnectTimeout),
        report.count(Outcome::Refused),
    );
    remark(format_args!(
        "{silent} waited in vain, {refused} were refused at once"
    ));
    assert_eq!(silent as u64, *syns);
    assert!(silent >= 7 && refused > silent, "{:?}", report.summary());
    let status = status();
    let seen = destination_of(&status, "silent");
    assert_eq!(seen["failures"]["timeout"], *syns, "{seen}");
}

fn metrics() {
    let (code, text) = get("/metrics").expect("an answer");
    assert_eq!(code, 200);
    for hook in [
        "connect4",
        "connect6",
        "sock_ops",
        "skb_egress",
        "skb_ingress",
    ] {
        let line = format!("retry_governor_hook_attached{{hook=\"{hook}\"}} 1");
        assert!(text.lines().any(|it| it == line), "no {line} in {text}");
    }
    let of_legacy = "retry_governor_denied_total{destination=\"auth\",workload=\"/system.slice/legacy.service\",reason=\"breaker\",mode=\"enforce\"}";
    assert!(text.contains(of_legacy), "no {of_legacy} in {text}");
    assert_eq!(get("/healthz").expect("an answer").0, 200);
}

/// Calls once; whether a SYN left.
fn call(caller: &mut Caller) -> (Outcome, u64) {
    let before = machine::syns();
    let outcome = caller.call().outcome;
    (outcome, machine::syns() - before)
}

fn caller(service: &Cgroup) -> Caller {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    Caller::start(address, Speech::Line, &Place::default().in_cgroup(service))
}

/// A thread that is known to call every second, and now comes back at once after a failure.
fn retries_off(service: &Cgroup) {
    let mut caller = caller(service);
    let server = Echo::start(PORT);
    for _ in 0..6 {
        assert_eq!(call(&mut caller), (Outcome::Ok, 1));
        thread::sleep(Duration::from_secs(1));
    }
    drop(server);
    ctl("retries off --yes --for 1m");
    assert_eq!(status()["retries"]["state"], "Disabled");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(call(&mut caller), (Outcome::Refused, 1), "a first try");
    assert_eq!(call(&mut caller), (Outcome::Refused, 0), "its retry");
    ctl("retries on");
    assert_eq!(status()["retries"]["state"], "Enabled");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(call(&mut caller), (Outcome::Refused, 1), "a first try");
    assert_eq!(call(&mut caller), (Outcome::Refused, 1), "its retry");
}

fn shed(service: &Cgroup) {
    let mut caller = caller(service);
    let _server = Echo::start(PORT);
    assert_eq!(call(&mut caller), (Outcome::Ok, 1));
    ctl("shed 100 --for 1m");
    assert_eq!(call(&mut caller), (Outcome::Refused, 0));
    ctl("shed off");
    assert_eq!(call(&mut caller), (Outcome::Ok, 1));
}

fn breaker_open(service: &Cgroup) {
    let mut caller = caller(service);
    let _server = Echo::start(PORT);
    assert_eq!(call(&mut caller), (Outcome::Ok, 1));
    ctl("breaker open auth --for 1m");
    assert_eq!(call(&mut caller), (Outcome::Refused, 0));
    ctl("breaker auto auth");
    assert_eq!(call(&mut caller), (Outcome::Ok, 1));
}

fn served_again(service: &Cgroup) {
    let mut caller = caller(service);
    let _server = Echo::start(PORT);
    eventually("it is served", BACK, || {
        caller.call().outcome == Outcome::Ok
    });
    // The ramp after it.
    thread::sleep(Duration::from_secs(2));
    let place = Place::default().in_cgroup(service);
    let after = storm(
        "loop 127.0.0.1:8080 --speak line --rate 20 --for 2s",
        &place,
    );
    after.all(Outcome::Ok);
}
