//! What a storm did, try by try.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// How a try ended, as the caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Connected, and answered where an answer was wanted.
    Ok,
    /// ECONNREFUSED: by the peer or by the governor.
    Refused,
    /// EHOSTUNREACH or ENETUNREACH.
    Unreachable,
    /// No connection in time.
    ConnectTimeout,
    /// Connected, then reset.
    Reset,
    /// Closed by the peer before the answer was whole.
    NoAnswer,
    /// Connected, then silence until the caller's patience ended.
    AnswerTimeout,
    /// An answer with a status of 400 or more.
    Status,
    /// No connection of the caller's own pool became free within its patience: nothing was sent.
    PoolTimeout,
    /// Another error of the system, see `errno`.
    Other,
}

/// The ways in which a try can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How it ended, never `Ok`.
    pub outcome: Outcome,
    /// The system's error, where there was one.
    pub errno: Option<i32>,
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
    /// The governor answered, and says so. A connect that it refuses is [`Outcome::Refused`] like any
    /// other: the caller cannot tell.
    pub denied: bool,
}

impl Failure {
    /// One that says no more than this.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            errno: None,
            status: None,
            denied: false,
        }
    }
}

/// One try: one line of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// When it began: microseconds of CLOCK_MONOTONIC, the same clock in all processes and in the kernel programs.
    pub t: u64,
    /// The process that tried.
    pub pid: u32,
    /// The operation it belongs to, counted by its process.
    pub op: u64,
    /// 1 for the first try of an operation.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The system's error, where there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errno: Option<i32>,
    /// The status of a failed HTTP answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The governor answered, and says so.
    #[serde(skip_serializing_if = "is_not", default)]
    pub denied: bool,
    /// How long it took, in microseconds; the wait for a connection of a pool is in it.
    pub micros: u64,
    /// That wait, in microseconds.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub waited: u64,
}

fn is_not(denied: &bool) -> bool {
    !denied
}

fn is_zero(micros: &u64) -> bool {
    *micros == 0
}

/// Microseconds of CLOCK_MONOTONIC.
pub fn monotonic_micros() -> u64 {
    let clock = nix::time::ClockId::CLOCK_MONOTONIC.now();
    // The call fails only for a clock that the kernel does not know; this one is always there.
    clock
        .map(|now| Duration::from(now).as_micros() as u64)
        .unwrap_or(0)
}

impl Try {
    /// A try that began at `t` and ends now.
    pub fn ended(t: u64, op: u64, attempt: u32, result: Result<(), Failure>) -> Self {
        let failure = result.err();
        Self {
            t,
            pid: std::process::id(),
            op,
            attempt,
            outcome: failure.map_or(Outcome::Ok, |failure| failure.outcome),
            errno: failure.and_then(|failure| failure.errno),
            status: failure.and_then(|failure| failure.status),
            denied: failure.is_some_and(|failure| failure.denied),
            waited: 0,
            micros: monotonic_micros().saturating_sub(t),
        }
    }

    /// Prints the line in one write: lines of many processes in one pipe stay whole (PIPE_BUF).
    pub fn print(&self) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line)
    }

    /// Its latency.
    pub fn latency(&self) -> Duration {
        Duration::from_micros(self.micros)
    }
}

/// All tries of a storm.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In order of their end.
    pub tries: Vec<Try>,
    /// How well an open loop kept its pace; `None` for other loads.
    pub pace: Option<Pace>,
}

/// The last line of a storm, as far as it is read.
#[derive(Deserialize)]
struct End {
    summary: Told,
}

/// Of the totals, what the tries do not tell.
#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    pace: Option<Pace>,
}

/// How well an open loop kept its pace. Where it did not, its figures are those of the load, not of
/// the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// At most one operation in a hundred began later than by a slot of the service (50 ms), and no
    /// try failed for want of a port or a descriptor.
    pub kept: bool,
    /// Operations that began later than that. A herd is not in it.
    pub late: usize,
    /// How late an operation began: 99th percentile, microseconds. A herd is not in it.
    pub p99_late_micros: u64,
    /// The latest of them.
    pub max_late_micros: u64,
    /// How long it took until the last of a herd began, microseconds.
    pub herd_micros: u64,
    /// Tries that failed for want of a port, a descriptor or memory.
    pub own_faults: usize,
    /// Operations that were given up when the load ended.
    pub given_up: usize,
    /// Most operations open at one moment.
    pub most_open: usize,
}

/// The totals, as the last line of a storm shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Operations begun: first tries.
    pub operations: usize,
    /// Operations that ended well, by a first try or a later one.
    pub succeeded: usize,
    /// All tries.
    pub tries: usize,
    /// Tries after the first.
    pub retries: usize,
    /// Processes that tried.
    pub processes: usize,
    /// Tries that the governor answered.
    pub denied: usize,
    /// Tries by outcome.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// Median latency of a try in microseconds.
    pub p50_micros: u64,
    /// 99th percentile of the same.
    pub p99_micros: u64,
    /// How well an open loop kept its pace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pace: Option<Pace>,
}

