//! The `retry-governor` binary under test, and `exec` around a command ([`crate::node`] has the daemon).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::lab::Lab;
use crate::process::Finished;
use crate::scratch::Scratch;
use crate::{artifact, must};

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
    /// What `--json-summary` wrote; absent (the file is empty) where the run ended before that.
    pub summary: Option<Value>,
}

impl Executed {
    /// The exit code; 128+N where a signal ended it.
    pub fn code(&self) -> i32 {
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
    let summary = text.filter(|text| !text.is_empty()).map(|text| {
        must(serde_json::from_str(&text).with_context(|| format!("not a summary: {text}")))
    });
    Executed { finished, summary }
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

/// The entry of a workload, by the end of its path, in the entry of a destination.
#[track_caller]
pub fn workload_of<'v>(destination: &'v Value, name: &str) -> &'v Value {
    let workloads = destination["workloads"].as_array().into_iter().flatten();
    let found = workloads.into_iter().find(|entry| {
        entry["workload"]
            .as_str()
            .is_some_and(|path| path.ends_with(name))
    });
    found.unwrap_or_else(|| panic!("no workload {name} in {destination}"))
}
