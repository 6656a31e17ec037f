//! The shape of `status --json`. Scripts and dashboards rely on it: add, never
//! rename.

use std::collections::BTreeMap;

use governor_core::verdict::REASONS;
use serde::{Deserialize, Serialize};

pub use super::probe::NextProbe;
pub use super::recent::Recent;
use crate::daemon::orderlist::OrderShown;
pub use crate::daemon::orders::RetriesState;
use crate::daemon::retriesshown::StageShown;

/// The whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `governor.dev/v1alpha1`.
    pub api_version: String,
    /// Name of this node.
    pub node: String,
    /// Version of the governor.
    pub version: String,
    /// Since when it governs.
    pub uptime_seconds: f64,
    /// What runs in the kernel.
    pub kernel: Kernel,
    /// Whether retries are admitted on this node.
    pub retries: Retries,
    /// What operators have ordered and is not over.
    pub orders: Vec<OrderShown>,
    /// Every destination that was called, busiest first.
    pub destinations: Vec<Destination>,
    /// Attempts the kernel programs could not judge; they passed.
    pub unjudged: Unjudged,
}

/// What runs in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kernel {
    /// As `uname -r` says.
    pub release: String,
    /// The programs.
    pub hooks: Vec<Hook>,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// Whether it is attached.
    pub attached: bool,
    /// The cgroup or the device it is attached to.
    pub path: String,
    /// Its id in the kernel.
    pub program_id: u32,
    /// Instructions the verifier went through (Linux 5.16).
    pub verified_instructions: Option<u32>,
    /// How often it ran, where run-time statistics are on.
    pub run_count: u64,
    /// How long it ran, where run-time statistics are on.
    pub run_seconds: f64,
}

/// Whether retries are admitted on this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retries {
    /// `Enabled`, `Disabled`, or `Restoring`: on their way back.
    pub state: RetriesState,
    /// Percent of retries that are admitted.
    pub percent: u32,
    /// When they begin to come back, or the next stage does; none while one is held.
    pub expires_at: Option<String>,
    /// Percent of retries that are admitted then.
    #[serde(default)]
    pub next_percent: Option<u32>,
    /// The stage of the restore.
    #[serde(default)]
    pub stage: Option<StageShown>,
}

/// One destination. Counts are since it was first called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Name of the group, or ip:port.
    pub destination: String,
    /// Where it was called.
    pub addresses: Vec<String>,
    /// Name of the policy that judges it.
    pub policy: Option<String>,
    /// Its mode.
    pub mode: Option<String>,
    /// Attempts that reached the network.
    pub attempts: u64,
    /// Those that repeat nothing.
    pub first_tries: u64,
    /// Those that repeat a failed one.
    pub retries: u64,
    /// First tries that may be retries: only counted.
    pub suspected_retries: u64,
    /// Attempts, denied ones included.
    pub offered: Offered,
    /// Requests on HTTP/1 connections.
    pub requests: Requests,
    /// Attempts, or exchanges where they are seen, that went well.
    pub successes: u64,
    /// Those that did not.
    pub failures: Failures,
    /// What was refused, by reason.
    pub denied: Reasons,
    /// What audit would have refused, by reason.
    pub would_deny: Reasons,
    /// First tries that were refused.
    pub denied_first_tries: u64,
    /// Refusals above 100 per second of one endpoint.
    pub denied_again: u64,
    /// Audit would have refused it, and it succeeded: harm.
    pub would_deny_succeeded: u64,
    /// Audit would have refused it, and it failed: help.
    pub would_deny_failed: u64,
    /// Attempts that reached the network, per first try that was offered.
    pub amplification: Option<f64>,
    /// The retry budget.
    pub budget: Option<Budget>,
    /// Breakers, by workload and ip:port.
    pub endpoints: Vec<Endpoint>,
    /// How often breakers moved.
    pub breaker_moves: BreakerMoves,
    /// Adaptive concurrency.
    pub concurrency: Concurrency,
    /// Latency of what went well.
    pub latency_seconds: Latency,
    /// The last minute; none where no daemon remembers it.
    #[serde(default)]
    pub recent: Option<Recent>,
    /// By workload.
    pub workloads: Vec<Workload>,
}

/// See [`Destination::offered`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    /// Attempts that repeat nothing.
    pub first_tries: u64,
    /// Attempts that repeat a failed one.
    pub retries: u64,
}

/// Requests on HTTP/1 connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// Those that reached the network.
    pub sent: u64,
    /// Those that are one attempt with their connect, refused ones included.
    pub first_on_connection: u64,
    /// Requests and connections that could not be read.
    pub unread: u64,
    /// Those that could not have been refused: no executor reaches their socket.
    pub unreached: u64,
}

