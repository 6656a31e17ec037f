//! A request's head is complete: it is judged.
//!
//! A connect that was admitted pays for the first request on it: the two are
//! one attempt. A request that no executor could answer is never refused.

use governor_core::{
    cell::Cell as _,
    chain::{Chain, Learned, Seen, Sighting, operation},
    event::{Event, kind},
    evidence::{Evidence, History, Name, of_request},
    judge::{Attempt, Decision},
    key::{Config, EXEMPT, loss},
    ledger::EndpointLedger,
    params::{Params, mode},
    record::{Exchange, Record, flag},
    rules::{Repeat, said},
    units::{Millis, Nanos},
    verdict::Reason,
};

use crate::{
    cell::MapCell,
    chains,
    maps::{self, CONFIG, lost},
    policy, verdict,
};

/// Denials of one thread in a second above which it counts as looping without
/// delay: it is answered late (I10). Not of an endpoint: a hundred callers that
/// wait between their tries are no loop.
const LOOPING: u64 = 100;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Judges the request that the record has read; the segment in which its head
/// ends begins at `sequence`. Whether a probe is lost by it, which the caller
/// settles (in a frame less deep).
#[inline(never)]
pub fn judge(record: &mut Record, sequence: u32) -> bool {
    let Some(config) = CONFIG.get(0) else {
        return false;
    };
    let Some(endpoint) = renew(config, record) else {
        return false;
    };
    let Some(p) = policy::params(record.rule) else {
        lost(loss::NO_POLICY);
        return false;
    };
    let print = chains::chain(record, record.request.fingerprint)
        .map_or(core::ptr::null(), core::ptr::from_ref);
    request_known(config, p, record, print);
    let facts = facts(p, record);
    let packed = verdict::judge_request(config, p, record, endpoint, &raw const facts);
    if packed == verdict::FAILED_OPEN {
        return false;
    }
    let lost = carry_out(p, record, endpoint, packed, sequence);
    if record.flags & (flag::REFUSED | flag::WOULD_DENY) == 0 {
        request_sent(p, record, print, record.spoke);
    }
    lost
}

/// The law's facts of the request. In a frame of its own: what it is made from
/// would lie below the law's frames.
#[inline(never)]
fn facts(p: &Params, record: &mut Record) -> Attempt {
    let now = Nanos(record.spoke);
    let evidence = Evidence::from_number(record.evidence);
    let repeat = Repeat {
        age: Millis(now.stamp().0.saturating_sub(record.exchange.chain_started)),
        number: record
            .exchange
            .link()
            .at_least(record.request.attempt)
            .number,
        about: record.about,
    };
    let workload = record.endpoint.workload;
    Attempt::request(p, now, workload, evidence, &repeat, verdict::random())
}

/// Does what was decided; whether a probe is lost by it.
#[inline(never)]
fn carry_out(
    p: &Params,
    record: &mut Record,
    endpoint: &EndpointLedger<MapCell>,
    packed: u64,
    sequence: u32,
) -> bool {
    let now = Nanos(record.spoke);
    let decision = Decision::unpack(packed);
    if let Decision::Deny(reason) = decision {
        refuse(p, record, reason, sequence);
        tell(record, endpoint, packed, now);
        return record.has(flag::PROBE);
    }
    if let Decision::WouldDeny(_) = decision {
        tell(record, endpoint, packed, now);
    }
    go(record, decision, now);
    if p.mode == mode::ENFORCE && Evidence::from_number(record.evidence).refuses() {
        pace(p, record, now);
    }
    false
}

/// A retry leaves a little later: anywhere in the delay (full jitter).
#[inline(always)]
fn pace(p: &Params, record: &mut Record, now: Nanos) {
    let range = p.pacing_delay as u64 * 1_000_000;
    record.not_before = if range == 0 {
        0
    } else {
        now.0 + ((verdict::random() as u64 * (range >> 10)) >> 22)
    };
}

/// The policy in force for the record's endpoint, whose ledger it gives; `None`
/// where none applies any more.
#[inline(never)]
fn renew(config: &Config, record: &mut Record) -> Option<&'static EndpointLedger<MapCell>> {
    let endpoint = maps::endpoint(&record.endpoint)?;
    let rule = policy::of_request(config, &record.endpoint, endpoint);
    if rule == EXEMPT {
        record.flags &= !flag::REQUEST;
        record.asked = 0;
        return None;
    }
    record.rule = policy::index(config, rule);
    record.group = endpoint.group.load() as u32;
    Some(endpoint)
}

// Global functions, as in `cell`: the verifier walks each once.

/// What is known about the request, and the chain it belongs to, go into the
/// record.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn request_known(
    config: *const Config,
    p: *const Params,
    record: *mut Record,
    print: *const Chain<MapCell>,
) -> u32 {
    // SAFETY: null, or what the types say: the verifier checks the sizes.
    let all = unsafe { (config.as_ref(), p.as_ref(), record.as_mut()) };
    if let (Some(config), Some(p), Some(record)) = all {
        // SAFETY: as above.
        known(config, p, record, unsafe { print.as_ref() });
    }
    0
}

