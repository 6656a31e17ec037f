//! Exchanges that say nothing new are counted on their connection and settled
//! together: the law is `governor_core::calm`, here are the facts it goes by.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_skb_load_bytes};
use governor_core::{
    calm::{Trouble, WORDS, begins_like, word_of},
    http::request::flag::CHUNKED,
    key::WorkloadKey,
    params::{Params, mode},
    record::{Record, flag},
    status,
    units::Nanos,
    verdict::Outcome,
};

use crate::{
    again,
    cell::MapCell,
    maps::{CONFIG, TROUBLE},
    verdict,
};

/// What a record must not be for its exchange to begin a stretch.
const APART: u32 = flag::WOULD_DENY | flag::WATCHED | flag::PROBE | flag::REFUSED;

#[inline(always)]
fn trouble(word: u32) -> Option<&'static Trouble<MapCell>> {
    TROUBLE.get(word & (WORDS - 1))
}

/// Something went wrong for a workload at a destination: none of its connections there
/// is calm.
#[inline(always)]
pub fn stir(key: &WorkloadKey, now: Nanos) {
    if let Some(trouble) = trouble(word_of(key)) {
        trouble.stir(now);
    }
}

/// Whether an ending concerns other exchanges: it failed, or was answered that the same
/// will be answered again, or to wait.
#[inline(always)]
pub fn stirs(outcome: Outcome, status: u32) -> bool {
    match outcome {
        Outcome::Success => status::is_final(status) || status::is_pushback(status),
        Outcome::Cancelled => false,
        _ => true,
    }
}

/// What holds for a workload and destination now; 0: not all is well.
#[inline(always)]
fn seal(word: u32) -> u64 {
    match (CONFIG.get(0), trouble(word)) {
        (Some(config), Some(trouble)) => trouble.seal(config),
        _ => 0,
    }
}

/// Whether the exchange of a record, that has ended so, may begin a stretch as far as
/// the record knows; the word of trouble it would go by.
#[inline(always)]
pub fn may_begin(
    p: &Params,
    record: &Record,
    key: &WorkloadKey,
    now: Nanos,
    outcome: Outcome,
) -> Option<u32> {
    if record.flags & (flag::STEADY | APART) != flag::STEADY || !matches!(outcome, Outcome::Success)
    {
        return None;
    }
    if !record.has(flag::OPAQUE) {
        // Of a request that no executor reaches another thing is counted.
        if p.mode == mode::ENFORCE && !record.has(flag::REACHED) {
            return None;
        }
        // What a failed answer says of another try has to be read, each time.
        if record.answer.status < 200 || record.answer.status >= 400 {
            return None;
        }
    }
    let word = word_of(key);
    match trouble(word) {
        Some(trouble) if trouble.is_quiet(now) => Some(word),
        _ => None,
    }
}

/// The exchange of a record has ended: what comes now may come without a pause; where
/// it may begin a stretch, that begins.
#[inline(always)]
pub fn rest(record: &mut Record, now: Nanos, took: Nanos, word: Option<u32>) {
    let status = if record.has(flag::OPAQUE) {
        0
    } else {
        record.answer.status
    };
    record.flags &= !flag::STEADY;
    let Some(word) = word else {
        record.calm().rest(now, took);
        return;
    };
    record.entered = now.0;
    record.flags |= flag::CALM;
    // Before the word is asked again: what goes wrong in between is not sealed in.
    let seal = seal(word);
    let quiet = match trouble(word) {
        Some(trouble) => trouble.is_quiet(now),
        None => false,
    };
    let seal = if quiet { seal } else { 0 };
    record.calm().begin(now, took, word, seal, status);
}

/// Marks what begins now as coming without a pause, or not.
#[inline(always)]
pub fn mark(record: &mut Record, now: u64) {
    if record.asked != 0 {
        return;
    }
    if record.calm().is_steady(Nanos(now)) {
        record.flags |= flag::STEADY;
    } else {
        record.flags &= !flag::STEADY;
    }
}

/// Whether what is sent now is one more exchange of the stretch: if so it has begun.
#[inline(always)]
pub fn goes_on(skb: *mut __sk_buff, record: &mut Record, offset: u32, len: u32, now: u64) -> bool {
    if record.asked != 0 {
        // More of a turn is nothing new; another request before the answer is.
        return record.has(flag::OPAQUE);
    }
    let calm = record.calm();
    if !calm.goes_on(Nanos(now), seal(calm.word())) {
        return false;
    }
    if !record.has(flag::OPAQUE) {
        if !again::is_the_same(skb, record, offset, len) {
            return false;
        }
        record.flags |= flag::REQUEST;
    }
    record.asked = now;
    true
}

/// Whether what is heard now answers a calm exchange as the one before it: if so that
/// has ended.
#[inline(always)]
pub fn answered(skb: *mut __sk_buff, record: &mut Record, offset: u32, len: u32, now: u64) -> bool {
    let took = Nanos(now.saturating_sub(record.asked));
    let calm = record.calm();
    if !calm.holds(seal(calm.word())) {
        return false;
    }
    if calm.answer() != 0 {
        let mut head = [0u64; 2];
        if len < USUAL {
            return false;
        }
        // SAFETY: as many bytes fit; the helper checks the packet's bounds.
        let failed =
            unsafe { bpf_skb_load_bytes(skb.cast(), offset, (&raw mut head).cast(), USUAL) };
        if failed != 0 || !begins_like(head, calm.answer()) {
            return false;
        }
    }
    if !calm.note(Nanos(now), took) {
        return false;
    }
    record.asked = 0;
    record.flags &= !flag::REQUEST;
    true
}

/// `HTTP/1.1 200`
const USUAL: u32 = 12;

/// Whether a request that was admitted is nothing but the one before it once more: all
/// of it was in one segment, nothing names its operation, and nobody waits for it in
/// particular.
#[inline(always)]
pub fn is_plain(record: &Record) -> bool {
    let said = &record.request;
    record.seen != 0
        && record.unlike == 0
        && record.body == 0
        && record.evidence == 0
        && said.key | said.weak_key | said.expires == 0
        && said.attempt <= 1
        && said.patience == 0
        && said.flags & CHUNKED == 0
}

/// The stretch is over: what was counted is settled. What is still on its way ends as
/// any other exchange does.
#[inline(always)]
pub fn leave(record: &mut Record, now: u64) {
    verdict::leave_calm(record, now);
}

/// Its record after that.
#[inline(always)]
pub fn left(record: &mut Record) {
    record.entered = 0;
    record.flags &= !flag::CALM;
    if record.asked != 0 {
        record.exchange.chain_started = Nanos(record.asked).stamp().0;
    }
    record.answer.begin();
}
