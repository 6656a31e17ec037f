//! Where and when the lab ran: figures without it are worth little.

use std::fmt::Display;
use std::process::Command;
use std::time::SystemTime;
use std::{fs, thread};

use serde::Serialize;

/// What was played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Program {
    /// The scenarios.
    Lab,
    /// The comparison with proxies.
    Peers,
}

/// Where, when and of what.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// What was played.
    pub program: Program,
    /// Which of its scenarios, by name; none: all of them.
    pub named: Vec<String>,
    /// How many those are: where fewer were played, it was stopped.
    pub planned: usize,
    /// When the report was written, UTC: `2026-11-30T06:15:02Z`.
    pub date: String,
    /// `fast`, `usual` or `full`.
    pub length: String,
    /// Processor, cores, memory.
    pub machine: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the governor, and of its source where that is known.
    pub version: String,
}

impl About {
    /// This run, on this machine, of the scenarios of these names: none are all, of which there are
    /// `planned`.
    pub fn this_run(
        program: Program,
        named: &[&str],
        planned: usize,
        length: impl Display,
    ) -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            program,
            named: named.iter().map(|name| (*name).to_owned()).collect(),
            planned,
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            length: length.to_string(),
            machine: machine(),
            kernel: release.map_or_else(|_| UNKNOWN.to_owned(), |it| it.trim().to_owned()),
            version: version(),
        }
    }

    /// The command line that plays all of it again, as long as it was.
    pub fn again(&self) -> String {
        self.command(&self.named.join(" "))
    }

    /// The one that plays this scenario: of the comparison, all of it.
    pub fn again_one(&self, name: &str) -> String {
        self.command(name)
    }

    fn command(&self, names: &str) -> String {
        let line = match (self.program, self.length.as_str()) {
            (Program::Lab, "fast") => format!("sudo target/debug/storm-lab --fast {names}"),
            (Program::Lab, "full") => format!("cargo xtask lab --full {names}"),
            (Program::Lab, _) => format!("cargo xtask lab {names}"),
            (Program::Peers, "fast") => "cargo xtask bench peers --quick".to_owned(),
            (Program::Peers, _) => "cargo xtask bench peers".to_owned(),
        };
        line.trim_end().to_owned()
    }
}

const UNKNOWN: &str = "unknown";

/// `Some CPU, 2 cores, 8 GB`
fn machine() -> String {
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| UNKNOWN.to_owned());
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let memory = field("/proc/meminfo", "MemTotal");
    let kilobytes = memory.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok());
    let memory = kilobytes.map_or_else(String::new, |it| format!(", {:.0} GB", it / 1e6));
    format!("{processor}, {cores} cores{memory}")
}

/// The value of the first `name: value` line.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// `0.1.0 (4051ae9)`; a `-dirty` says that the source was not as committed.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    // The lab runs as root on a tree that may be somebody else's, which git refuses otherwise.
    let git = Command::new("git")
        .args(["-c", "safe.directory=*", "describe", "--always", "--dirty"])
        .output();
    match git {
        Ok(said) if said.status.success() => {
            format!(
                "{version} ({})",
                String::from_utf8_lossy(&said.stdout).trim()
            )
        }
        _ => version.to_owned(),
    }
}