impl Requests {
    /// What was let through unjudged, as people read it.
    pub fn unjudged(&self) -> Option<String> {
        let named = [
            (self.unreached, "out of reach"),
            (self.unread, "not readable"),
        ];
        let told: Vec<_> = named
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!told.is_empty()).then(|| format!("requests let through: {}", told.join(", ")))
    }
}

/// How attempts failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// RST to the SYN.
    pub refused: u64,
    /// No answer in time.
    pub timeout: u64,
    /// The network said so.
    pub unreachable: u64,
    /// RST after the connect.
    pub reset: u64,
    /// Closed without an answer.
    pub no_answer: u64,
    /// Answers that say so, by status code.
    pub status: BTreeMap<String, u64>,
}

impl Failures {
    /// All of them.
    pub fn total(&self) -> u64 {
        let status: u64 = self.status.values().sum();
        self.refused + self.timeout + self.unreachable + self.reset + self.no_answer + status
    }

    /// By name, as people read them.
    pub fn named(&self) -> Vec<(String, u64)> {
        let known = [
            ("refused", self.refused),
            ("timed out", self.timeout),
            ("unreachable", self.unreachable),
            ("reset", self.reset),
            ("not answered", self.no_answer),
        ];
        let known = known.map(|(name, count)| (name.to_owned(), count));
        let answered = self.status.iter();
        let answered = answered.map(|(code, count)| (format!("status {code}"), *count));
        known.into_iter().chain(answered).collect()
    }
}

/// Counts by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasons {
    /// The retry budget is spent.
    pub budget: u64,
    /// The breaker is open.
    pub breaker: u64,
    /// Too many in flight.
    pub concurrency: u64,
    /// An operator ordered it.
    pub shed: u64,
    /// The destination asked to wait.
    pub retry_after: u64,
    /// The chain of tries is too old.
    pub deadline: u64,
    /// The chain of tries is too long.
    pub attempts: u64,
    /// The answer was not one to retry.
    pub not_retryable: u64,
    /// It may have taken effect, and must not twice.
    pub non_idempotent: u64,
}

impl Reasons {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// By name, as people read them.
    pub fn named(&self) -> [(&'static str, u64); REASONS] {
        [
            ("budget", self.budget),
            ("breaker", self.breaker),
            ("concurrency", self.concurrency),
            // `retries off` has the same reason: nobody shall look for a shed order in vain.
            ("shed by an operator's order", self.shed),
            ("retry-after", self.retry_after),
            ("deadline", self.deadline),
            ("attempts", self.attempts),
            ("not retryable", self.not_retryable),
            ("not idempotent", self.non_idempotent),
        ]
    }
}

/// The retry budget of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Of the successes.
    pub percent: f64,
    /// Retries it allows now.
    pub balance: f64,
}

/// One breaker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The ip:port.
    pub address: String,
    /// Who calls.
    pub workload: String,
    /// Its breaker.
    pub breaker: Breaker,
}

/// Where a breaker stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breaker {
    /// Closed, half-open, open.
    pub state: BreakerState,
    /// When it last opened, while it is not closed.
    pub opened_at: Option<String>,
    /// When the next probe may go; none where that waits for something else than time.
    pub next_probe_at: Option<String>,
    /// What the next probe waits for, while it is not closed.
    #[serde(default)]
    pub next_probe: Option<NextProbe>,
}

/// See [`Breaker::state`]; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BreakerState {
    /// Attempts pass.
    Closed,
    /// A probe is on its way.
    HalfOpen,
    /// Attempts are refused.
    Open,
}

/// How often breakers moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerMoves {
    /// Opened by silence.
    pub tripped: u64,
    /// Opened again by a failed probe.
    pub reopened: u64,
    /// Closed by a probe.
    pub closed: u64,
    /// Probes that were sent.
    pub probes: u64,
}

/// Adaptive concurrency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// The lowest limit of any workload; none: no limit is in force.
    pub limit: Option<u64>,
    /// Attempts in flight.
    pub in_flight: u64,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Half are faster.
    pub p50: Option<f64>,
    /// 99 of 100 are faster.
    pub p99: Option<f64>,
}

/// One workload at one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Its cgroup path.
    pub workload: String,
    /// Attempts that reached the network.
    pub attempts: u64,
    /// Those that repeat a failed one.
    pub retries: u64,
    /// What was refused.
    pub denied: u64,
}

/// Attempts that could not be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unjudged {
    /// A ledger map was full.
    pub ledger_full: u64,
    /// A socket got no record.
    pub no_record: u64,
    /// A policy entry was missing.
    pub no_policy: u64,
    /// A refusal could not be carried out.
    pub not_answered: u64,
}

impl Unjudged {
    /// Why, as people read it.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("the ledgers are full", self.ledger_full),
            ("their sockets got no record", self.no_record),
            ("their policy was just replaced", self.no_policy),
            ("their refusal could not be carried out", self.not_answered),
        ]
    }
}
