//! The shape of `gain --json`. Scripts rely on it: add, never rename.

use serde::{Deserialize, Serialize};

/// The whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gain {
    /// `governor.dev/v1alpha1`.
    pub api_version: String,
    /// Name of this node: layers elsewhere are not seen.
    pub node: String,
    /// How long rates were measured.
    pub sample_seconds: f64,
    /// Every destination that was called, the worst first.
    pub destinations: Vec<Destination>,
    /// Where nobody could look who listens.
    pub not_looked_into: NotLookedInto,
}

/// Where nobody could look who listens: layers there are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotLookedInto {
    /// Network namespaces that could not be entered.
    pub namespaces: u64,
    /// Processes whose network namespace is not told.
    pub processes: u64,
}

/// One destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// Name of the group, or ip:port.
    pub destination: String,
    /// Where it was called.
    pub addresses: Vec<String>,
    /// Workloads of this node that listen there.
    pub served_by: Vec<String>,
    /// First tries, refused ones included.
    pub operations: u64,
    /// Attempts, refused ones included.
    pub attempts: u64,
    /// Operations that may be retries: only counted.
    pub suspected_retries: u64,
    /// Attempts / operations.
    pub attempts_per_operation: Option<f64>,
    /// Most tries of one operation that were seen, refused ones included.
    pub longest_chain: u64,
    /// Whether that is a guess: connects of threads without a history.
    pub inferred: bool,
    /// What one operation of the outermost layer becomes here, if callers may.
    pub worst_case: Multiplied,
    /// The same, as policies in force let it.
    pub allowed: Multiplied,
    /// How much is called now.
    pub load: Load,
    /// What its capacity bears, where it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survival: Option<Survival>,
}

/// What layers make of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Multiplied {
    /// The product of the tries on the path.
    pub multiplier: f64,
    /// Whether a guess is among them.
    pub inferred: bool,
    /// The worst path, from the outermost layer.
    pub path: Vec<Layer>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Layer {
    /// Who calls.
    pub workload: String,
    /// Whom.
    pub destination: String,
    /// What it multiplies by.
    pub tries: f64,
    /// Whether that is a guess.
    pub inferred: bool,
}

/// How much a destination is called now, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Attempts, refused ones included.
    pub attempts_per_second: f64,
    /// Operations: attempts without retries, here and in the layers above.
    pub operations_per_second: f64,
    /// What these operations become in the worst case of those who call now; no
    /// less than the attempts that were measured.
    pub worst_case_per_second: f64,
    /// The same, as policies in force let it.
    pub allowed_per_second: f64,
}

/// What a destination's capacity bears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survival {
    /// Percent of the capacity that is left while cold.
    pub cold_percent: f64,
    /// In its usual state.
    pub warm: Bears,
    /// Right after a start, with empty caches and pools.
    pub cold: Bears,
}

/// What a capacity bears; `null`: cannot say, nobody called while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bears {
    /// The capacity.
    pub capacity_per_second: f64,
    /// Whether it bears the operations, each tried once.
    pub calm: Option<bool>,
    /// Whether it bears the worst case.
    pub worst_case: Option<bool>,
    /// Whether it bears what policies in force let through.
    pub allowed: Option<bool>,
    /// Operations a second up to which it bears the worst case.
    pub worst_case_up_to: f64,
    /// Operations a second up to which it bears what policies let through.
    pub allowed_up_to: f64,
}
