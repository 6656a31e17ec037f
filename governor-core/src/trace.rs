//! One step of the law, as bytes: what the parity test feeds to the law in
//! the kernel and to the law on the host.

use bytemuck::{Pod, Zeroable};

use crate::breaker::Level;
use crate::calm::Batch;
use crate::carried::{Paid, Unjudged, carried, passed};
use crate::cell::Cell;
use crate::evidence::Evidence;
use crate::judge::{Attempt, Ledgers, Orders, attempt};
use crate::order::Order;
use crate::params::Params;
use crate::rules::Repeat;
use crate::settle::{Audited, Ending, settle, settle_calm};
use crate::units::{Millis, Nanos};
use crate::verdict::{Outcome, Ticket};

/// [`Step::what`].
pub mod what {
    /// A connect.
    pub const CONNECT: u32 = 0;
    /// The end of a connect.
    pub const CONNECT_ENDED: u32 = 1;
    /// The end of an exchange.
    pub const EXCHANGE_ENDED: u32 = 2;
    /// Nothing: what finding the ledgers costs, to compare with.
    pub const NOTHING: u32 = 3;
    /// A request on a connection that has carried one.
    pub const REQUEST: u32 = 4;
    /// The first request on a connection.
    pub const CARRIED: u32 = 5;
    /// A request that is not judged.
    pub const PASSED: u32 = 6;
    /// Exchanges that are settled together.
    pub const CALM: u32 = 7;
}

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
    /// Attempt: how old its chain of tries is, ms.
    pub age: u64,
    /// [`mod@what`].
    pub what: u32,
    /// A random number.
    pub random: u32,
    /// Attempt: its [`Evidence`].
    pub evidence: u32,
    /// Attempt: which try it is.
    pub number: u32,
    /// Ending: its [`Outcome`].
    pub outcome: u32,
    /// Ending: how long the answer asks to wait, ms.
    pub retry_after: u32,
    /// Ending: 1 if it was a probe.
    pub probe: u32,
    /// Ending: generation of its breaker.
    pub probe_breaker: u32,
    /// Ending: generation of its lease.
    pub probe_lease: u32,
    /// Ending: 1 if audit would have denied it, 2 if it was only watched.
    pub audited: u32,
    /// Attempt: what is known of it, [`crate::rules::about`].
    pub about: u16,
    /// Request: 1 if its connect was counted as a retry.
    pub paid: u16,
    /// Passed: why, in the order of [`Unjudged`].
    pub why: u16,
    /// Ending: the status of the answer.
    pub status: u16,
    /// Which of two workloads.
    pub workload: u64,
    /// What came out: the packed decision, or the breaker's move.
    pub result: u64,
}

/// What kind of step it is: each is a call of its own in the kernel, so that
/// their facts do not lie on the stack together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An attempt that is judged: [`begin`].
    Attempt,
    /// A request that is not judged by itself: [`join`].
    Request,
    /// An ending: [`end`].
    Ending,
    /// Endings that are settled together: [`end_calm`].
    Calm,
    /// Nothing.
    Nothing,
}

impl Step {
    /// What kind of step it is.
    #[inline(always)]
    pub const fn kind(&self) -> Kind {
        match self.what {
            what::CONNECT | what::REQUEST => Kind::Attempt,
            what::CARRIED | what::PASSED => Kind::Request,
            what::CONNECT_ENDED | what::EXCHANGE_ENDED => Kind::Ending,
            what::CALM => Kind::Calm,
            _ => Kind::Nothing,
        }
    }
}

/// Runs one step.
pub fn run<C: Cell>(step: &Step, p: &Params, l: &Ledgers<'_, C>, node: Option<&Order>) -> u64 {
    match step.kind() {
        Kind::Attempt => begin(step, p, l, node),
        Kind::Request => join(step, p, l, node),
        Kind::Ending => end(step, p, l),
        Kind::Calm => end_calm(step, p, l),
        Kind::Nothing => 0,
    }
}

#[inline(always)]
fn tried(step: &Step, p: &Params) -> Attempt {
    let (now, evidence) = (Nanos(step.now), Evidence::from_number(step.evidence));
    if step.what == what::CONNECT {
        return Attempt::connect(now, step.workload, evidence, step.random);
    }
    let repeat = Repeat {
        age: Millis(step.age),
        number: step.number,
        about: step.about as u32,
    };
    Attempt::request(p, now, step.workload, evidence, &repeat, step.random)
}

/// Runs an attempt that is judged.
#[inline(always)]
pub fn begin<C: Cell>(step: &Step, p: &Params, l: &Ledgers<'_, C>, node: Option<&Order>) -> u64 {
    let orders = Orders {
        node,
        ..Orders::default()
    };
    attempt(p, &tried(step, p), l, &orders).pack()
}

/// Runs a request that is not judged by itself.
#[inline(always)]
pub fn join<C: Cell>(step: &Step, p: &Params, l: &Ledgers<'_, C>, node: Option<&Order>) -> u64 {
    let a = tried(step, p);
    let paid = if step.paid == 1 {
        Paid::Retry
    } else {
        Paid::First
    };
    if step.what == what::CARRIED {
        let orders = Orders {
            node,
            ..Orders::default()
        };
        return carried(p, &a, paid, l, &orders).pack();
    }
    let why = match step.why {
        0 => Unjudged::Unreached,
        1 => Unjudged::UnreachedFirst(paid),
        2 => Unjudged::Probe(paid),
        _ => Unjudged::Apart(paid),
    };
    passed(p, &a, why, l).pack()
}

/// Runs an ending.
#[inline(always)]
pub fn end<C: Cell>(step: &Step, p: &Params, l: &Ledgers<'_, C>) -> u64 {
    let ending = Ending {
        now: Nanos(step.now),
        entered: Nanos(step.entered),
        latency: step.latency,
        level: if step.what == what::CONNECT_ENDED {
            Level::Connect
        } else {
            Level::Exchange
        },
        outcome: Outcome::from_number(step.outcome),
        status: step.status as u32,
        retry_after: step.retry_after,
        probe: if step.probe == 0 {
            Ticket::NONE
        } else {
            Ticket {
                breaker: step.probe_breaker,
                lease: step.probe_lease,
            }
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

/// At most 15 in each lane.
const LANES_MASK: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// Runs endings that are settled together. Their facts lie where those of other steps do.
#[inline(always)]
pub fn end_calm<C: Cell>(step: &Step, p: &Params, l: &Ledgers<'_, C>) -> u64 {
    let lanes = step.age & LANES_MASK;
    let number = (lanes.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32;
    let batch = Batch {
        last: Nanos(step.now.saturating_sub(step.retry_after as u64)),
        lanes,
        sum: step.latency,
        lowest: step.about as u32 & 63,
        number,
        began: number + (step.probe & 1),
        requests: step.paid as u32 & 1,
    };
    settle_calm(p, &batch, Nanos(step.now), Nanos(step.entered), l);
    0
}
