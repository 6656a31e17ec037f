//! Processes that end with their guard, and whose output has a deadline.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::place::Place;
use crate::{leash, must};

const POLL: Duration = Duration::from_millis(2);
/// As many characters of an output as a failed test shows.
const TAIL: usize = 4000;

/// A running process, its output collected in the background. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

/// What an ended process left.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// From its start until its end was noticed here.
    pub took: Duration,
}

impl Process {
    /// Starts `command` in `place`, with no input.
    pub fn start(mut command: Command, place: &Place<'_>) -> Self {
        leash::check(&command, place);
        place.settle(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let what = command.get_program().to_string_lossy().into_owned();
        let mut child = must(
            command
                .spawn()
                .with_context(|| format!("cannot start {what}")),
        );
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self {
            what,
            child,
            stdout,
            stderr,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it alone.
    pub fn signal(&self, signal: Signal) {
        must(
            kill(pid_of(&self.child), signal)
                .with_context(|| format!("cannot signal {}", self.what)),
        );
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end and its output. Panics when that takes longer than `limit`.
    #[track_caller]
    pub fn finish(self, limit: Duration) -> Finished {
        let started = Instant::now();
        must(self.try_finish(started, limit))
    }

    fn try_finish(mut self, started: Instant, limit: Duration) -> Result<Finished> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(
                started.elapsed() < limit,
                "{} (pid {}) did not end within {limit:?}",
                self.what,
                self.pid()
            );
            thread::sleep(POLL);
        };
        let took = started.elapsed();
        // A grandchild that keeps the pipe open must not hang the test.
        while [&self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .any(|reader| !reader.is_finished())
        {
            ensure!(
                started.elapsed() < limit,
                "{} ended, but something keeps its output open",
                self.what
            );
            thread::sleep(POLL);
        }
        Ok(Finished {
            status,
            stdout: text(self.stdout.take())?,
            stderr: text(self.stderr.take())?,
            took,
        })
    }
}

impl Process {
    /// For a test that fails while this still runs: what it said is often the reason.
    fn show_output(&mut self) {
        let deadline = Instant::now() + Duration::from_millis(200);
        for (name, pipe) in [
            ("stdout", self.stdout.take()),
            ("stderr", self.stderr.take()),
        ] {
            let Some(reader) = pipe else { continue };
            while !reader.is_finished() && Instant::now() < deadline {
                thread::sleep(POLL);
            }
            if reader.is_finished() {
                let output = text(Some(reader)).unwrap_or_default();
                let tail = output
                    .char_indices()
                    .rev()
                    .nth(TAIL)
                    .map_or(0, |(at, _)| at);
                eprintln!(
                    "{} (pid {}) {name}: {}",
                    self.what,
                    self.child.id(),
                    &output[tail..]
                );
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            self.show_output();
        }
    }
}

impl Finished {
    /// Panics with the output unless the process ended with code 0.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        let Self {
            status,
            stdout,
            stderr,
            ..
        } = &self;
        assert!(
            status.success(),
            "ended with {status}\nstdout: {stdout}\nstderr: {stderr}"
        );
        self
    }
}

/// Runs `command` in `place` to its end.
#[track_caller]
pub fn run(command: Command, place: &Place<'_>, limit: Duration) -> Finished {
    Process::start(command, place).finish(limit)
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the output; what came before it counts.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn text(reader: Option<JoinHandle<String>>) -> Result<String> {
    let reader = reader.context("output already taken")?;
    reader
        .join()
        .map_err(|_| anyhow!("the reader of an output died"))
}
