//! The real law, over atomics: the same source that runs in the kernel.

use std::sync::atomic::AtomicU64;

use governor_core::breaker::{Level, Move};
use governor_core::evidence::Evidence;
use governor_core::judge::{self, Attempt, Decision, Ledgers, Orders};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::order::Kind;
use governor_core::params::Params;
use governor_core::settle::{Audited, Ending, settle};
use governor_core::units::Nanos;
use governor_core::verdict::Ticket;

use super::engine::{End, Governor};
use super::world::Random;

/// The kernel's clock does not begin with the simulation.
const BOOT: Nanos = Nanos::from_secs(1_000_000);

/// How it is known that an attempt is a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Each attempt says so.
    Exact,
    /// Guessed from earlier failures of the workload.
    Guessed,
}

struct Node {
    destination: DestinationLedger<AtomicU64>,
    lease: Lease<AtomicU64>,
}

struct Caller {
    node: usize,
    endpoint: EndpointLedger<AtomicU64>,
    workload: WorkloadLedger<AtomicU64>,
}

/// The governor of every node: one destination behind one ip:port.
pub struct Governed {
    params: Params,
    knowledge: Knowledge,
    random: Random,
    nodes: Vec<Node>,
    callers: Vec<Caller>,
    /// Times a breaker opened for the first time.
    pub trips: u32,
}

impl Governed {
    /// For workloads on these nodes.
    pub fn new(params: Params, knowledge: Knowledge, nodes: &[usize], seed: u64) -> Self {
        let count = nodes.iter().max().map_or(0, |last| last + 1);
        Self {
            params,
            knowledge,
            random: Random::new(seed ^ 0xa5a5),
            nodes: (0..count)
                .map(|_| Node {
                    destination: DestinationLedger::default(),
                    lease: Lease::default(),
                })
                .collect(),
            callers: nodes
                .iter()
                .map(|&node| Caller {
                    node,
                    endpoint: EndpointLedger::default(),
                    workload: WorkloadLedger::default(),
                })
                .collect(),
            trips: 0,
        }
    }

    fn ledgers(&self, workload: usize) -> Ledgers<'_, AtomicU64> {
        let caller = &self.callers[workload];
        let node = &self.nodes[caller.node];
        Ledgers {
            endpoint: &caller.endpoint,
            workload: &caller.workload,
            destination: &node.destination,
            lease: Some(&node.lease),
        }
    }
}

/// What an admitted attempt carries.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    entered: Nanos,
    probe: Option<Ticket>,
}

impl Governor for Governed {
    type Pass = Pass;

    fn admit(&mut self, workload: usize, now: Nanos, kind: Kind) -> Option<Pass> {
        let now = Nanos(now.0 + BOOT.0);
        let random = self.random.bits();
        let ledgers = self.ledgers(workload);
        let evidence = match (self.knowledge, kind) {
            (Knowledge::Exact, Kind::Retry) => Evidence::Exact,
            (Knowledge::Exact, Kind::First) => Evidence::None,
            (Knowledge::Guessed, _) => {
                let claims = &ledgers.endpoint.claims;
                if claims.claim(now.stamp(), self.params.evidence()) {
                    Evidence::Inferred
                } else {
                    Evidence::None
                }
            }
        };
        let attempt = Attempt::connect(now, workload as u64 + 1, evidence, random);
        let probe = match judge::attempt(&self.params, &attempt, &ledgers, &Orders::default()) {
            Decision::Go | Decision::Watch | Decision::WouldDeny(_) => None,
            Decision::Probe(ticket) => Some(ticket),
            Decision::Deny(_) => return None,
        };
        Some(Pass {
            entered: now,
            probe,
        })
    }

    fn settle(&mut self, workload: usize, pass: Pass, end: End) {
        let ending = Ending {
            now: Nanos(end.now.0 + BOOT.0),
            entered: pass.entered,
            latency: end.latency.micros(),
            level: Level::Exchange,
            outcome: end.outcome,
            status: 0,
            retry_after: 0,
            probe: pass.probe,
            audited: Audited::Admitted,
            random: self.random.bits(),
        };
        let settled = settle(&self.params, &ending, &self.ledgers(workload));
        if settled.moved == Move::Tripped {
            self.trips += 1;
        }
    }
}
