//! Callers for tests: storms as whole processes, and one caller led step by step.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::place::Place;
use crate::process::Process;
use crate::storm::exchange::Speech;
use crate::storm::report::{Report, Try};
use crate::{artifact, must};

/// The command line of the storm client: `storm_client("tries 127.0.0.1:80 --tries 4")`.
pub fn storm_client(arguments: &str) -> Command {
    let mut command = Command::new(must(artifact::program("storm-client")));
    command.args(arguments.split_whitespace());
    command
}

/// A storm that runs in the background.
#[derive(Debug)]
pub struct Storm(Process);

impl Storm {
    /// Lets it loose.
    pub fn start(arguments: &str, place: &Place<'_>) -> Self {
        Self(Process::start(storm_client(arguments), place))
    }

    /// Waits for its end and tells what it did.
    #[track_caller]
    pub fn finish(self, limit: Duration) -> Report {
        let finished = self.0.finish(limit).expect_success();
        must(Report::parse(&finished.stdout))
    }

    /// Kills it midway.
    pub fn kill(self) {
        drop(self);
    }
}

/// One sequential caller (one process, one thread) that does what the test says.
#[derive(Debug)]
pub struct Caller {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Caller {
    /// Starts a caller of `address`.
    pub fn start(address: SocketAddr, speech: Speech, place: &Place<'_>) -> Self {
        let mut command = storm_client(&format!("remote {address} --speak {}", speech.name()));
        place.settle(&mut command);
        must(Self::spawn(command).context("cannot start a caller"))
    }

    fn spawn(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = child.stdin.take();
        let answers = child.stdout.take().context("no output")?;
        Ok(Self {
            child,
            commands,
            answers: BufReader::new(answers),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects, says what is to be said, closes.
    pub fn call(&mut self) -> Try {
        self.obey("call")
    }

    /// Opens a connection and keeps it under a name.
    pub fn open(&mut self, name: &str) -> Try {
        self.obey(&format!("open {name}"))
    }

    /// A request and its answer on an open connection.
    pub fn exchange(&mut self, name: &str) -> Try {
        self.obey(&format!("exchange {name}"))
    }

    /// The last request: half-closes before it reads the answer.
    pub fn finish(&mut self, name: &str) -> Try {
        self.obey(&format!("finish {name}"))
    }

    /// Closes a connection.
    pub fn close(&mut self, name: &str) -> Try {
        self.obey(&format!("close {name}"))
    }

    #[track_caller]
    fn obey(&mut self, command: &str) -> Try {
        must(
            self.try_obey(command)
                .with_context(|| format!("caller could not `{command}`")),
        )
    }

    fn try_obey(&mut self, command: &str) -> Result<Try> {
        let commands = self.commands.as_mut().context("no input")?;
        commands.write_all(format!("{command}\n").as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("it has ended")
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.commands = None;
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
