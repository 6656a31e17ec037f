//! The law, called: the ledgers an attempt touches are found here, once for
//! attempts and once for endings.

use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use governor_core::{
    breaker::{Level, Move, State},
    carried::{Paid, Unjudged, carried, passed},
    event::{Event, kind},
    evidence::Evidence,
    judge::{Attempt, Decision, Ledgers, Orders, attempt},
    key::{Config, DestinationKey, EndpointKey, OrderKey, WorkloadKey, loss, plain},
    ledger::{EndpointLedger, count},
    order::Order,
    params::{Params, mode},
    record::{Record, flag},
    settle::{Audited, Ending, says_nothing, settle, settle_calm, settle_nothing},
    units::Nanos,
    verdict::{Outcome, Ticket},
};

use crate::{
    calm,
    cell::MapCell,
    maps::{self, CONFIG, ORDERS, lost},
    policy,
};

/// The law lets an attempt go although a map was full: as `Decision::pack`.
pub const FAILED_OPEN: u64 = u64::MAX;

#[inline(always)]
pub fn random() -> u32 {
    // SAFETY: no arguments.
    unsafe { bpf_get_prandom_u32() }
}

// A frame of its own, as for `lease_of`: keys on the stack of `judge` would add
// to the deepest chain of calls, which Linux 6.1 counts in steps of 32 bytes.
#[inline(never)]
pub fn order(workload: u64, destination: &DestinationKey) -> Option<&'static Order> {
    // SAFETY: the daemon replaces orders as a whole.
    unsafe {
        ORDERS.get(OrderKey {
            workload,
            // An order names an address, of whatever namespace.
            destination: DestinationKey {
                address: plain(destination.address),
                ..*destination
            },
        })
    }
}

/// Any destination.
pub const ANY: DestinationKey = DestinationKey {
    address: [0; 16],
    port: 0,
    group: 0,
};

/// The lease of the ip:port, needed only where the breaker is not closed.
#[inline(never)]
fn lease_of(key: &EndpointKey) -> Option<&'static governor_core::lease::Lease<MapCell>> {
    maps::lease(&key.destination(0))
}

// Global functions, as in `cell`: the verifier walks each once, whatever its
// callers have found out before.

/// Judges a connect: the packed decision.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn judge_connect(
    config: *const Config,
    p: *const Params,
    key: *const EndpointKey,
    endpoint: *const EndpointLedger<MapCell>,
    a: *const Attempt,
) -> u64 {
    // SAFETY: null, or what the types say: the verifier checks the sizes.
    let (config, p, key) = unsafe { (config.as_ref(), p.as_ref(), key.as_ref()) };
    // SAFETY: as above.
    let (endpoint, a) = unsafe { (endpoint.as_ref(), a.as_ref()) };
    match (config, p, key, endpoint, a) {
        (Some(config), Some(p), Some(key), Some(endpoint), Some(a)) => {
            connect(config, p, key, endpoint, a)
        }
        _ => FAILED_OPEN,
    }
}

/// Judges a request, or only counts it: the packed decision.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn judge_request(
    config: *const Config,
    p: *const Params,
    record: *const Record,
    endpoint: *const EndpointLedger<MapCell>,
    a: *const Attempt,
) -> u64 {
    // SAFETY: as for `judge_connect`.
    let (config, p, record) = unsafe { (config.as_ref(), p.as_ref(), record.as_ref()) };
    // SAFETY: as above.
    let (endpoint, a) = unsafe { (endpoint.as_ref(), a.as_ref()) };
    match (config, p, record, endpoint, a) {
        (Some(config), Some(p), Some(record), Some(endpoint), Some(a)) => {
            request(config, p, record, endpoint, a)
        }
        _ => FAILED_OPEN,
    }
}

