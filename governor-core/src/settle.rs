//! What the outcome of an attempt does.
//!
//! Only real outcomes come here. A denial is not one (I1), and what audit
//! would have denied is counted apart (I9).

use crate::breaker::{Failure, Level, Met, Move};
use crate::calm::Batch;
use crate::cell::Cell;
use crate::judge::Ledgers;
use crate::lease::Lease;
use crate::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger, count};
use crate::limiter::Failed;
use crate::params::Params;
use crate::status;
use crate::units::{Millis, Nanos};
use crate::verdict::{Outcome, Settled, Ticket};

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// When.
    pub now: Nanos,
    /// When it took its place in flight; 0: it has none.
    pub entered: Nanos,
    /// How long it took, us.
    pub latency: u64,
    /// A connect or an exchange.
    pub level: Level,
    /// How.
    pub outcome: Outcome,
    /// The status of the answer; 0: it was not read, or there was none.
    pub status: u32,
    /// How long the answer asks to wait, ms; 0: it does not.
    pub retry_after: u32,
    /// The ticket of a probe, or [`Ticket::NONE`].
    pub probe: Ticket,
    /// Whether it was let go only because of audit.
    pub audited: Audited,
    /// A uniform random number.
    pub random: u32,
}

/// Whether audit let go what would have been denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// It was admitted: its outcome feeds the law.
    Admitted,
    /// It would have been denied: its outcome is only counted.
    WouldDeny,
    /// The policy only observes.
    Watched,
}

/// Whether an ending says nothing: a connect, where exchanges are answered. A
/// stalled application still accepts, so it proves nothing and earns nothing.
#[inline(always)]
pub fn says_nothing<C: Cell>(e: &Ending, endpoint: &EndpointLedger<C>) -> bool {
    matches!(e.level, Level::Connect)
        && matches!(e.outcome, Outcome::Success)
        && matches!(e.audited, Audited::Admitted)
        && !e.probe.is_some()
        && endpoint.answers()
}

/// Settles an ending that says nothing; the destination is not needed for it.
#[inline(always)]
pub fn settle_nothing<C: Cell>(p: &Params, e: &Ending, workload: &WorkloadLedger<C>) {
    workload.bump(count::CONNECT + Outcome::Success as usize);
    if e.entered.0 != 0 {
        workload.limiter.leave(e.now, e.entered);
    }
    workload.limiter.tick(p, e.now);
}

/// Settles an attempt.
#[inline(always)]
pub fn settle<C: Cell>(p: &Params, e: &Ending, l: &Ledgers<'_, C>) -> Settled {
    if says_nothing(e, l.endpoint) {
        settle_nothing(p, e, l.workload);
        return Settled { moved: Move::None };
    }
    let moved = C::settle(p, e, l.endpoint, l.workload, l.destination);
    if let (true, Some(lease)) = (e.probe.is_some(), l.lease) {
        give_back(e, moved, lease);
    }
    Settled { moved }
}

/// A probe is over: another one may go.
#[inline(always)]
fn give_back<C: Cell>(e: &Ending, moved: Move, lease: &Lease<C>) {
    let closed = matches!(moved, Move::Closed);
    if closed {
        lease.prove(e.now.stamp());
    }
    // It may have closed nothing: another CPU moved the breaker, or the policy was put in
    // force. But a connect does not speak for a breaker that waits for an exchange.
    let waits = matches!(e.outcome, Outcome::Success) && matches!(e.level, Level::Connect);
    if closed || !waits {
        lease.release(e.probe.lease);
    }
}

