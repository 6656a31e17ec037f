//! What a run measured: all that the table and the chart are made of.

use std::{collections::BTreeMap, ops::Add, ops::Sub};

use serde::{Deserialize, Serialize};

/// Time, or a point in time since the first call of a scene.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Seconds(pub f64);

impl Add for Seconds {
    type Output = Self;
    fn add(self, more: Self) -> Self {
        Self(self.0 + more.0)
    }
}

impl Sub for Seconds {
    type Output = Self;
    fn sub(self, less: Self) -> Self {
        Self(self.0 - less.0)
    }
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct PerSecond(pub f64);

/// From one point in time to before another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its first moment.
    pub from: Seconds,
    /// The moment after its last.
    pub to: Seconds,
}

impl Span {
    /// Whether `t` is in it.
    pub fn holds(self, t: Seconds) -> bool {
        self.from <= t && t < self.to
    }

    /// How long it is.
    pub fn length(self) -> Seconds {
        self.to - self.from
    }
}

/// What is to happen in a scene.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Requests the service can answer.
    pub capacity: PerSecond,
    /// Calls of the legacy client: 80 % of that.
    pub offered: PerSecond,
    /// Loops of `curl --retry 3` beside it.
    pub curls: u32,
    /// How long all is well. The law learns what healthy looks like.
    pub healthy: Seconds,
    /// How long the service's queue stands still.
    pub stall: Seconds,
    /// How long the load goes on after that.
    pub after: Seconds,
}

impl Plan {
    /// The stall of `docs/law.md`, with a fifth of its load: a laptop must not be the
    /// bottleneck.
    pub const STORM: Self = Self {
        capacity: PerSecond(200.0),
        offered: PerSecond(160.0),
        curls: 4,
        healthy: Seconds(8.0),
        stall: Seconds(5.0),
        after: Seconds(16.0),
    };

    /// How long calls are begun.
    pub fn length(&self) -> Seconds {
        self.healthy + self.stall + self.after
    }
}

/// The service's counts at one moment. All but `waiting` are totals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub t: Seconds,
    /// Requests that reached the service.
    pub arrived: u64,
    /// Requests worked off for callers who had left.
    pub wasted: u64,
    /// Requests in its queue.
    pub waiting: u64,
}

/// How a try ended, as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Answered.
    Good,
    /// Refused. The service never refuses here: it was the governor.
    Refused,
    /// The caller lost patience, or another error.
    Failed,
}

/// One try of the legacy client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// When it began.
    pub began: Seconds,
    /// How long it took.
    pub took: Seconds,
    /// The call it belongs to.
    pub call: u64,
    /// 1 for the first.
    pub number: u32,
    /// How it ended.
    pub end: End,
}

impl Try {
    /// When it ended.
    pub fn ended(&self) -> Seconds {
        self.began + self.took
    }
}

/// The `curl` loops: runs of curl, each with its own retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curls {
    /// Runs that ended with an answer.
    pub good: u64,
    /// Runs that gave up.
    pub failed: u64,
}

/// What the governor says of itself, from `exec --json-summary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Governor {
    /// Tries it refused, by reason.
    pub denied: BTreeMap<String, u64>,
}

/// One scene.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scene {
    /// When the service stalled.
    pub stall: Span,
    /// The service's counts, twenty times a second.
    pub samples: Vec<Sample>,
    /// Every try of the legacy client.
    pub tries: Vec<Try>,
    /// The curl loops.
    pub curls: Curls,
    /// Where there was a governor.
    pub governor: Option<Governor>,
}

/// Both scenes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was to happen.
    pub plan: Plan,
    /// The storm as it is.
    pub without: Scene,
    /// The same storm, governed.
    pub with: Scene,
}
