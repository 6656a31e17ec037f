//! Simpler laws, to show why the real one is not simpler. Each is what a
//! careful engineer would build first, and is used in production somewhere.

mod breaker;
mod budget;
mod limiter;

use std::collections::VecDeque;

use governor_core::order::Kind;
use governor_core::verdict::Outcome;

pub use breaker::{Breaking, Probing};
pub use budget::Budgeting;
pub use limiter::{Limiting, Wakes};

use super::engine::{End, Governor, Try};
use super::world::{Random, as_seconds};
use breaker::{Breaker, Gate, Schedule};
use budget::Budget;
use limiter::Limiter;

/// How an attempt is known to be a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It says so.
    Exact,
    /// A failure of the workload within ten seconds that no other attempt has
    /// claimed; rules refuse on it.
    Inferred,
    /// As `Inferred`, and a denial is a failure too.
    RenewedByDenials,
}

/// A simpler law.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Its adaptive concurrency.
    pub limiter: Option<Limiting>,
    /// Its breaker.
    pub breaker: Option<Breaking>,
    /// Its retry budget.
    pub budget: Option<Budgeting>,
    /// What it takes for a retry.
    pub evidence: Evidence,
}

impl Rules {
    /// Only a budget, with exact evidence.
    pub const BUDGET: Self = Self {
        limiter: None,
        breaker: None,
        budget: Some(Budgeting::AT_ONCE),
        evidence: Evidence::Exact,
    };
}

struct Node {
    budget: Budget,
    schedule: Schedule,
}

struct Caller {
    node: usize,
    limiter: Limiter,
    breaker: Breaker,
    claims: VecDeque<f64>,
}

/// A simpler law at every node.
pub struct Simple {
    rules: Rules,
    random: Random,
    nodes: Vec<Node>,
    callers: Vec<Caller>,
}

/// What an admitted attempt carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Nothing.
    Plain,
    /// It is a probe.
    Probe,
}

/// How long a failure explains a later attempt, in seconds.
const EVIDENCE: f64 = 10.0;

impl Simple {
    /// For workloads on these nodes.
    pub fn new(rules: Rules, nodes: &[usize], seed: u64) -> Self {
        let count = nodes.iter().max().map_or(0, |last| last + 1);
        Self {
            rules,
            random: Random::new(seed ^ 0x5a5a),
            nodes: (0..count)
                .map(|_| Node {
                    budget: Budget::default(),
                    schedule: Schedule::default(),
                })
                .collect(),
            callers: nodes
                .iter()
                .map(|&node| Caller {
                    node,
                    limiter: Limiter::default(),
                    breaker: Breaker::default(),
                    claims: VecDeque::new(),
                })
                .collect(),
        }
    }

    fn judge(&mut self, workload: usize, time: f64, kind: Kind) -> Option<Pass> {
        let caller = &mut self.callers[workload];
        let node = &mut self.nodes[caller.node];
        if let Some(limiting) = &self.rules.limiter {
            caller.limiter.tick(limiting, time);
        }
        let mut pass = Pass::Plain;
        if let Some(breaking) = &self.rules.breaker {
            match caller
                .breaker
                .gate(breaking, &mut node.schedule, time, &mut self.random)
            {
                Gate::Pass => {}
                Gate::Probe => pass = Pass::Probe,
                Gate::Refuse => return None,
            }
        }
        if pass == Pass::Plain && self.rules.limiter.is_some() && !caller.limiter.has_room() {
            return None;
        }
        let retry = match self.rules.evidence {
            Evidence::Exact => kind == Kind::Retry,
            Evidence::Inferred | Evidence::RenewedByDenials => {
                while caller
                    .claims
                    .front()
                    .is_some_and(|&at| at < time - EVIDENCE)
                {
                    caller.claims.pop_front();
                }
                caller.claims.pop_front().is_some()
            }
        };
        if let Some(budgeting) = &self.rules.budget
            && retry
            && pass == Pass::Plain
            && !node.budget.charge(budgeting, time)
        {
            return None;
        }
        caller.limiter.enter();
        Some(pass)
    }
}

impl Governor for Simple {
    type Pass = Pass;

    fn admit(&mut self, workload: usize, attempt: &Try) -> Option<Pass> {
        let time = as_seconds(attempt.now);
        let pass = self.judge(workload, time, attempt.kind());
        if pass.is_none() && self.rules.evidence == Evidence::RenewedByDenials {
            self.callers[workload].claims.push_back(time);
        }
        pass
    }

    fn settle(&mut self, workload: usize, pass: Pass, end: End) {
        let time = as_seconds(end.now);
        let caller = &mut self.callers[workload];
        let node = &mut self.nodes[caller.node];
        let success = end.outcome == Outcome::Success;
        if success {
            node.budget.earn(time);
        } else {
            caller.claims.push_back(time);
        }
        caller.limiter.leave();
        if let Some(limiting) = &self.rules.limiter {
            caller.limiter.ended(limiting, &end);
        }
        if let Some(breaking) = &self.rules.breaker {
            caller.breaker.ended(
                breaking,
                &mut node.schedule,
                (time, success, pass),
                &mut self.random,
            );
        }
    }
}
