//! A policy as types: every key of the policy file, every default.
//!
//! What may stand in a file and within which bounds is said in [`super::check`];
//! what the values mean is said by the default policy ([`super::default`]).

use ipnet::IpNet;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use super::choices::*;
use super::error::Position;
use super::units::{Factor, GoDuration, Percent};

/// `apiVersion` of the policies we read.
pub const API_VERSION: &str = "governor.dev/v1alpha1";
/// `kind` of the policies we read.
pub const KIND: &str = "RetryPolicy";

/// One policy and where it was read.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `metadata.name`, unique among the loaded policies.
    pub name: String,
    /// What it asks for.
    pub spec: Spec,
    /// Where it was written; no part of what it says.
    pub source: Source,
}

/// Where a policy was written, for errors that name it later.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file, as the caller named it.
    pub file: String,
    /// Where its name stands.
    pub name: Position,
    /// Where each entry of `spec.destinations` starts.
    pub destinations: Vec<Position>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.spec == other.spec
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Metadata<'a> {
            name: &'a str,
        }
        let mut policy = serializer.serialize_struct("Policy", 4)?;
        policy.serialize_field("apiVersion", API_VERSION)?;
        policy.serialize_field("kind", KIND)?;
        policy.serialize_field("metadata", &Metadata { name: &self.name })?;
        policy.serialize_field("spec", &self.spec)?;
        policy.end()
    }
}

/// `spec`. A part that is absent in the file has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Whether verdicts are carried out.
    pub mode: Mode,
    /// Who calls; empty: every workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Workload>,
    /// Who is called; empty: every destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Destination>,
    /// How exchanges are told apart.
    pub protocol: Protocol,
    /// How many retries.
    pub retry_constraint: RetryConstraint,
    /// Which retries.
    pub retry: Retry,
    /// When nothing is sent at all.
    pub circuit_breaker: CircuitBreaker,
    /// How many attempts at once.
    pub concurrency: Concurrency,
    /// How admitted retries are spread.
    pub pacing: Pacing,
    /// What `Retry-After` does.
    pub pushback: Pushback,
    /// How a refusal looks to the caller.
    pub deny: Deny,
}

/// One way to select workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Glob of a cgroup path below the cgroup root.
    pub cgroup: String,
}

/// One entry of `destinations`: one destination group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Destination {
    /// Its name in status and metrics; see [`Destination::label`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Host names, lower case, without a trailing dot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Networks; a single address is a network of one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<IpNet>,
    /// Ports; empty: every port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

impl Destination {
    /// The name, or one made of the first host or network and the ports:
    /// `auth.internal:8080`, `10.0.8.0/24:5432,6432`, `*:8080`.
    pub fn label(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let ports = ports.join(",");
        let place = match (self.hosts.first(), self.cidrs.first()) {
            (Some(host), _) => host.clone(),
            (None, Some(net @ IpNet::V6(_))) if !ports.is_empty() => format!("[{net}]"),
            (None, Some(net)) => net.to_string(),
            (None, None) => "*".to_owned(),
        };
        if ports.is_empty() {
            place
        } else {
            format!("{place}:{ports}")
        }
    }
}

/// `retryConstraint`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryConstraint {
    /// Whether the budget counts.
    pub mode: Switch,
    /// Retries as a share of successes.
    pub budget: Budget,
    /// Ceiling of the reserve.
    pub min_retry_rate: RetryRate,
    /// Share of the reserve for one workload while another retries.
    pub max_reserve_share: Percent,
}

impl Default for RetryConstraint {
    fn default() -> Self {
        Self {
            mode: Switch::Enabled,
            budget: Budget::default(),
            min_retry_rate: RetryRate::default(),
            max_reserve_share: Percent::whole(50),
        }
    }
}

/// `retryConstraint.budget`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Of the successes in the interval.
    pub percent: Percent,
    /// The rolling window.
    pub interval: GoDuration,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            percent: Percent::whole(10),
            interval: GoDuration::secs(10),
        }
    }
}

/// `retryConstraint.minRetryRate`: so many per so long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetryRate {
    /// Retries.
    pub count: u32,
    /// Per.
    pub interval: GoDuration,
}