#[inline(always)]
fn connect(
    config: &Config,
    p: &Params,
    key: &EndpointKey,
    endpoint: &EndpointLedger<MapCell>,
    a: &Attempt,
) -> u64 {
    // The destination's key lies in the workload's: one copy on the stack.
    let workload_key = WorkloadKey {
        workload: key.workload,
        destination: key.destination(governor_core::cell::Cell::load(&endpoint.group) as u32),
    };
    let destination_key = &workload_key.destination;
    let Some(destination) = maps::destination(destination_key) else {
        return FAILED_OPEN;
    };
    let Some(workload) = maps::workload(&workload_key) else {
        return FAILED_OPEN;
    };
    // Where the map of leases is full (counted) the law keeps probes to one per
    // workload; letting everything pass would be a storm without a breaker.
    let closed = matches!(endpoint.breaker.view().state, State::Closed);
    let lease = if closed { None } else { lease_of(key) };
    let ledgers = Ledgers {
        endpoint,
        workload,
        destination,
        lease,
    };
    let orders = orders(config, key.workload, destination_key);
    let decision = attempt(p, a, &ledgers, &orders);
    noticed(decision, &workload_key, a.now);
    decision.pack()
}

/// Where not all pass, no connection is calm.
#[inline(always)]
fn noticed(decision: Decision, key: &WorkloadKey, now: Nanos) {
    if !matches!(decision, Decision::Go | Decision::Watch) {
        calm::stir(key, now);
    }
}

#[inline(always)]
fn request(
    config: &Config,
    p: &Params,
    record: &Record,
    endpoint: &EndpointLedger<MapCell>,
    a: &Attempt,
) -> u64 {
    let key = &record.endpoint;
    let workload_key = WorkloadKey {
        workload: key.workload,
        destination: key.destination(record.group),
    };
    let destination_key = &workload_key.destination;
    let Some(destination) = maps::destination(destination_key) else {
        return FAILED_OPEN;
    };
    let Some(workload) = maps::workload(&workload_key) else {
        return FAILED_OPEN;
    };
    if a.evidence.refuses() {
        workload.tried(record.exchange.number);
    }
    let unused = record.has(flag::UNUSED);
    let paid = if record.has(flag::RETRIED) {
        Paid::Retry
    } else {
        Paid::First
    };
    // A denial that nobody carries out is none.
    let unreached = p.mode == mode::ENFORCE && !record.has(flag::REACHED);
    let closed = matches!(endpoint.breaker.view().state, State::Closed);
    let lease = if closed || unused || unreached {
        None
    } else {
        lease_of(key)
    };
    let ledgers = Ledgers {
        endpoint,
        workload,
        destination,
        lease,
    };
    if unreached || unused && record.flags & (flag::PROBE | flag::WOULD_DENY) != 0 {
        let why = if !unused {
            Unjudged::Unreached
        } else if record.has(flag::PROBE) {
            Unjudged::Probe(paid)
        } else if record.has(flag::WOULD_DENY) {
            Unjudged::Apart(paid)
        } else {
            Unjudged::UnreachedFirst(paid)
        };
        return passed(p, a, why, &ledgers).pack();
    }
    let orders = orders(config, key.workload, destination_key);
    let decision = if unused {
        carried(p, a, paid, &ledgers, &orders)
    } else {
        attempt(p, a, &ledgers, &orders)
    };
    noticed(decision, &workload_key, a.now);
    decision.pack()
}

#[inline(always)]
fn orders(config: &Config, workload: u64, destination: &DestinationKey) -> Orders<'static> {
    if config.orders == 0 {
        return Orders::default();
    }
    Orders {
        node: order(0, &ANY),
        destination: order(0, destination),
        workload: match order(workload, destination) {
            Some(order) => Some(order),
            None => order(workload, &ANY),
        },
    }
}

/// Counts what could not be read.
#[inline(never)]
pub fn unread(record: &Record) {
    if let Some(workload) = crate::chains::workload(record) {
        workload.bump(count::UNREAD);
    }
}

/// Facts of an attempt.
#[inline(always)]
pub fn facts(now: Nanos, workload: u64, evidence: Evidence) -> Attempt {
    Attempt::connect(now, workload, evidence, random())
}

