//! Requests that are not judged by themselves.
//!
//! A connect and the first request on it are one attempt. The connect was asked
//! what could be asked without knowing the request; here the request is asked
//! the rest, and nothing is counted or charged twice. Requests that no executor
//! reaches are only counted: a denial that is not carried out is none.

use crate::cell::Cell;
use crate::judge::{
    Attempt, Decision, Ledgers, Orders, another, decide, offered, reached, ruled_out,
};
use crate::ledger::count;
use crate::order::Kind;
use crate::params::{Params, mode};
use crate::verdict::{Reason, Verdict};

/// What the connect was counted as that the first request on it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Paid {
    /// A first try.
    First = 0,
    /// A retry: what retries are asked, it was asked.
    Retry = 1,
}

impl Paid {
    /// As what the attempt is counted: what was charged as a retry is one.
    #[inline(always)]
    const fn kind(self, a: &Attempt) -> Kind {
        match self {
            Self::First => a.kind(),
            Self::Retry => Kind::Retry,
        }
    }
}

/// Why a request is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unjudged {
    /// Nothing could carry out a refusal.
    Unreached,
    /// As above, and its connect was judged: both are one attempt.
    UnreachedFirst(Paid),
    /// Its connect was a probe, and it is the probe's exchange.
    Probe(Paid),
    /// Audit would have denied its connect.
    Apart(Paid),
}

/// Judges the first request on a connection, whose connect was judged.
///
/// No breaker, no limit: the connect was asked. Where the connect was taken for
/// a first try and the request is known to be a retry, it is now asked what
/// retries are asked.
#[inline(always)]
pub fn carried<C: Cell>(
    p: &Params,
    a: &Attempt,
    paid: Paid,
    l: &Ledgers<'_, C>,
    orders: &Orders<'_>,
) -> Decision {
    let kind = paid.kind(a);
    offered(a, kind, l);
    carry(paid, l);
    if p.mode == mode::DISABLED {
        l.workload.bump(reached(a.level, kind));
        return Decision::Watch;
    }
    match again(p, a, paid, l, orders) {
        Some(reason) => decide(p, a, l, Verdict::Deny(reason)),
        None => {
            l.workload.bump(reached(a.level, kind));
            l.workload.limiter.enter_unasked(a.now);
            Decision::Go
        }
    }
}

/// Counts a request that is not judged, and takes its place in flight.
#[inline(always)]
pub fn passed<C: Cell>(p: &Params, a: &Attempt, why: Unjudged, l: &Ledgers<'_, C>) -> Decision {
    if matches!(why, Unjudged::Unreached | Unjudged::UnreachedFirst(_)) {
        l.workload.bump(count::UNREACHED);
    }
    let (kind, new) = match why {
        Unjudged::Unreached => (a.kind(), true),
        Unjudged::UnreachedFirst(paid) | Unjudged::Probe(paid) | Unjudged::Apart(paid) => {
            carry(paid, l);
            (paid.kind(a), false)
        }
    };
    offered(a, kind, l);
    l.workload.bump(reached(a.level, kind));
    if p.mode == mode::DISABLED {
        return Decision::Watch;
    }
    if matches!(why, Unjudged::Apart(_)) {
        return Decision::Go;
    }
    if new && matches!(kind, Kind::First) {
        l.destination.budget.first_try(p, a.now);
    }
    l.workload.limiter.enter_unasked(a.now);
    Decision::Go
}

/// Counts a request as one attempt with its connect.
#[inline(always)]
fn carry<C: Cell>(paid: Paid, l: &Ledgers<'_, C>) {
    l.workload.bump(count::CARRIED);
    if matches!(paid, Paid::Retry) {
        l.workload.bump(count::CARRIED_RETRY);
    }
}

/// What a retry is asked whose connect was taken for a first try.
#[inline(always)]
fn again<C: Cell>(
    p: &Params,
    a: &Attempt,
    paid: Paid,
    l: &Ledgers<'_, C>,
    orders: &Orders<'_>,
) -> Option<Reason> {
    if !matches!(a.kind(), Kind::Retry) {
        return None;
    }
    if matches!(paid, Paid::Retry) {
        return ruled_out(p, a, l);
    }
    // One by one, as in `judge`.
    if let Some(order) = orders.node
        && let Some(reason) = order.refuses_retry(a.now, another(a.random, 1))
    {
        return Some(reason);
    }
    if let Some(order) = orders.destination
        && let Some(reason) = order.refuses_retry(a.now, another(a.random, 2))
    {
        return Some(reason);
    }
    if let Some(order) = orders.workload
        && let Some(reason) = order.refuses_retry(a.now, another(a.random, 3))
    {
        return Some(reason);
    }
    if let Some(reason) = ruled_out(p, a, l) {
        return Some(reason);
    }
    if p.budget_enabled != 0 && !l.destination.budget.charge(&l.workload.share, p, a.now) {
        return Some(Reason::Budget);
    }
    None
}