/// [`settle`], of an ending that says something, without the lease.
#[inline(always)]
pub fn settle_at<C: Cell>(
    p: &Params,
    e: &Ending,
    endpoint: &EndpointLedger<C>,
    workload: &WorkloadLedger<C>,
    destination: &DestinationLedger<C>,
) -> Move {
    let l = &Ledgers {
        endpoint,
        workload,
        destination,
        lease: None,
    };
    used(e, l);
    let base = match e.level {
        Level::Connect => count::CONNECT,
        Level::Exchange => count::EXCHANGE,
    };
    l.workload.bump(base + e.outcome as usize);
    if matches!(e.outcome, Outcome::Status) {
        l.workload.bump(count::STATUS + status::index(e.status));
    }
    if matches!(e.audited, Audited::WouldDeny) {
        if matches!(e.outcome, Outcome::Success) {
            l.workload.bump(count::WOULD_DENY_SUCCEEDED);
        } else if !matches!(e.outcome, Outcome::Cancelled) {
            l.workload.bump(count::WOULD_DENY_FAILED);
        }
        return Move::None;
    }
    if matches!(e.audited, Audited::Watched) {
        if matches!(e.outcome, Outcome::Success) {
            watched_success(e, l);
        } else if !matches!(e.outcome, Outcome::Cancelled) {
            claim(p, e, l);
        }
        return Move::None;
    }
    if e.entered.0 != 0 {
        l.workload.limiter.leave(e.now, e.entered);
    }
    asked_to_wait(p, e, l);
    let moved = match e.outcome {
        Outcome::Success => success(p, e, l),
        Outcome::Cancelled => {
            cancelled(e, l);
            Move::None
        }
        _ => failure(p, e, l),
    };
    l.workload.limiter.tick(p, e.now);
    match moved {
        Move::Tripped => l.workload.bump(count::TRIPPED),
        Move::Reopened => l.workload.bump(count::REOPENED),
        Move::Closed => l.workload.bump(count::CLOSED),
        Move::None => {}
    }
    moved
}

/// Settles exchanges of a connection that were calm ([`crate::calm`]): first tries,
/// admitted, all successes. `entered`: since when the connection is in flight.
#[inline(always)]
pub fn settle_calm<C: Cell>(
    p: &Params,
    batch: &Batch,
    now: Nanos,
    entered: Nanos,
    l: &Ledgers<'_, C>,
) {
    if entered.0 != 0 {
        l.workload.limiter.leave(now, entered);
    }
    if batch.requests != 0 {
        l.workload
            .bump_by(count::REQUEST_OFFERED_FIRST, batch.began);
        l.workload.bump_by(count::REQUEST_FIRST, batch.began);
        l.destination
            .budget
            .first_tries(p, now, batch.last, batch.began);
    }
    if batch.number == 0 {
        return;
    }
    l.workload
        .bump_by(count::EXCHANGE + Outcome::Success as usize, batch.number);
    l.destination.observe_all(batch);
    l.endpoint.touched.keep(now.stamp().0);
    l.workload.touched.keep(now.stamp().0);
    l.destination.touched.keep(now.stamp().0);
    l.endpoint
        .breaker
        .succeeded_before(batch.last.stamp(), batch.number, batch.longest());
    l.destination
        .budget
        .successes(&l.workload.share, p, now, batch.last, batch.number);
    if p.failure_share != 0 {
        let (epoch, added) = (p.breaker_epoch(now), p.breaker_epoch(batch.last));
        l.endpoint.successes.add_late(epoch, added, batch.number);
    }
    // The limiter goes by what is now: what is stale teaches it nothing.
    if batch.is_stale(now) {
        return;
    }
    let mut lane = 0;
    while lane < Batch::LANES {
        let (number, bucket) = batch.lane(lane);
        let (octave, quarter) = (bucket / 4, bucket as u32 & 3);
        l.workload.limiter.successes(number, octave, quarter);
        lane += 1;
    }
    l.workload.limiter.tick(p, now);
}

/// Answers are given here, or ought to be: what succeeded before were connects
/// only, and they prove and earn nothing any more. A stall that is older than the
/// governor would else never open a breaker; and one that accepts from the first
/// earned its callers 568 retries in a second where the reserve is all they have
/// (lab, 158).
#[inline(always)]
pub(crate) fn answers_count<C: Cell>(endpoint: &EndpointLedger<C>) {
    if !endpoint.answers() {
        endpoint.answers.store(1);
        endpoint.breaker.unproven();
    }
}

/// An ending is a use, too: on the connections of a pool no attempt may begin for
/// hours, and its ledgers would be collected for unused.
#[inline(always)]
fn used<C: Cell>(e: &Ending, l: &Ledgers<'_, C>) {
    let now = e.now.stamp();
    l.endpoint.touched.keep(now.0);
    l.workload.touched.keep(now.0);
    l.destination.touched.keep(now.0);
}

/// What observing learns from a success: that answers are given, and how fast.
#[inline(always)]
fn watched_success<C: Cell>(e: &Ending, l: &Ledgers<'_, C>) {
    if matches!(e.level, Level::Exchange) {
        answers_count(l.endpoint);
    }
    if matches!(e.level, Level::Exchange) || !l.endpoint.answers() {
        l.destination.observe(e.latency);
    }
}

