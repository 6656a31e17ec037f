//! The real law, over atomics: the same source that runs in the kernel.

use std::sync::atomic::AtomicU64;

use governor_core::breaker::{Level, Move, State};
use governor_core::evidence::Evidence;
use governor_core::judge::{self, Attempt, Decision, Ledgers, Orders};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::params::Params;
use governor_core::rules::{self, Repeat};
use governor_core::settle::{Audited, Ending, settle};
use governor_core::units::{Millis, Nanos};
use governor_core::verdict::{Outcome, Reason, Ticket};

use super::engine::{End, Governor, Try};
use super::fleet::{Probes, Proof};
use super::series::Trace;
use super::world::Random;

/// The kernel's clock does not begin with the simulation.
const BOOT: Nanos = Nanos::from_secs(1_000_000);
/// Nor do those of two nodes begin together: windows in step would be a herd of their own.
/// (A golden part of a second: any number of nodes is spread evenly.)
const NEXT_NODE: u64 = 618_033_989;
const SECOND: u64 = 1_000_000_000;

/// How it is known that an attempt is a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Each attempt says so.
    Exact,
    /// Guessed from earlier failures of the workload.
    Guessed,
}

/// Whether admitted retries are held back for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// No device on their way has `fq`.
    Off,
    /// They are, as the policy says.
    On,
}

/// How the law is applied.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The policy.
    pub params: Params,
    /// What is known of attempts.
    pub knowledge: Knowledge,
    /// Whether retries are held back.
    pub pacing: Pacing,
    /// What nodes tell each other of probes.
    pub probes: Probes,
}

impl Setup {
    /// A policy, with exact knowledge, and nodes for themselves.
    pub const fn of(params: Params) -> Self {
        Self {
            params,
            knowledge: Knowledge::Exact,
            pacing: Pacing::Off,
            probes: Probes::EachNode,
        }
    }
}

struct Node {
    destination: DestinationLedger<AtomicU64>,
    /// By address.
    leases: Vec<Lease<AtomicU64>>,
}

struct Caller {
    node: usize,
    /// By address.
    endpoints: Vec<EndpointLedger<AtomicU64>>,
    workload: WorkloadLedger<AtomicU64>,
}

/// The governor of every node: one destination.
pub struct Governed {
    setup: Setup,
    random: Random,
    nodes: Vec<Node>,
    callers: Vec<Caller>,
    proof: Proof,
    /// What they did.
    pub trace: Trace,
    /// Breakers that are not closed.
    open: u32,
}

impl Governed {
    /// For workloads on these nodes; the destination has so many addresses.
    pub fn new(setup: Setup, nodes: &[usize], addresses: usize, seed: u64) -> Self {
        let count = nodes.iter().max().map_or(0, |last| last + 1);
        Self {
            setup,
            random: Random::new(seed ^ 0xa5a5),
            nodes: (0..count)
                .map(|_| Node {
                    destination: DestinationLedger::default(),
                    leases: (0..addresses).map(|_| Lease::default()).collect(),
                })
                .collect(),
            callers: nodes
                .iter()
                .map(|&node| Caller {
                    node,
                    endpoints: (0..addresses).map(|_| EndpointLedger::default()).collect(),
                    workload: WorkloadLedger::default(),
                })
                .collect(),
            proof: Proof::default(),
            trace: Trace::default(),
            open: 0,
        }
    }

    fn ledgers(&self, workload: usize, address: usize) -> Ledgers<'_, AtomicU64> {
        let caller = &self.callers[workload];
        let node = &self.nodes[caller.node];
        let lease = match self.setup.probes {
            Probes::EachNode | Probes::Told => &node.leases[address],
            Probes::OneLease | Probes::OneLeaseCloses => &self.nodes[0].leases[address],
        };
        Ledgers {
            endpoint: &caller.endpoints[address],
            workload: &caller.workload,
            destination: &node.destination,
            lease: Some(lease),
        }
    }

    /// The clock of a workload's node. Where nodes share a lease they share its clock.
    fn clock(&self, workload: usize, now: Nanos) -> Nanos {
        let node = match self.setup.probes {
            Probes::EachNode | Probes::Told => self.callers[workload].node as u64,
            Probes::OneLease | Probes::OneLeaseCloses => 0,
        };
        Nanos(now.0 + BOOT.0 + node * NEXT_NODE % SECOND)
    }

    /// What other nodes have found out, of the one address there is.
    fn hear(&mut self, workload: usize, now: Nanos) {
        let Some(found) = self.proof.known(now) else {
            return;
        };
        let proven = self.clock(workload, found).stamp();
        let ledgers = self.ledgers(workload, 0);
        match (self.setup.probes, ledgers.lease) {
            (Probes::Told, Some(lease)) if proven.0 > lease.proven().0 => lease.prove(proven),
            (Probes::OneLeaseCloses, _) => {
                let breaker = &ledgers.endpoint.breaker;
                if breaker.view().state != State::Open || proven.0 <= breaker.opened().0 {
                    return;
                }
                // As if its own probe had come back now.
                let stamp = self.clock(workload, now).stamp();
                if let Some(probe) = breaker.probe(stamp, proven, stamp) {
                    let moved = breaker.success(stamp, Level::Exchange, probe, 0);
                    ledgers.workload.limiter.restore(&self.setup.params);
                    self.moved(now, moved);
                }
            }
            _ => {}
        }
    }

    fn moved(&mut self, now: Nanos, moved: Move) {
        match moved {
            Move::Tripped => self.open += 1,
            Move::Closed => self.open -= 1,
            Move::Reopened | Move::None => return,
        }
        let open = &mut self.trace.open;
        let second = second(now);
        // The seconds since the last move were like it.
        let before = open.last().copied().unwrap_or(0);
        open.resize((second + 1).max(open.len()), before);
        open[second] = self.open;
    }

    fn guessed(&mut self, attempt: &Try, evidence: Evidence) {
        let guess = match (evidence, attempt.number) {
            (Evidence::Inferred, 1..) => 0,
            (Evidence::Inferred, 0) => 1,
            (_, 1..) => 2,
            _ => return,
        };
        self.trace.guesses[guess] += 1;
    }
}