#[inline(always)]
fn known(config: &Config, p: &Params, record: &mut Record, print: Option<&Chain<MapCell>>) {
    let now = Nanos(record.spoke);
    let (stamp, window) = (now.stamp(), Millis(p.evidence_window));
    let scan = &record.request;
    let name = operation(scan.key, scan.weak_key, scan.fingerprint);
    let strong = scan.key != 0;
    record.exchange = Exchange {
        fingerprint: scan.fingerprint,
        key: name,
        chain_started: stamp.0,
        number: 1,
        method: scan.method,
    };
    let print = look(print, stamp, window);
    let named;
    let name = if name == 0 {
        Name::None
    } else {
        named = look(chains::chain(record, name), stamp, window);
        if strong {
            Name::Strong(&named)
        } else {
            Name::Weak(&named)
        }
    };
    // Only where an equal one failed does it matter: a look-up less where all is well.
    let history = match print.seen {
        Seen::Failed => match chains::workload(record) {
            Some(workload) => workload.history(),
            None => History::Unknown,
        },
        _ => History::Unknown,
    };
    let (evidence, link) = of_request(stamp, record.request.attempt, &print, name, history);
    record.exchange.chain_started = link.started.0;
    record.exchange.number = link.number;
    record.about = link.about | said(&record.request, wall(config, now));
    record.evidence = evidence as u32;
}

#[inline(always)]
fn look(chain: Option<&Chain<MapCell>>, now: Millis, window: Millis) -> Sighting {
    match chain {
        Some(chain) => chain.look(now, window),
        None => Sighting::default(),
    }
}

/// The time of day, s since 1970.
#[inline(always)]
pub fn wall(config: &Config, now: Nanos) -> u64 {
    config.booted + now.0 / NANOS_PER_SECOND
}

/// Lets it go.
#[inline(always)]
fn go(record: &mut Record, decision: Decision, now: Nanos) {
    // Where audit would have denied the connect, its first request is apart, too.
    let apart = record.has(flag::UNUSED) && record.has(flag::WOULD_DENY);
    let mut flags = record.flags & !(flag::UNUSED | flag::WOULD_DENY | flag::WATCHED);
    match decision {
        Decision::Probe(ticket) => {
            flags |= flag::PROBE;
            record.probe_breaker = ticket.breaker;
            record.probe_lease = ticket.lease;
        }
        Decision::WouldDeny(_) => flags |= flag::WOULD_DENY,
        Decision::Watch => flags |= flag::WATCHED,
        _ if apart => flags |= flag::WOULD_DENY,
        _ => {}
    }
    record.flags = flags;
    record.entered = if flags & (flag::WOULD_DENY | flag::WATCHED) == 0 {
        now.0
    } else {
        0
    };
}

/// Its chains are told that it is sent.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn request_sent(
    p: *const Params,
    record: *const Record,
    print: *const Chain<MapCell>,
    now: u64,
) -> u32 {
    // SAFETY: as for `request_known`.
    if let (Some(p), Some(record)) = unsafe { (p.as_ref(), record.as_ref()) } {
        // SAFETY: as above.
        sent(p, record, unsafe { print.as_ref() }, Nanos(now));
    }
    0
}

#[inline(always)]
fn sent(p: &Params, record: &Record, print: Option<&Chain<MapCell>>, now: Nanos) {
    let (stamp, window) = (now.stamp(), Millis(p.evidence_window));
    if let Some(chain) = print {
        let learned = chain.sent(stamp, window);
        if !matches!(learned, Learned::Nothing)
            && let Some(workload) = chains::workload(record)
        {
            workload.learned(learned);
        }
    }
    if record.exchange.key != 0
        && let Some(chain) = chains::chain(record, record.exchange.key)
    {
        chain.sent(stamp, window);
    }
}

/// Refuses it: the executor answers, and nothing on this connection is an
/// outcome any more (I1).
#[inline(always)]
fn refuse(p: &Params, record: &mut Record, reason: Reason, sequence: u32) {
    record.refused = sequence;
    record.refused_why = reason as u32;
    record.retry_after = p.retry_after;
    // Of an earlier request, which may have left at once: the executor would
    // hold the answer back until then.
    record.not_before = 0;
    record.asked = 0;
    let mut flags = record.flags & !flag::REQUEST | flag::REFUSED | flag::OVER;
    if p.deny_reset != 0 {
        flags |= flag::RESET;
    }
    // SAFETY: histories are only changed through their atomic words.
    if let Some(history) = unsafe { maps::THREADS.get(record.thread) }
        && history.denied(Nanos(record.spoke).stamp()) > LOOPING
    {
        flags |= flag::LATE;
    }
    record.flags = flags;
}

/// Tells of a denial, audit's too: one event a second and endpoint.
#[inline(never)]
fn tell(record: &Record, endpoint: &EndpointLedger<MapCell>, packed: u64, now: Nanos) {
    let count = endpoint.denials();
    if count != 1 {
        return;
    }
    let (kind, reason) = match Decision::unpack(packed) {
        Decision::Deny(reason) => (kind::DENIED, reason),
        Decision::WouldDeny(reason) => (kind::WOULD_DENY, reason),
        _ => return,
    };
    maps::tell(Event {
        at: now.0,
        endpoint: record.endpoint,
        kind,
        what: reason as u32,
        group: record.group,
        pid: (record.thread >> 32) as u32,
        count,
        until: endpoint.breaker.view().deadline.0,
    });
}
