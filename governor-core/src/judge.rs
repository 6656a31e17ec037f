//! The order in which an attempt is judged.
//!
//! 1. What an operator ordered.
//! 2. The breaker.
//! 3. Pushback.
//! 4. The retry rules.
//! 5. Concurrency.
//! 6. The retry budget.
//!
//! Rules that need no place are asked before one is taken. The probe of an open
//! breaker claims its lease last, when every other rule has admitted, and is
//! exempt from the limiter and the budget: a probe that is refused for another
//! reason would keep the breaker open.
//!
//! A connect and the first request on it are one attempt: [`crate::carried`].

use crate::breaker::{Gate, Level};
use crate::cell::Cell;
use crate::evidence::Evidence;
use crate::lease::Lease;
use crate::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger, count};
use crate::order::{Kind, Order, hold};
use crate::params::{Params, mode};
use crate::rules::{self, Repeat};
use crate::settle;
use crate::units::{Millis, Nanos};
use crate::verdict::{Reason, Ticket, Verdict};

/// The ledgers an attempt touches.
#[derive(Debug)]
pub struct Ledgers<'a, C> {
    /// Of the endpoint.
    pub endpoint: &'a EndpointLedger<C>,
    /// Of the workload at the destination.
    pub workload: &'a WorkloadLedger<C>,
    /// Of the destination.
    pub destination: &'a DestinationLedger<C>,
    /// The probe lease of the ip:port. Only needed where the breaker is not closed.
    pub lease: Option<&'a Lease<C>>,
}

/// The orders that concern an attempt, widest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Orders<'a> {
    /// For the node.
    pub node: Option<&'a Order>,
    /// For the destination.
    pub destination: Option<&'a Order>,
    /// For the workload, at any destination or at this one.
    pub workload: Option<&'a Order>,
}

/// What is known about an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// When.
    pub now: Nanos,
    /// Cgroup id of the workload.
    pub workload: u64,
    /// Whether it repeats a failed one.
    pub evidence: Evidence,
    /// A uniform random number.
    pub random: u32,
    /// A connect, or a request.
    pub level: Level,
    /// The retry rule that refuses it, if one does ([`rules::refuse`]): asked
    /// before, since it needs nothing but the request and the policy.
    pub barred: Option<Reason>,
}

impl Attempt {
    /// A connect.
    #[inline(always)]
    pub const fn connect(now: Nanos, workload: u64, evidence: Evidence, random: u32) -> Self {
        Self {
            now,
            workload,
            evidence,
            random,
            level: Level::Connect,
            barred: None,
        }
    }

    /// A request, of which this is known.
    #[inline(always)]
    pub fn request(
        p: &Params,
        now: Nanos,
        workload: u64,
        evidence: Evidence,
        repeat: &Repeat,
        random: u32,
    ) -> Self {
        Self {
            now,
            workload,
            evidence,
            random,
            level: Level::Exchange,
            barred: rules::refuse(p, evidence, repeat),
        }
    }

    /// How rules that refuse see it.
    #[inline(always)]
    pub const fn kind(&self) -> Kind {
        if self.evidence.refuses() {
            Kind::Retry
        } else {
            Kind::First
        }
    }
}

/// What the hook does with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Lets it go.
    Go,
    /// Lets it go as a probe.
    Probe(Ticket),
    /// Refuses it.
    Deny(Reason),
    /// Audit: lets it go, apart from the law.
    WouldDeny(Reason),
    /// The policy only observes: lets it go, apart from the law.
    Watch,
}

impl Decision {
    /// In one word: kind 8 | reason 8 | breaker generation 24 | lease generation 24.
    #[inline(always)]
    pub const fn pack(self) -> u64 {
        match self {
            Self::Go => 0,
            Self::Probe(ticket) => 1 << 56 | (ticket.breaker as u64) << 24 | ticket.lease as u64,
            Self::Deny(reason) => 2 << 56 | (reason as u64) << 48,
            Self::WouldDeny(reason) => 3 << 56 | (reason as u64) << 48,
            Self::Watch => 4 << 56,
        }
    }