const fn second(now: Nanos) -> usize {
    (now.0 / SECOND) as usize
}

fn count_one(counts: &mut Vec<u32>, now: Nanos) {
    let second = second(now);
    counts.resize((second + 1).max(counts.len()), 0);
    counts[second] += 1;
}

/// What an admitted attempt carries.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    address: usize,
    entered: Nanos,
    probe: Option<Ticket>,
}

impl Governor for Governed {
    type Pass = Pass;

    fn admit(&mut self, workload: usize, this: &Try) -> Option<Pass> {
        let now = self.clock(workload, this.now);
        let random = self.random.bits();
        self.hear(workload, this.now);
        let params = self.setup.params;
        let ledgers = self.ledgers(workload, this.address);
        let evidence = match (self.setup.knowledge, this.number) {
            (Knowledge::Exact, 1..) => Evidence::Exact,
            (Knowledge::Exact, 0) => Evidence::None,
            (Knowledge::Guessed, _) => {
                let claims = &ledgers.endpoint.claims;
                if claims.claim(now.stamp(), params.evidence()) {
                    Evidence::Inferred
                } else {
                    Evidence::None
                }
            }
        };
        let repeat = Repeat {
            age: Millis(this.now.since(this.since).0 / 1_000_000),
            number: this.number + 1,
            about: 0,
        };
        let attempt = Attempt {
            barred: rules::refuse(&params, evidence, &repeat),
            ..Attempt::connect(now, workload as u64 + 1, evidence, random)
        };
        let decision = judge::attempt(&params, &attempt, &ledgers, &Orders::default());
        self.guessed(this, evidence);
        let probe = match decision {
            Decision::Go | Decision::Watch | Decision::WouldDeny(_) => None,
            Decision::Probe(ticket) => Some(ticket),
            Decision::Deny(reason) => {
                if reason == Reason::Concurrency && this.number == 0 {
                    count_one(&mut self.trace.limited, this.now);
                }
                return None;
            }
        };
        if probe.is_some() {
            count_one(&mut self.trace.probes, this.now);
        }
        Some(Pass {
            address: this.address,
            entered: now,
            probe,
        })
    }

    fn asks(&self) -> Nanos {
        Nanos::from_secs(self.setup.params.retry_after.into())
    }

    fn delay(&mut self, attempt: &Try) -> Nanos {
        match (self.setup.pacing, attempt.number) {
            (Pacing::On, 1..) => {
                let range = u64::from(self.setup.params.pacing_delay) * 1_000_000;
                Nanos((u64::from(self.random.bits()) * range) >> 32)
            }
            _ => Nanos(0),
        }
    }

    fn settle(&mut self, workload: usize, pass: Pass, end: End) {
        let now = self.clock(workload, end.now);
        let ending = Ending {
            now,
            entered: pass.entered,
            latency: end.latency.micros(),
            level: Level::Exchange,
            outcome: end.outcome,
            // The one status there is: no room.
            status: if end.outcome == Outcome::Status {
                503
            } else {
                0
            },
            retry_after: (end.asks.0 / 1_000_000) as u32,
            probe: pass.probe.into(),
            audited: Audited::Admitted,
            random: self.random.bits(),
        };
        let settled = settle(
            &self.setup.params,
            &ending,
            &self.ledgers(workload, pass.address),
        );
        if settled.moved == Move::Closed {
            self.proof.found(end.now);
        }
        self.moved(end.now, settled.moved);
    }
}
