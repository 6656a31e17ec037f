//! One step of the law, as bytes: what the parity test feeds to the law in
//! the kernel and to the law on the host.

use bytemuck::{Pod, Zeroable};

use crate::breaker::Level;
use crate::cell::Cell;
use crate::evidence::Evidence;
use crate::judge::{Attempt, Ledgers, Orders, attempt};
use crate::order::Order;
use crate::params::Params;
use crate::settle::{Audited, Ending, settle};
use crate::units::Nanos;
use crate::verdict::{Outcome, Ticket};

/// [`Step::what`] of a step without the law: what finding its ledgers costs, to
/// compare with.
pub const NOTHING: u32 = 3;

/// An attempt or an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    /// When, ns.
    pub now: u64,
    /// Ending: when it took its place in flight, ns.
    pub entered: u64,
    /// Ending: how long it took, us.
    pub latency: u64,
    /// 0: an attempt. 1: the end of a connect. 2: the end of an exchange. [`NOTHING`].
    pub what: u32,
    /// A random number.
    pub random: u32,
    /// Attempt: its [`Evidence`].
    pub evidence: u32,
    /// Ending: its [`Outcome`].
    pub outcome: u32,
    /// Ending: 1 if it was a probe.
    pub probe: u32,
    /// Ending: generation of its breaker.
    pub probe_breaker: u32,
    /// Ending: generation of its lease.
    pub probe_lease: u32,
    /// Ending: 1 if audit would have denied it, 2 if it was only watched.
    pub audited: u32,
    /// Which of two workloads.
    pub workload: u64,
    /// What came out: the packed decision, or the breaker's move.
    pub result: u64,
}

/// Runs one step.
#[inline(always)]
pub fn run<C: Cell>(step: &Step, p: &Params, l: &Ledgers<'_, C>, node: Option<&Order>) -> u64 {
    if step.what == 0 {
        let a = Attempt {
            now: Nanos(step.now),
            workload: step.workload,
            evidence: Evidence::from_number(step.evidence),
            random: step.random,
        };
        let orders = Orders {
            node,
            ..Orders::default()
        };
        return attempt(p, &a, l, &orders).pack();
    }
    if step.what == NOTHING {
        return 0;
    }
    let ending = Ending {
        now: Nanos(step.now),
        entered: Nanos(step.entered),
        latency: step.latency,
        level: if step.what == 1 {
            Level::Connect
        } else {
            Level::Exchange
        },
        outcome: Outcome::from_number(step.outcome),
        probe: if step.probe == 0 {
            None
        } else {
            Some(Ticket {
                breaker: step.probe_breaker,
                lease: step.probe_lease,
            })
        },
        audited: match step.audited {
            1 => Audited::WouldDeny,
            2 => Audited::Watched,
            _ => Audited::Admitted,
        },
        random: step.random,
    };
    settle(p, &ending, l).moved as u64
}
