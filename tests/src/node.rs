//! A node for the daemon: a home that outlives it, so that a crashed one can be started anew.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bpffs::BpfFs;
use crate::cgroup::Cgroup;
use crate::governor::retry_governor;
use crate::lab::Lab;
use crate::must;
use crate::place::Place;
use crate::process::{self, Finished, Process};
use crate::scratch::Scratch;

/// How long the daemon may take to come up or go, and a command line to answer.
const SHORT: Duration = Duration::from_secs(20);
const HOSTS: &str = "/etc/hosts";
const LISTEN: &str = "127.0.0.1:9478";

/// Policies, control socket, pins and metrics address of one daemon at a time. It governs the lab's
/// callers and lives in a cgroup of its own beside them, as on a node.
#[derive(Debug)]
pub struct Node<'a> {
    lab: &'a Lab,
    cgroup: Cgroup,
    scratch: Scratch,
    bpffs: BpfFs,
    hosts: PathBuf,
}

/// A running daemon. Dropping it kills it as `kill -9` does.
#[derive(Debug)]
pub struct Daemon<'a> {
    node: &'a Node<'a>,
    process: Process,
}

impl<'a> Node<'a> {
    /// A node without policies.
    pub fn new(lab: &'a Lab) -> Self {
        let scratch = Scratch::new();
        must(fs::create_dir(scratch.path("policies")).context("cannot make a policy directory"));
        let hosts = scratch.path("hosts");
        must(fs::copy(HOSTS, &hosts).with_context(|| format!("cannot copy {HOSTS}")));
        Self {
            lab,
            cgroup: Cgroup::create("daemon"),
            scratch,
            bpffs: BpfFs::mount(),
            hosts,
        }
    }

    /// Gives a host these addresses, and takes those of all others away that were given before.
    pub fn name_host(&self, name: &str, addresses: &[IpAddr]) {
        let written = fs::read_to_string(HOSTS).and_then(|mut hosts| {
            for address in addresses {
                hosts += &format!("\n{address} {name}");
            }
            // In place: what is bound over the node's own is this file.
            fs::write(&self.hosts, hosts + "\n")
        });
        must(written.with_context(|| format!("cannot name host {name}")));
    }

    /// Writes a policy file; a running daemon notices by itself.
    pub fn write_policy(&self, name: &str, content: &str) {
        let written = fs::write(self.scratch.path("policies").join(name), content);
        must(written.with_context(|| format!("cannot write policy {name}")));
    }

    /// Removes a policy file.
    pub fn remove_policy(&self, name: &str) {
        let removed = fs::remove_file(self.scratch.path("policies").join(name));
        must(removed.with_context(|| format!("cannot remove policy {name}")));
    }

    /// Starts the daemon and waits until it says that it is ready. If it ends instead, its own
    /// words are the failure.
    #[track_caller]
    pub fn start_daemon(&'a self) -> Daemon<'a> {
        let mut process = Process::start(self.run_command(), &self.place());
        let deadline = Instant::now() + SHORT;
        while !matches!(self.try_get("/readyz"), Ok((200, _))) {
            if !process.is_running() {
                let Finished { status, stderr, .. } = process.finish(SHORT);
                panic!("the daemon ended before it was ready: {status}: {stderr}");
            }
            assert!(
                Instant::now() < deadline,
                "the daemon was not ready within {SHORT:?}"
            );
            thread::sleep(Duration::from_millis(20));
        }
        Daemon {
            node: self,
            process,
        }
    }

    /// The command line of `run` for this node, for those who want to see it fail.
    pub fn run_command(&self) -> Command {
        let mut command = retry_governor(["run", "--listen", LISTEN]);
        command.arg("--cgroup").arg(self.lab.cgroup().path());
        command
            .arg("--policy-dir")
            .arg(self.scratch.path("policies"));
        command.arg("--socket").arg(self.socket());
        command
    }

    /// The daemon's control socket.
    pub fn socket(&self) -> PathBuf {
        self.scratch.path("control.sock")
    }

    /// Where the daemon and its command lines live.
    pub fn place(&self) -> Place<'_> {
        Place::new(self.lab.netns(), &self.cgroup)
            .with_bpffs(&self.bpffs)
            .with_hosts(&self.hosts)
    }

    /// Runs a command of the binary against this node's socket: `ctl(["breaker", "open", "auth"])`.
    #[track_caller]
    pub fn ctl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
        let mut command = retry_governor(arguments);
        command.arg("--socket").arg(self.socket());
        process::run(command, &self.place(), SHORT)
    }

    /// `status --json`.
    #[track_caller]
    pub fn status(&self) -> Value {
        let status = self.ctl(["status", "--json"]).expect_success();
        must(serde_json::from_str(&status.stdout).context("status is no JSON"))
    }

    /// `GET path` on the metrics address: status and body.
    #[track_caller]
    pub fn get(&self, path: &str) -> (u16, String) {
        must(self.try_get(path).with_context(|| format!("GET {path}")))
    }

    fn try_get(&self, path: &str) -> Result<(u16, String)> {
        let answer = self.lab.netns().run(|| -> Result<String> {
            let mut stream = TcpStream::connect(LISTEN)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: governor\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no end of headers")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok((status, body.to_owned()))
    }
}

impl Daemon<'_> {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGHUP: reload.
    pub fn reload(&self) {
        self.process.signal(Signal::SIGHUP);
    }

    /// SIGTERM, then waits for a clean end.
    #[track_caller]
    pub fn stop(self) -> Finished {
        self.process.signal(Signal::SIGTERM);
        self.process.finish(SHORT)
    }

    /// `kill -9`: what it made stays with the node.
    pub fn crash(self) {
        drop(self);
    }

    /// The node it runs on.
    pub fn node(&self) -> &Node<'_> {
        self.node
    }
}
