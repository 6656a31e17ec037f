//! A client that works in the background until it is stopped, and when each of its operations ended.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

use super::{Ended, RealClient, Work, line};
use crate::must;
use crate::place::Place;
use crate::storm::report::monotonic_micros;

/// An operation and the time of its end, microseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// When its line was read here.
    pub at: u64,
    /// What the line said.
    pub ended: Ended,
}

impl Told {
    /// When the operation began.
    pub fn began(&self) -> u64 {
        self.at.saturating_sub(self.ended.took.as_micros() as u64)
    }
}

/// A running client. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    told: Option<JoinHandle<Vec<Told>>>,
}

impl RealClient {
    /// Starts it on `work` against a server, named as for [`RealClient::command`].
    pub fn start(self, base: &str, work: &Work, place: &Place<'_>) -> Running {
        let mut command = self.command(base, work);
        place.settle(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut spawn = || -> Result<_> {
            let mut child = command.spawn()?;
            let output = child.stdout.take().context("no output")?;
            Ok((child, output))
        };
        let (child, output) = must(spawn().with_context(|| format!("cannot start {self:?}")));
        Running {
            child,
            told: Some(thread::spawn(move || listen(output))),
        }
    }
}

/// Until the client ends; a line that its end cut off is none.
fn listen(output: ChildStdout) -> Vec<Told> {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    lines
        .filter_map(|text| {
            let ended = line(&text).ok()?;
            Some(Told {
                at: monotonic_micros(),
                ended,
            })
        })
        .collect()
}

impl Running {
    /// Ends it, and tells what it told. Its operation under way is none.
    #[track_caller]
    pub fn stop(mut self) -> Vec<Told> {
        self.end();
        let told = self.told.take().map(JoinHandle::join);
        match told {
            Some(Ok(told)) => told,
            _ => panic!("the reader of a client died"),
        }
    }

    fn end(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
