//! A node for tests: one ip:port, called by some workloads, over atomics.
#![allow(dead_code, reason = "each test file uses a part")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use governor_core::breaker::{Level, Move};
use governor_core::evidence::Evidence;
use governor_core::judge::{self, Attempt, Decision, Ledgers, Orders};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::params::Params;
use governor_core::settle::{Audited, Ending, settle};
use governor_core::units::Nanos;
use governor_core::verdict::{Outcome, Ticket};

pub mod requests;

/// A time long after boot, on an epoch's edge.
pub const START: Nanos = Nanos::from_secs(100_000);

/// `START` and so many milliseconds.
pub fn at(millis: u64) -> Nanos {
    Nanos(START.0 + millis * 1_000_000)
}

/// Threads of a hammer.
pub const THREADS: usize = 4;

/// Runs `work(thread, round)` on every thread, round by round. A thread that
/// fails ends the others' rounds too, instead of leaving them waiting.
pub fn rounds(rounds: u64, work: impl Fn(usize, u64) + Sync) {
    let barrier = Barrier::new(THREADS);
    let failed = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, failed, work) = (&barrier, &failed, &work);
            scope.spawn(move || {
                for round in 0..rounds {
                    let done = catch_unwind(AssertUnwindSafe(|| work(thread, round)));
                    if done.is_err() {
                        failed.fetch_min(round, SeqCst);
                    }
                    barrier.wait();
                    if let Err(panic) = done {
                        resume_unwind(panic);
                    }
                    if failed.load(SeqCst) <= round {
                        return;
                    }
                }
            });
        }
    });
}

/// One workload.
#[derive(Default)]
pub struct Caller {
    pub endpoint: EndpointLedger<AtomicU64>,
    pub workload: WorkloadLedger<AtomicU64>,
}

/// A node.
pub struct Node {
    pub params: Params,
    pub destination: DestinationLedger<AtomicU64>,
    pub lease: Lease<AtomicU64>,
    pub callers: Vec<Caller>,
}

/// An attempt that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Going {
    pub caller: usize,
    pub since: Nanos,
    pub probe: Option<Ticket>,
    pub audited: Audited,
}

impl Node {
    pub fn new(params: Params, callers: usize) -> Self {
        Self {
            params,
            destination: DestinationLedger::default(),
            lease: Lease::default(),
            callers: (0..callers).map(|_| Caller::default()).collect(),
        }
    }

    pub fn ledgers(&self, caller: usize) -> Ledgers<'_, AtomicU64> {
        Ledgers {
            endpoint: &self.callers[caller].endpoint,
            workload: &self.callers[caller].workload,
            destination: &self.destination,
            lease: Some(&self.lease),
        }
    }

    pub fn decide(&self, caller: usize, now: Nanos, evidence: Evidence, random: u32) -> Decision {
        let attempt = Attempt::connect(now, caller as u64 + 1, evidence, random);
        judge::attempt(
            &self.params,
            &attempt,
            &self.ledgers(caller),
            &Orders::default(),
        )
    }

    /// An attempt; `Err` is a denial.
    pub fn attempt(
        &self,
        caller: usize,
        now: Nanos,
        evidence: Evidence,
        random: u32,
    ) -> Result<Going, Decision> {
        let decision = self.decide(caller, now, evidence, random);
        let (probe, audited) = match decision {
            Decision::Go | Decision::Watch => (None, Audited::Admitted),
            Decision::Probe(ticket) => (Some(ticket), Audited::Admitted),
            Decision::WouldDeny(_) => (None, Audited::WouldDeny),
            Decision::Deny(_) => return Err(decision),
        };
        Ok(Going {
            caller,
            since: now,
            probe,
            audited,
        })
    }

    /// A first try.
    pub fn first(&self, caller: usize, now: Nanos) -> Result<Going, Decision> {
        self.attempt(caller, now, Evidence::None, u32::MAX / 2)
    }

    /// A retry, known exactly.
    pub fn retry(&self, caller: usize, now: Nanos) -> Result<Going, Decision> {
        self.attempt(caller, now, Evidence::Exact, u32::MAX / 2)
    }

    /// The end of an exchange.
    pub fn end(&self, going: Going, now: Nanos, outcome: Outcome) -> Move {
        self.end_of(Level::Exchange, going, now, outcome, u32::MAX / 2)
    }

    /// The end of an attempt.
    pub fn end_of(
        &self,
        level: Level,
        going: Going,
        now: Nanos,
        outcome: Outcome,
        random: u32,
    ) -> Move {
        let ending = Ending {
            now,
            entered: match going.audited {
                Audited::Admitted => going.since,
                Audited::WouldDeny | Audited::Watched => Nanos(0),
            },
            latency: now.since(going.since).micros(),
            level,
            outcome,
            status: 0,
            retry_after: 0,
            probe: going.probe.into(),
            audited: going.audited,
            random,
        };
        settle(&self.params, &ending, &self.ledgers(going.caller)).moved
    }
}