/// Settles what a socket's record says: the attempt on it ended. Whether a stretch of
/// calm may begin with it, and by which word of trouble.
#[inline(always)]
pub fn end(
    record: &mut Record,
    now: Nanos,
    level: Level,
    outcome: Outcome,
    began: u64,
) -> Option<u32> {
    let micros = now.since(Nanos(began)).micros();
    let settled = record_settle(record, now.0, level as u32, outcome as u32, micros);
    let moved = settled & MOVED;
    record.entered = 0;
    // A probe reports once, but a connect does not speak for a breaker that
    // waits for an exchange.
    let waits = matches!(level, Level::Connect)
        && matches!(outcome, Outcome::Success)
        && moved != Move::Closed as u64;
    if record.has(flag::PROBE) && !waits {
        record.flags &= !flag::PROBE;
    }
    if settled & CALM == 0 {
        None
    } else {
        Some((settled >> WORD_SHIFT) as u32)
    }
}

/// What [`record_settle`] says: the breaker's move, whether a stretch of calm may begin,
/// and by which word of trouble.
const MOVED: u64 = 0xff;
const CALM: u64 = 0x100;
const WORD_SHIFT: u32 = 32;

/// How long the answer asks to wait, ms.
#[inline(always)]
fn wait(record: &Record, now: Nanos) -> u32 {
    let said = &record.answer;
    if said.retry_at == 0 {
        return said.retry_after;
    }
    // By the server's own clock, where it says what that is.
    let from = match CONFIG.get(0) {
        Some(config) if said.date == 0 => config.booted + now.0 / 1_000_000_000,
        _ => said.date,
    };
    let millis = said.retry_at.saturating_sub(from) * 1_000;
    if millis < u32::MAX as u64 {
        millis as u32
    } else {
        u32::MAX
    }
}

/// The ledger of the record's endpoint. Linux 6.1 takes no key that lies in the
/// memory a global function was given, so it is copied, in a frame of its own.
#[inline(never)]
fn endpoint_of(record: &Record) -> Option<&'static EndpointLedger<MapCell>> {
    maps::endpoint(&key_of(record))
}

/// By words: copied as a whole it takes twice the stack.
#[inline(always)]
fn key_of(record: &Record) -> EndpointKey {
    const WORDS: usize = size_of::<EndpointKey>() / 8;
    let from = bytemuck::cast_ref::<EndpointKey, [u64; WORDS]>(&record.endpoint);
    let mut key = [0u64; WORDS];
    let mut at = 0;
    while at < WORDS {
        // SAFETY: a word of the key, through a reference to it.
        key[at] = unsafe { core::ptr::read_volatile(&raw const from[at]) };
        at += 1;
    }
    bytemuck::cast(key)
}

/// The same, if there is one.
#[inline(never)]
fn known_endpoint(record: &Record) -> Option<&'static EndpointLedger<MapCell>> {
    let key = &key_of(record);
    // SAFETY: as in `maps::find_or_create`.
    unsafe { maps::ENDPOINTS.get(key) }
}

/// What the record says of an ending. A global function, as in `cell`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ending_of(record: *const Record, ending: *mut Ending) -> u64 {
    // SAFETY: null, or what the types say: the verifier checks the sizes.
    if let (Some(record), Some(ending)) = unsafe { (record.as_ref(), ending.as_mut()) } {
        ending.retry_after = wait(record, ending.now);
        ending.probe = record.ticket().into();
        ending.audited = if record.has(flag::WOULD_DENY) {
            Audited::WouldDeny
        } else if record.has(flag::WATCHED) {
            Audited::Watched
        } else {
            Audited::Admitted
        };
        // Only the open time after a failure is drawn.
        if !matches!(ending.outcome, Outcome::Success) {
            ending.random = random();
        }
    }
    0
}

/// Settles an ending: [`MOVED`], [`CALM`]. A global function, as in `cell`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn record_settle(
    record: *const Record,
    now: u64,
    level: u32,
    outcome: u32,
    micros: u64,
) -> u64 {
    let level = Level::from_number(level);
    // SAFETY: null, or a record: the verifier checks the size.
    match unsafe { record.as_ref() } {
        Some(record) => settle_record(
            record,
            Nanos(now),
            level,
            Outcome::from_number(outcome),
            micros,
        ),
        None => 0,
    }
}

