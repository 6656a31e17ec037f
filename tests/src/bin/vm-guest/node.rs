//! The daemon as a package would start it: no option but what is default.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use aya::maps::loaded_maps;
use aya::programs::{loaded_links, loaded_programs};
use governor_tests::cgroup::Cgroup;
use governor_tests::governor::retry_governor;
use governor_tests::place::Place;
use governor_tests::process::{self, Finished, Process};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::load::{LIMIT, eventually};

/// How long the kernel may take to free what was detached.
const FREED: Duration = Duration::from_secs(10);
/// Where the default `--listen` is.
const LISTEN: &str = "127.0.0.1:9478";
const POLICIES: &str = "/etc/retry-governor/policies";
const SOCKET: &str = "/run/retry-governor/control.sock";
const PINS: &str = "/sys/fs/bpf/retry-governor";

/// Ports: `auth` is called by everyone, `silent` swallows SYNs. A breaker stays open for 5 s at
/// least, so that a check that runs late on a slow machine still finds it open. The bystander is
/// observed only.
const ENFORCE: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: enforced}
spec:
  mode: Enforce
  destinations:
    - {name: auth, cidrs: [127.0.0.1/32, \"::1/128\"], ports: [8080]}
    - {name: silent, cidrs: [127.0.0.1/32], ports: [8082]}
  circuitBreaker: {openDuration: {base: 5s, max: 5s}}
---
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: bystander}
spec:
  mode: Audit
  workloads: [{cgroup: \"/system.slice/bystander.service\"}]
";

/// A running daemon in a unit of its own. Dropped, it is killed with SIGKILL, which leaves its
/// programs, its links and its maps.
#[derive(Debug)]
pub struct Daemon(Process);

/// Writes the policies.
pub fn write_policies() {
    fs::create_dir_all(POLICIES).expect("a place for policies");
    fs::write(Path::new(POLICIES).join("node.yaml"), ENFORCE).expect("a policy file");
}

impl Daemon {
    /// Starts it in its unit and waits until it is ready. If it ends instead, its own words are
    /// the failure.
    #[track_caller]
    pub fn start(unit: &Cgroup) -> Self {
        let place = Place::default().in_cgroup(unit);
        let mut process = Process::start(retry_governor(["run"]), &place);
        for _ in 0..LIMIT.as_millis() / 100 {
            if get("/readyz").is_some_and(|(code, _)| code == 200) {
                return Self(process);
            }
            if !process.is_running() {
                let Finished { status, stderr, .. } = process.finish(LIMIT);
                panic!("the daemon ended before it was ready: {status}: {stderr}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the daemon is not ready within {LIMIT:?}");
    }

    /// SIGTERM, then waits for its end.
    #[track_caller]
    pub fn stop(self) -> Finished {
        self.0.signal(Signal::SIGTERM);
        self.0.finish(LIMIT).expect_success()
    }

    /// `kill -9`.
    pub fn kill(self) {
        drop(self);
    }
}

/// Runs a command of the binary that must succeed.
#[track_caller]
pub fn ctl(arguments: &str) -> Finished {
    let command = retry_governor(arguments.split(' '));
    process::run(command, &Place::default(), LIMIT).expect_success()
}

/// `status --json`.
#[track_caller]
pub fn status() -> Value {
    serde_json::from_str(&ctl("status --json").stdout).expect("status is JSON")
}

/// `GET path` on the metrics address: status and body.
pub fn get(path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(LISTEN).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// What is loaded in this kernel, of whomever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    programs: usize,
    links: usize,
    maps: usize,
}

impl Loaded {
    /// Now.
    pub fn now() -> Self {
        Self {
            programs: loaded_programs().map_while(Result::ok).count(),
            links: loaded_links().map_while(Result::ok).count(),
            maps: loaded_maps().map_while(Result::ok).count(),
        }
    }
}

/// Fails unless all of ours goes: programs, links, maps, pins, socket, cgroups. The kernel frees
/// what is detached a moment later.
#[track_caller]
pub fn nothing_is_left(bare: Loaded) {
    eventually("the kernel has freed all", FREED, || Loaded::now() == bare);
    assert!(!Path::new(PINS).exists(), "{PINS} is left");
    let root = fs::read_dir("/sys/fs/cgroup").expect("the cgroup root");
    let ours: Vec<_> = root
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("retry-governor"))
        .collect();
    assert!(ours.is_empty(), "cgroups are left: {ours:?}");
}

/// Whether a daemon that ended well has taken its socket with it.
pub fn socket_exists() -> bool {
    Path::new(SOCKET).exists()
}
