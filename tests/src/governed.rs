//! Loads under `exec`: what they did as their callers saw it, and as the governor counted it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::governor::{Executed, exec};
use crate::lab::Lab;
use crate::scratch::Scratch;
use crate::storm::report::Report;
use crate::{artifact, must};

/// A policy for `exec`: its file, which goes with this guard.
#[derive(Debug)]
pub struct PolicyFile(Scratch);

impl PolicyFile {
    /// A policy in Enforce mode for every destination; `spec` is the rest of its `spec`, in flow
    /// style: `"circuitBreaker: {mode: Disabled}"`.
    pub fn enforce(spec: &str) -> Self {
        Self::write("Enforce", spec)
    }

    /// The same in Audit mode.
    pub fn audit(spec: &str) -> Self {
        Self::write("Audit", spec)
    }

    fn write(mode: &str, spec: &str) -> Self {
        let scratch = Scratch::new();
        let text = format!(
            "{{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {{name: test}}, spec: {{mode: {mode}, {spec}}}}}\n"
        );
        must(fs::write(scratch.path("policy.yaml"), text).context("cannot write a policy"));
        Self(scratch)
    }

    /// The value of `--policy`.
    pub fn path(&self) -> String {
        self.0.path("policy.yaml").display().to_string()
    }
}

/// Both sides of a load.
#[derive(Clone, Debug)]
pub struct Governed {
    /// Every try, as its caller saw it.
    pub report: Report,
    /// What `exec` left.
    pub executed: Executed,
}

/// Runs a shell script under `exec` among the lab's callers; in it, `storm-client` is the storm client.
/// All that the script starts is one workload.
#[track_caller]
pub fn script(lab: &Lab, options: &[&str], script: &str, limit: Duration) -> Governed {
    let client = must(artifact::program("storm-client"));
    let mut shell = Command::new("sh");
    let script = script.replace("storm-client", &client.display().to_string());
    shell.args(["-e", "-c", &script]);
    let executed = exec(lab, options, &shell, limit);
    println!("{}", executed.finished.stderr);
    let finished = executed.finished.clone().expect_success();
    Governed {
        report: must(Report::parse(&finished.stdout)),
        executed,
    }
}

/// Runs one storm client under `exec`.
#[track_caller]
pub fn storm(lab: &Lab, options: &[&str], arguments: &str, limit: Duration) -> Governed {
    script(
        lab,
        options,
        &format!("exec storm-client {arguments}"),
        limit,
    )
}

/// Attempts that were denied, for whatever reason, in an entry of a status.
#[track_caller]
pub fn denied(destination: &Value) -> u64 {
    sum(&destination["denied"])
}

/// Failures of whatever kind in an entry of a status.
#[track_caller]
pub fn failures(destination: &Value) -> u64 {
    sum(&destination["failures"])
}

/// The counts of an object and of the objects in it.
#[track_caller]
fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().expect("an object of counts");
    let count = |value: &Value| value.as_u64().unwrap_or_else(|| sum(value));
    counts.values().map(count).sum()
}