impl Default for RetryRate {
    fn default() -> Self {
        Self {
            count: 10,
            interval: GoDuration::secs(1),
        }
    }
}

/// `retry`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Tries after the first.
    pub attempts: u32,
    /// Status codes that are failures.
    pub codes: Vec<u16>,
    /// Longest age of a chain.
    pub deadline: GoDuration,
    /// How long a failure is evidence.
    pub evidence_window: GoDuration,
    /// What happens to a retried POST or PATCH.
    pub non_idempotent: NonIdempotent,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            codes: vec![429, 500, 502, 503, 504],
            deadline: GoDuration::secs(30),
            evidence_window: GoDuration::secs(10),
            non_idempotent: NonIdempotent::Deny,
        }
    }
}

/// `circuitBreaker`, kept per workload and ip:port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreaker {
    /// Whether it may open.
    pub mode: Switch,
    /// Trips after so many failures and so long without a success.
    pub silence: Silence,
    /// Trips after so many in a row, where the interval holds no success.
    pub consecutive_failures: u32,
    /// Trips at this share of failures; off unless set.
    pub failure_percent: Option<Percent>,
    /// Fewest attempts in the interval for `failure_percent` to count.
    pub min_requests: u32,
    /// The rolling window of the two above.
    pub interval: GoDuration,
    /// How long it stays open.
    pub open_duration: OpenDuration,
    /// How long a probe may take.
    pub probe_timeout: GoDuration,
    /// How long admission takes to grow back.
    pub ramp: GoDuration,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self {
            mode: Switch::Enabled,
            silence: Silence::default(),
            consecutive_failures: 7,
            failure_percent: None,
            min_requests: 20,
            interval: GoDuration::secs(10),
            open_duration: OpenDuration::default(),
            probe_timeout: GoDuration::secs(5),
            ramp: GoDuration::secs(1),
        }
    }
}

/// `circuitBreaker.silence`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Silence {
    /// In a row.
    pub failures: u32,
    /// Without a success.
    pub duration: GoDuration,
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            failures: 20,
            duration: GoDuration::secs(2),
        }
    }
}

/// `circuitBreaker.openDuration`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenDuration {
    /// The first time.
    pub base: GoDuration,
    /// The longest.
    pub max: GoDuration,
    /// Evenly shorter or longer by up to so much.
    pub jitter_percent: Percent,
}

impl Default for OpenDuration {
    fn default() -> Self {
        Self {
            base: GoDuration::secs(1),
            max: GoDuration::secs(5),
            jitter_percent: Percent::whole(50),
        }
    }
}

/// `concurrency`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// Where the limit comes from.
    pub mode: ConcurrencyMode,
    /// Floor of the adaptive limit.
    pub min_limit: u32,
    /// How many times the baseline latency counts as slow.
    pub latency_tolerance: Factor,
    /// The fixed limit; set exactly where the mode is `Fixed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self {
            mode: ConcurrencyMode::Adaptive,
            min_limit: 1,
            latency_tolerance: Factor::from_hundredths(200),
            limit: None,
        }
    }
}

/// `pacing`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pacing {
    /// How the delay is chosen.
    pub jitter: Jitter,
    /// The longest delay.
    pub max_delay: GoDuration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            jitter: Jitter::Full,
            max_delay: GoDuration::millis(250),
        }
    }
}

/// `pushback`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushback {
    /// Whether `Retry-After` refuses retries.
    pub honor_retry_after: bool,
    /// The longest `Retry-After` that is believed.
    pub max_retry_after: GoDuration,
}

impl Default for Pushback {
    fn default() -> Self {
        Self {
            honor_retry_after: true,
            max_retry_after: GoDuration::secs(30),
        }
    }
}

/// `deny`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deny {
    /// What a denied connect returns.
    pub connect: ConnectDenial,
    /// What a denied request sees.
    pub request: RequestDenial,
    /// What our own 503 says in `Retry-After`.
    pub retry_after: GoDuration,
}

impl Default for Deny {
    fn default() -> Self {
        Self {
            connect: ConnectDenial::Econnrefused,
            request: RequestDenial::Respond503,
            retry_after: GoDuration::secs(1),
        }
    }
}
