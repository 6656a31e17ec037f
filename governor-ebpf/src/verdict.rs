//! The law, called: the ledgers an attempt touches are found here, once for
//! attempts and once for endings.

use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use governor_core::{
    breaker::{Level, Move, State},
    event::{Event, kind},
    evidence::Evidence,
    judge::{Attempt, Ledgers, Orders, attempt},
    key::{Config, DestinationKey, EndpointKey, OrderKey, WorkloadKey, loss, plain},
    ledger::EndpointLedger,
    order::Order,
    params::Params,
    record::{Record, flag},
    settle::{Audited, Ending, says_nothing, settle, settle_nothing},
    units::Nanos,
    verdict::Outcome,
};

use crate::{
    cell::MapCell,
    maps::{self, ORDERS, lost},
    policy,
};

/// The law lets an attempt go although a map was full: as `Decision::pack`.
pub const FAILED_OPEN: u64 = u64::MAX;

#[inline(always)]
fn random() -> u32 {
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

/// Judges an attempt: the packed decision.
#[inline(never)]
pub fn judge(
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
    let orders = if config.orders == 0 {
        Orders::default()
    } else {
        Orders {
            node: order(0, &ANY),
            destination: order(0, destination_key),
            workload: match order(key.workload, destination_key) {
                Some(order) => Some(order),
                None => order(key.workload, &ANY),
            },
        }
    };
    attempt(p, a, &ledgers, &orders).pack()
}

/// Facts of an attempt.
#[inline(always)]
pub fn facts(now: Nanos, workload: u64, evidence: Evidence) -> Attempt {
    Attempt::connect(now, workload, evidence, random())
}

/// Settles what a socket's record says: the attempt on it ended.
#[inline(always)]
pub fn end(record: &mut Record, now: Nanos, level: Level, outcome: Outcome, began: u64) {
    let micros = now.since(Nanos(began)).micros();
    let moved = settle_record(record, now, level, outcome, micros);
    record.entered = 0;
    // A probe reports once, but a connect does not speak for a breaker that
    // waits for an exchange.
    let waits = matches!(level, Level::Connect)
        && matches!(outcome, Outcome::Success)
        && moved != Move::Closed as u64;
    if record.has(flag::PROBE) && !waits {
        record.flags &= !flag::PROBE;
    }
}

#[inline(never)]
fn settle_record(record: &Record, now: Nanos, level: Level, outcome: Outcome, micros: u64) -> u64 {
    let key = &record.endpoint;
    let workload_key = WorkloadKey {
        workload: key.workload,
        destination: key.destination(record.group),
    };
    let (Some(endpoint), Some(workload)) = (maps::endpoint(key), maps::workload(&workload_key))
    else {
        return 0;
    };
    let Some(p) = policy::settling(endpoint, record.rule) else {
        lost(loss::NO_POLICY);
        return 0;
    };
    let audited = if record.has(flag::WOULD_DENY) {
        Audited::WouldDeny
    } else if record.has(flag::WATCHED) {
        Audited::Watched
    } else {
        Audited::Admitted
    };
    let ending = Ending {
        now,
        entered: Nanos(record.entered),
        latency: micros,
        level,
        outcome,
        status: 0,
        retry_after: 0,
        probe: record.ticket(),
        audited,
        // Only the open time after a failure is drawn.
        random: if matches!(outcome, Outcome::Success) {
            0
        } else {
            random()
        },
    };
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
    if !matches!(moved, Move::None) {
        let view = endpoint.breaker.view();
        maps::tell(Event {
            at: now.0,
            endpoint: *key,
            kind: kind::BREAKER,
            what: moved as u32,
            group: record.group,
            pid: 0,
            count: endpoint.breaker.run(),
            until: view.deadline.0,
        });
    }
    moved as u64
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