    /// From [`Self::pack`]; what is unknown lets go.
    #[inline(always)]
    pub const fn unpack(word: u64) -> Self {
        match word >> 56 {
            1 => Self::Probe(Ticket {
                breaker: (word >> 24) as u32 & 0xff_ffff,
                lease: word as u32 & 0xff_ffff,
            }),
            2 => Self::Deny(Reason::from_number((word >> 48) as u32 & 0xff)),
            3 => Self::WouldDeny(Reason::from_number((word >> 48) as u32 & 0xff)),
            4 => Self::Watch,
            _ => Self::Go,
        }
    }
}

/// Independent-looking random numbers from one.
#[inline(always)]
pub(crate) const fn another(random: u32, which: u32) -> u32 {
    let mut x = random ^ which.wrapping_mul(0x9e37_79b9);
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^ (x >> 13)
}

/// Judges an attempt, and counts it.
#[inline(always)]
pub fn attempt<C: Cell>(
    p: &Params,
    a: &Attempt,
    l: &Ledgers<'_, C>,
    orders: &Orders<'_>,
) -> Decision {
    offered(a, a.kind(), l);
    if p.mode == mode::DISABLED {
        l.workload.bump(reached(a.level, a.kind()));
        return Decision::Watch;
    }
    let verdict = judge(p, a, l, orders);
    decide(p, a, l, verdict)
}

/// Counts an attempt that callers make.
#[inline(always)]
pub(crate) fn offered<C: Cell>(a: &Attempt, kind: Kind, l: &Ledgers<'_, C>) {
    let now = a.now.stamp();
    l.endpoint.touched.keep(now.0);
    l.workload.touched.keep(now.0);
    l.destination.touched.keep(now.0);
    l.workload.bump(match (a.level, kind) {
        (Level::Connect, Kind::First) => count::OFFERED_FIRST,
        (Level::Connect, Kind::Retry) => count::OFFERED_RETRY,
        (Level::Exchange, Kind::First) => count::REQUEST_OFFERED_FIRST,
        (Level::Exchange, Kind::Retry) => count::REQUEST_OFFERED_RETRY,
    });
    if matches!(a.evidence, Evidence::Inferred) {
        l.workload.bump(count::SUSPECTED);
    }
    if matches!(a.level, Level::Exchange) {
        // Only HTTP is judged by requests, and it always answers.
        settle::answers_count(l.endpoint);
    }
}

/// Where an attempt that reaches the network is counted.
#[inline(always)]
pub(crate) const fn reached(level: Level, kind: Kind) -> usize {
    match (level, kind) {
        (Level::Connect, Kind::First) => count::FIRST,
        (Level::Connect, Kind::Retry) => count::RETRY,
        (Level::Exchange, Kind::First) => count::REQUEST_FIRST,
        (Level::Exchange, Kind::Retry) => count::REQUEST_RETRY,
    }
}

/// Counts a verdict; what the mode makes of it.
#[inline(always)]
pub(crate) fn decide<C: Cell>(
    p: &Params,
    a: &Attempt,
    l: &Ledgers<'_, C>,
    verdict: Verdict,
) -> Decision {
    match verdict {
        Verdict::Admit => {
            admitted(p, a, l);
            Decision::Go
        }
        Verdict::Probe(ticket) => {
            admitted(p, a, l);
            l.workload.bump(count::PROBE_SENT);
            Decision::Probe(ticket)
        }
        Verdict::Deny(reason) if p.mode == mode::ENFORCE => {
            l.workload.bump(count::DENIED + reason as usize);
            if matches!(a.kind(), Kind::First) {
                l.workload.bump(count::DENIED_FIRST);
            }
            if l.endpoint.denied(a.now.stamp()) > 100 {
                l.workload.bump(count::DENIED_AGAIN);
            }
            Decision::Deny(reason)
        }
        Verdict::Deny(reason) => {
            l.workload.bump(count::WOULD_DENY + reason as usize);
            l.endpoint.denied(a.now.stamp());
            l.workload.bump(reached(a.level, a.kind()));
            Decision::WouldDeny(reason)
        }
    }
}

#[inline(always)]
fn admitted<C: Cell>(p: &Params, a: &Attempt, l: &Ledgers<'_, C>) {
    l.workload.bump(reached(a.level, a.kind()));
    if matches!(a.kind(), Kind::First) {
        l.destination.budget.first_try(p, a.now);
    }
}

/// What needs no place: pushback and the retry rules.
#[inline(always)]
pub(crate) fn ruled_out<C: Cell>(p: &Params, a: &Attempt, l: &Ledgers<'_, C>) -> Option<Reason> {
    if l.workload.pushback.refuses(p, a.now.stamp(), a.kind()) {
        return Some(Reason::RetryAfter);
    }
    a.barred
}