impl Report {
    /// Reads the lines of a storm; of the summary at their end only the pace: the totals are computed
    /// anew from the tries.
    pub fn parse(lines: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in lines.lines() {
            if line.starts_with("{\"summary\"") {
                let end: End =
                    serde_json::from_str(line).with_context(|| format!("not a summary: {line}"))?;
                report.pace = end.summary.pace;
            } else {
                let each = serde_json::from_str(line);
                report
                    .tries
                    .push(each.with_context(|| format!("not a try: {line}"))?);
            }
        }
        Ok(report)
    }

    /// These tries of the same storm.
    fn of(&self, is_one: impl Fn(&Try) -> bool) -> Self {
        Self {
            tries: self
                .tries
                .iter()
                .filter(|each| is_one(each))
                .cloned()
                .collect(),
            pace: self.pace,
        }
    }

    /// How many tries ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.tries
            .iter()
            .filter(|each| each.outcome == outcome)
            .count()
    }

    /// The tries that ended so.
    pub fn with(&self, outcome: Outcome) -> Self {
        self.of(|each| each.outcome == outcome)
    }

    /// The first tries of operations.
    pub fn first_tries(&self) -> Self {
        self.of(|each| each.attempt == 1)
    }

    /// The tries that began in `length` from `t` on (see [`Try::t`]).
    pub fn within(&self, t: u64, length: Duration) -> Self {
        let end = t + length.as_micros() as u64;
        self.of(|each| (t..end).contains(&each.t))
    }

    /// The latency that `percent` of the tries did not exceed; zero without tries.
    pub fn latency(&self, percent: f64) -> Duration {
        let mut micros: Vec<u64> = self.tries.iter().map(|each| each.micros).collect();
        micros.sort_unstable();
        let rank = (micros.len() as f64 * percent / 100.0).ceil() as usize;
        Duration::from_micros(micros.get(rank.saturating_sub(1)).copied().unwrap_or(0))
    }

    /// The totals.
    pub fn summary(&self) -> Summary {
        let mut outcomes = BTreeMap::new();
        for each in &self.tries {
            *outcomes.entry(each.outcome).or_insert(0) += 1;
        }
        let operations = self.tries.iter().filter(|each| each.attempt == 1).count();
        let pids: std::collections::BTreeSet<u32> =
            self.tries.iter().map(|each| each.pid).collect();
        Summary {
            operations,
            // An operation ends with its first success.
            succeeded: self.count(Outcome::Ok),
            tries: self.tries.len(),
            retries: self.tries.len() - operations,
            processes: pids.len(),
            denied: self.tries.iter().filter(|each| each.denied).count(),
            outcomes,
            p50_micros: self.latency(50.0).as_micros() as u64,
            p99_micros: self.latency(99.0).as_micros() as u64,
            pace: self.pace,
        }
    }

    /// Prints the last line of a storm.
    pub fn print_summary(&self) -> io::Result<()> {
        let line = serde_json::json!({ "summary": self.summary() });
        writeln!(io::stdout().lock(), "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_of(op: u64, attempt: u32, outcome: Outcome, micros: u64) -> Try {
        Try {
            t: op * 1000,
            pid: 1,
            op,
            attempt,
            outcome,
            errno: None,
            status: None,
            denied: false,
            micros,
            waited: 0,
        }
    }

    #[test]
    fn a_report_survives_its_own_lines() {
        let tries = vec![
            try_of(0, 1, Outcome::Refused, 5),
            try_of(0, 2, Outcome::Ok, 7),
        ];
        let lines: Vec<String> = tries
            .iter()
            .map(|each| serde_json::to_string(each).unwrap())
            .collect();
        let report = Report::parse(&(lines.join("\n") + "\n{\"summary\":{}}\n")).unwrap();
        assert_eq!(report.tries, tries);
        let summary = report.summary();
        assert_eq!(
            (summary.operations, summary.succeeded, summary.retries),
            (1, 1, 1)
        );
    }

    #[test]
    fn percentiles_are_latencies_that_occurred() {
        let report = Report {
            tries: (1..=100).map(|n| try_of(n, 1, Outcome::Ok, n)).collect(),
            pace: None,
        };
        assert_eq!(report.latency(50.0), Duration::from_micros(50));
        assert_eq!(report.latency(99.0), Duration::from_micros(99));
        assert_eq!(report.latency(100.0), Duration::from_micros(100));
        assert_eq!(Report::default().latency(99.0), Duration::ZERO);
    }
    #[test]
    fn a_long_storm_is_read_in_no_time() {
        let line = |op| serde_json::to_string(&try_of(op, 1, Outcome::AnswerTimeout, op)).unwrap();
        let mut lines: String = (0..200_000).map(|op| line(op) + "\n").collect();
        let pace = Pace {
            kept: false,
            late: 0,
            p99_late_micros: 60_000,
            max_late_micros: 1,
            herd_micros: 2,
            own_faults: 3,
            given_up: 4,
            most_open: 5,
        };
        let told = Report {
            tries: Vec::new(),
            pace: Some(pace),
        };
        lines += &serde_json::json!({ "summary": told.summary() }).to_string();
        let began = std::time::Instant::now();
        let report = Report::parse(&lines).unwrap();
        let summary = report.summary();
        let took = began.elapsed();
        assert_eq!((report.tries.len(), summary.pace), (200_000, Some(pace)));
        // 0.3 s here; a quadratic reader takes minutes.
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
