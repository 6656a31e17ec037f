//! The `retry-governor` binary under test: `exec` around a command, `run` as a daemon.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bpffs::BpfFs;
use crate::lab::Lab;
use crate::place::Place;
use crate::process::{self, Finished, Process};
use crate::{artifact, must, names};

/// How long a command line without a load of its own may take.
const SHORT: Duration = Duration::from_secs(20);
const METRICS: &str = "127.0.0.1:9478";

/// The binary with these arguments, nothing else set.
pub fn retry_governor<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(must(artifact::program("retry-governor")));
    command.args(arguments);
    command
}

/// What an `exec` left.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Exit status, output, duration.
    pub finished: Finished,
    /// What `--json-summary` wrote; absent where the run ended before that.
    pub summary: Option<Value>,
}

impl Executed {
    /// The exit code; 128+N where a signal ended it.
    pub fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = self.finished.status;
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    /// The entry of `destination` in the summary.
    #[track_caller]
    pub fn destination(&self, destination: &str) -> &Value {
        let summary = self.summary.as_ref().expect("exec wrote no summary");
        destination_of(summary, destination)
    }
}

/// Runs `retry-governor exec OPTIONS --json-summary FILE -- COMMAND` among the lab's callers.
#[track_caller]
pub fn exec(lab: &Lab, options: &[&str], command: &Command, limit: Duration) -> Executed {
    let scratch = Scratch::new();
    let summary = scratch.path("summary.json");
    let mut governed = retry_governor(["exec"]);
    governed
        .args(options)
        .arg("--json-summary")
        .arg(&summary)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => governed.env(name, value),
            None => governed.env_remove(name),
        };
    }
    let finished = lab.run(governed, limit);
    let text = fs::read_to_string(&summary).ok();
    let summary = text.map(|text| {
        must(serde_json::from_str(&text).with_context(|| format!("not a summary: {text}")))
    });
    Executed { finished, summary }
}

/// A running daemon that governs the lab's cgroup only, with a socket, policies and pins of its own.
#[derive(Debug)]
pub struct Daemon<'a> {
    lab: &'a Lab,
    process: Process,
    scratch: Scratch,
    bpffs: BpfFs,
}

impl<'a> Daemon<'a> {
    /// Starts it with these policies (file name, content) and waits until it is ready.
    #[track_caller]
    pub fn start(lab: &'a Lab, policies: &[(&str, &str)]) -> Self {
        let (scratch, bpffs) = (Scratch::new(), BpfFs::mount());
        must(fs::create_dir(scratch.path("policies")).context("cannot make a policy directory"));
        for (name, content) in policies {
            must(
                fs::write(scratch.path("policies").join(name), content)
                    .context("cannot write a policy"),
            );
        }
        let process = start_ready(lab, &scratch, &bpffs);
        Self {
            lab,
            process,
            scratch,
            bpffs,
        }
    }

    /// Kills it as `kill -9` does and starts it anew over what it left.
    pub fn crash_and_restart(&mut self) {
        self.crash();
        self.process = start_ready(self.lab, &self.scratch, &self.bpffs);
    }

    /// Kills it as `kill -9` does.
    pub fn crash(&mut self) {
        self.process.signal(nix::sys::signal::Signal::SIGKILL);
        let deadline = Instant::now() + SHORT;
        while self.process.is_running() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The running process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Writes a policy file; the daemon notices by itself.
    pub fn write_policy(&self, name: &str, content: &str) {
        must(
            fs::write(self.scratch.path("policies").join(name), content)
                .context("cannot write a policy"),
        );
    }

    /// Runs a command of the binary against this daemon's socket: `ctl(["breaker", "open", "auth"])`.
    #[track_caller]
    pub fn ctl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
        let mut command = retry_governor(arguments);
        command
            .arg("--socket")
            .arg(self.scratch.path("control.sock"));
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
        must(get(self.lab, path).with_context(|| format!("GET {path}")))
    }

    fn place(&self) -> Place<'_> {
        Place::default()
            .in_netns(self.lab.netns())
            .with_bpffs(&self.bpffs)
    }
}

/// Starts the daemon and waits until it says that it is ready; if it ends instead, its own words are the failure.
#[track_caller]
fn start_ready(lab: &Lab, scratch: &Scratch, bpffs: &BpfFs) -> Process {
    let mut process = launch(lab, scratch, bpffs);
    let deadline = Instant::now() + SHORT;
    while !matches!(get(lab, "/readyz"), Ok((200, _))) {
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
    process
}

fn launch(lab: &Lab, scratch: &Scratch, bpffs: &BpfFs) -> Process {
    let mut command = retry_governor(["run", "--listen", METRICS]);
    command.arg("--cgroup").arg(lab.cgroup().path());
    command.arg("--policy-dir").arg(scratch.path("policies"));
    command.arg("--socket").arg(scratch.path("control.sock"));
    // The daemon lives outside the cgroup that it governs, as on a node.
    Process::start(
        command,
        &Place::default().in_netns(lab.netns()).with_bpffs(bpffs),
    )
}

fn get(lab: &Lab, path: &str) -> Result<(u16, String)> {
    let text = lab.netns().run(|| -> Result<String> {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: governor\r\nConnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    })?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of headers")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("no status")?;
    Ok((status, body.to_owned()))
}

/// The entry of `destination` in a status or a summary.
#[track_caller]
pub fn destination_of<'v>(status: &'v Value, destination: &str) -> &'v Value {
    let destinations = status["destinations"].as_array().into_iter().flatten();
    let found = destinations
        .into_iter()
        .find(|entry| entry["destination"] == destination);
    found.unwrap_or_else(|| panic!("no destination {destination} in {status}"))
}

/// A directory for one daemon's or command's files.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(names::unique());
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        must(made.with_context(|| format!("cannot make {}", path.display())));
        Self(path)
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("harness: {} stays: {error}", self.0.display());
        }
    }
}