#[inline(always)]
fn success<C: Cell>(p: &Params, e: &Ending, l: &Ledgers<'_, C>) -> Move {
    if matches!(e.level, Level::Exchange) {
        answers_count(l.endpoint);
    }
    let counts = matches!(e.level, Level::Exchange) || !l.endpoint.answers();
    let mut moved = Move::None;
    if counts || e.probe.is_some() {
        moved = l
            .endpoint
            .breaker
            .success(e.now.stamp(), e.level, e.probe.breaker, e.latency);
    }
    if matches!(moved, Move::Closed) {
        l.workload.bump(count::PROBE_SUCCESS);
        l.workload.limiter.restore(p);
    }
    if counts {
        l.workload.limiter.success(e.latency);
        l.destination.budget.success(&l.workload.share, p, e.now);
        l.destination.observe(e.latency);
        if p.failure_share != 0 {
            l.endpoint.successes.add(p.breaker_epoch(e.now), 1);
        }
    }
    moved
}

#[inline(always)]
fn failure<C: Cell>(p: &Params, e: &Ending, l: &Ledgers<'_, C>) -> Move {
    l.workload.limiter.failure(match e.outcome {
        Outcome::Timeout => Failed::GaveUp { after: e.latency },
        _ if e.outcome.overload(e.status) => Failed::NoRoom,
        _ => Failed::Otherwise,
    });
    l.destination.budget.failure(e.now);
    claim(p, e, l);
    if matches!(e.level, Level::Exchange) {
        answers_count(l.endpoint);
    }
    if p.breaker_enabled == 0 {
        return Move::None;
    }
    let failed = Failure {
        now: e.now.stamp(),
        took: Millis(e.latency / 1_000),
        level: e.level,
        met: match e.outcome {
            Outcome::Status if e.outcome.overload(e.status) => Met::NoRoom,
            Outcome::Status => Met::Error,
            _ => Met::Silence,
        },
        probe: e.probe.breaker,
        random: e.random,
        rate_trips: rate_trips(p, e, l),
    };
    let moved = l.endpoint.breaker.failure(p, &failed);
    if e.probe.is_some() {
        l.workload.bump(count::PROBE_FAILURE);
    }
    moved
}

/// Lets the next connect be suspected. Not after a bad answer: the connection
/// that gave it lives, and who sends the request again is known by the request.
#[inline(always)]
fn claim<C: Cell>(p: &Params, e: &Ending, l: &Ledgers<'_, C>) {
    if !matches!(e.outcome, Outcome::Status) {
        l.endpoint
            .claims
            .failed(e.now.stamp(), Millis(p.evidence_window));
    }
}

/// What an answer says of waiting: it asks for it, or that is over.
#[inline(always)]
fn asked_to_wait<C: Cell>(p: &Params, e: &Ending, l: &Ledgers<'_, C>) {
    if matches!(e.level, Level::Connect) {
        return;
    }
    let pushback = &l.workload.pushback;
    if status::is_pushback(e.status) {
        // Not where the answer is a governor's own, which is no outcome (I1).
        let answered = p.outcome::<C>(e.status) as u32 == e.outcome as u32;
        if answered && e.retry_after != 0 {
            let wait = Millis(e.retry_after as u64);
            pushback.asked(p, e.now.stamp(), wait);
        }
    } else if matches!(e.outcome, Outcome::Success) {
        pushback.cleared();
    } else if matches!(e.outcome, Outcome::Status) {
        pushback.interrupted();
    }
}

/// The opt-in rule: the share of failures in the interval.
#[inline(always)]
fn rate_trips<C: Cell>(p: &Params, e: &Ending, l: &Ledgers<'_, C>) -> bool {
    if p.failure_share == 0 {
        return false;
    }
    let epoch = p.breaker_epoch(e.now);
    l.endpoint.failures.add(epoch, 1);
    let failures = l.endpoint.failures.count(epoch);
    let all = failures + l.endpoint.successes.count(epoch);
    all >= p.failure_minimum as u64 && failures * 10_000 >= all * p.failure_share as u64
}

/// The caller went away early: a probe that says nothing is a lost one.
#[inline(always)]
fn cancelled<C: Cell>(e: &Ending, l: &Ledgers<'_, C>) {
    if e.probe.is_some() {
        let took = Millis(e.latency / 1_000);
        l.endpoint
            .breaker
            .probe_lost(e.now.stamp(), e.probe.breaker, took);
    }
}