#[inline(always)]
fn settle_record(record: &Record, now: Nanos, level: Level, outcome: Outcome, micros: u64) -> u64 {
    let key = &record.endpoint;
    let workload_key = WorkloadKey {
        workload: key.workload,
        destination: key.destination(record.group),
    };
    let (Some(endpoint), Some(workload)) = (endpoint_of(record), maps::workload(&workload_key))
    else {
        return 0;
    };
    let Some(p) = policy::settling(endpoint, record.rule) else {
        lost(loss::NO_POLICY);
        return 0;
    };
    let mut ending = Ending {
        now,
        entered: Nanos(record.entered),
        latency: micros,
        level,
        outcome,
        status: record.answer.status,
        retry_after: 0,
        probe: Ticket::NONE,
        audited: Audited::Admitted,
        random: 0,
    };
    ending_of(record, &raw mut ending);
    if says_nothing(&ending, endpoint) {
        settle_nothing(p, &ending, workload);
        return 0;
    }
    let Some(destination) = maps::destination(&workload_key.destination) else {
        return 0;
    };
    let lease = if record.has(flag::PROBE) {
        lease_of(key)
    } else {
        None
    };
    let ledgers = Ledgers {
        endpoint,
        workload,
        destination,
        lease,
    };
    let moved = settle(p, &ending, &ledgers).moved;
    if calm::stirs(outcome, ending.status) {
        calm::stir(&workload_key, now);
    }
    if !matches!(moved, Move::None) {
        tell(record, endpoint, moved, now);
    }
    match calm::may_begin(p, record, &workload_key, now, outcome) {
        Some(word) if governor_core::calm::may_begin(p, now, micros, &ledgers) => {
            // The connection keeps a place in flight.
            workload.limiter.enter_unasked(now);
            moved as u64 | CALM | (word as u64) << WORD_SHIFT
        }
        _ => moved as u64,
    }
}

/// The breaker has moved. A frame of its own for the event.
#[inline(never)]
fn tell(record: &Record, endpoint: &EndpointLedger<MapCell>, moved: Move, now: Nanos) {
    maps::tell(Event {
        at: now.0,
        endpoint: record.endpoint,
        kind: kind::BREAKER,
        what: moved as u32,
        group: record.group,
        pid: 0,
        count: endpoint.breaker.run(),
        until: endpoint.breaker.view().deadline.0,
    });
}

/// Settles a stretch of calm. A global function, as in `cell`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn leave_calm(record: *mut Record, now: u64) -> u64 {
    // SAFETY: null, or a record: the verifier checks the size.
    if let Some(record) = unsafe { record.as_mut() } {
        settle_stretch(record, Nanos(now));
        calm::left(record);
    }
    0
}

#[inline(always)]
fn settle_stretch(record: &mut Record, now: Nanos) {
    let requests = !record.has(flag::OPAQUE) as u32;
    let outstanding = (record.asked != 0) as u32;
    let batch = record.calm().batch(outstanding, requests);
    // References, here and below: by value the map would copy the key once more.
    let key = &WorkloadKey {
        workload: record.endpoint.workload,
        destination: record.endpoint.destination(record.group),
    };
    let to = &key.destination;
    // SAFETY: as in `maps::find_or_create`. What was collected meanwhile is not made again.
    let (workload, destination) = unsafe { (maps::WORKLOADS.get(key), maps::DESTINATIONS.get(to)) };
    let (Some(endpoint), Some(workload), Some(destination)) =
        (known_endpoint(record), workload, destination)
    else {
        return;
    };
    let Some(p) = policy::settling(endpoint, record.rule) else {
        lost(loss::NO_POLICY);
        return;
    };
    let ledgers = Ledgers {
        endpoint,
        workload,
        destination,
        lease: None,
    };
    settle_calm(p, &batch, now, Nanos(record.entered), &ledgers);
}

/// Takes a place in flight for an exchange that was not judged.
#[inline(never)]
pub fn enter(record: &Record, now: u64) -> u64 {
    if record.flags & (flag::WOULD_DENY | flag::WATCHED) != 0 {
        return 0;
    }
    let key = &record.endpoint;
    let workload_key = WorkloadKey {
        workload: key.workload,
        destination: key.destination(record.group),
    };
    let Some(workload) = maps::workload(&workload_key) else {
        return 0;
    };
    workload.limiter.enter_unasked(Nanos(now));
    now
}