/// The law: whether an attempt may go.
#[inline(always)]
pub fn judge<C: Cell>(p: &Params, a: &Attempt, l: &Ledgers<'_, C>, orders: &Orders<'_>) -> Verdict {
    let now = a.now.stamp();
    // One by one, not in a loop: the verifier loses track of pointers that are
    // picked out of an array.
    let mut held = hold::NONE;
    if let Some(order) = orders.node {
        if let Some(reason) = order.refuses(a.now, a.kind(), another(a.random, 1)) {
            return Verdict::Deny(reason);
        }
        held = order.held(a.now);
    }
    if let Some(order) = orders.destination {
        if let Some(reason) = order.refuses(a.now, a.kind(), another(a.random, 2)) {
            return Verdict::Deny(reason);
        }
        let this = order.held(a.now);
        held = if this == hold::NONE { held } else { this };
    }
    if let Some(order) = orders.workload {
        if let Some(reason) = order.refuses(a.now, a.kind(), another(a.random, 3)) {
            return Verdict::Deny(reason);
        }
        let this = order.held(a.now);
        held = if this == hold::NONE { held } else { this };
    }
    if held == hold::OPEN {
        return Verdict::Deny(Reason::Breaker);
    }
    let mut candidate = false;
    if p.breaker_enabled != 0 && held == hold::NONE {
        let proven = match l.lease {
            Some(lease) => lease.proven(),
            None => Millis::NEVER,
        };
        match l
            .endpoint
            .breaker
            .gate(p, now, proven, another(a.random, 4))
        {
            Gate::Pass => {}
            Gate::Refuse => return Verdict::Deny(Reason::Breaker),
            Gate::Candidate => candidate = true,
            Gate::Rehearsed => l.workload.limiter.restore(p),
        }
    }
    if let Some(reason) = ruled_out(p, a, l) {
        return Verdict::Deny(reason);
    }
    let limiter = &l.workload.limiter;
    limiter.tick(p, a.now);
    if candidate {
        return probe(p, a, l);
    }
    if !limiter.enter(p, a.now) {
        return Verdict::Deny(Reason::Concurrency);
    }
    if p.budget_enabled != 0
        && matches!(a.kind(), Kind::Retry)
        && !l.destination.budget.charge(&l.workload.share, p, a.now)
    {
        limiter.leave(a.now, a.now);
        return Verdict::Deny(Reason::Budget);
    }
    Verdict::Admit
}

/// How long a probe may hold the lease because healthy answers are slow.
pub const LONGEST_HOLD: Millis = Millis(30_000);

/// The one probe: whoever wins the lease of the ip:port.
///
/// Without a lease (its map is full) the breaker alone keeps it to one per
/// workload: a breaker that can not probe would never close (I4, I7).
#[inline(always)]
fn probe<C: Cell>(p: &Params, a: &Attempt, l: &Ledgers<'_, C>) -> Verdict {
    let now = a.now.stamp();
    let breaker = &l.endpoint.breaker;
    let deadline = breaker.probe_deadline(p, now);
    let mut claimed = 0;
    let mut proven = Millis::NEVER;
    if let Some(lease) = l.lease {
        // A very slow probe keeps its own breaker waiting, and not those of
        // others: a long poll of ten minutes would hold the lease for twenty.
        let most = if p.probe_timeout > LONGEST_HOLD.0 {
            now.0 + p.probe_timeout
        } else {
            now.0 + LONGEST_HOLD.0
        };
        let held = Millis(if deadline.0 < most { deadline.0 } else { most });
        let Some(generation) = lease.claim(a.workload, breaker.turn(p), now, held) else {
            return Verdict::Deny(Reason::Breaker);
        };
        claimed = generation;
        proven = lease.proven();
    } else {
        l.workload.bump(count::FAILED_OPEN);
    }
    let Some(generation) = breaker.probe(now, proven, deadline) else {
        if let Some(lease) = l.lease {
            lease.release(claimed);
        }
        return Verdict::Deny(Reason::Breaker);
    };
    l.workload.limiter.enter_unasked(a.now);
    Verdict::Probe(Ticket {
        breaker: generation,
        lease: claimed,
    })
}
