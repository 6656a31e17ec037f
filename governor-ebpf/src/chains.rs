//! What is known of equal requests: looked up when one is sent, told how it
//! ended.

use governor_core::{
    chain::{Advice, Chain, Learned, Result},
    http::answer,
    key::{ChainKey, WorkloadKey},
    ledger::WorkloadLedger,
    params::Params,
    record::Record,
    units::{Millis, Nanos},
    verdict::Outcome,
};

use crate::{cell::MapCell, maps, policy};

/// The chain of a hash among the requests of the record's workload to its
/// destination; created if new.
#[inline(never)]
pub fn chain(record: &Record, hash: u64) -> Option<&'static Chain<MapCell>> {
    maps::chain(&ChainKey {
        workload: workload_key(record),
        hash,
    })
}

/// What is learned here of a workload is kept with it.
#[inline(never)]
pub fn workload(record: &Record) -> Option<&'static WorkloadLedger<MapCell>> {
    maps::workload(&workload_key(record))
}

#[inline(always)]
fn workload_key(record: &Record) -> WorkloadKey {
    WorkloadKey {
        workload: record.endpoint.workload,
        destination: record.endpoint.destination(record.group),
    }
}

/// Whether the request of the record, which its caller closes now, was a hedge
/// that is not needed any more. A global function, as in `cell`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn chain_outrun(record: *const Record, now: u64) -> u32 {
    // SAFETY: null, or a record: the verifier checks the size.
    let outrun = match unsafe { record.as_ref() } {
        Some(record) => outrun(record, Nanos(now)),
        None => false,
    };
    outrun as u32
}

#[inline(always)]
fn outrun(record: &Record, now: Nanos) -> bool {
    match chain(record, record.exchange.fingerprint) {
        Some(chain) => chain.is_outrun(Nanos(record.asked).stamp(), now.stamp()),
        None => false,
    }
}

/// The request of the record ended. A global function, as in `cell`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn chain_ended(record: *const Record, now: u64, outcome: u32) -> u32 {
    // SAFETY: null, or a record: the verifier checks the size.
    if let Some(record) = unsafe { record.as_ref() } {
        ended(record, Nanos(now), Outcome::from_number(outcome));
    }
    0
}

#[inline(always)]
fn ended(record: &Record, now: Nanos, outcome: Outcome) {
    let Some(p) = policy::params(record.rule) else {
        return;
    };
    let result = result(record, outcome);
    let equals = result.for_equals(outcome, record.answer.status);
    let learned = told(p, record, record.exchange.fingerprint, now, equals);
    if !matches!(learned, Learned::Nothing)
        && let Some(workload) = workload(record)
    {
        workload.learned(learned);
    }
    if record.exchange.key != 0 {
        told(p, record, record.exchange.key, now, result);
    }
}

#[inline(always)]
fn result(record: &Record, outcome: Outcome) -> Result {
    let advice = if record.answer.flags & answer::flag::NO_RETRY != 0 {
        Advice::NoRetry
    } else {
        Advice::None
    };
    Result::of(outcome, record.answer.status, advice)
}

#[inline(always)]
fn told(p: &Params, record: &Record, hash: u64, now: Nanos, result: Result) -> Learned {
    match chain(record, hash) {
        Some(chain) => chain.ended(
            now.stamp(),
            Millis(p.evidence_window),
            &record.exchange.link(),
            result,
        ),
        None => Learned::Nothing,
    }
}
