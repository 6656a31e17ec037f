//! Where `run` and `exec` attach the executor, and that they follow what comes and goes. All in
//! networks of the test's own.

mod exec;
mod followed;
mod left;
mod told;

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
