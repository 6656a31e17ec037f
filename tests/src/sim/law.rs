//! The laws that are compared: the real one, and simpler ones by what they lack.

use governor_core::params::{Params, concurrency};

use super::engine::{Ungoverned, run};
use super::fleet::Probes;
use super::real::{Governed, Knowledge, Pacing, Setup};
use super::series::Report;
use super::shared_ratio::SharedRatio;
use super::simple::{Breaking, Evidence, Limiting, Probing, Rules, Simple, Wakes};
use super::world::World;

/// What stands between callers and services.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    /// Nothing.
    None,
    /// The real law, retries known exactly.
    Governor(Params),
    /// The real law, retries guessed from the workload's failures.
    Guessing(Params),
    /// The real law; admitted retries are held back for a moment.
    Paced(Params),
    /// The real law; nodes tell each other of probes.
    Fleet(Params, Probes),
    /// A simpler law.
    Simple(Rules),
    /// A budget whose earnings all share.
    SharedRatio,
}

impl Law {
    /// The real law with its defaults.
    pub const REAL: Self = Self::Governor(Params::DEFAULT);
    /// The real law, where an attempt can not be told from a retry.
    pub const REAL_GUESSING: Self = Self::Guessing(Params::DEFAULT);
    /// Only the retry budget of the real law.
    pub const REAL_BUDGET: Self = Self::Governor(Params {
        breaker_enabled: 0,
        concurrency: concurrency::DISABLED,
        ..Params::DEFAULT
    });

    /// A retry budget alone, spent as fast as asked for, its whole reserve on every node.
    pub const BUDGET: Self = Self::Simple(Rules::BUDGET);
    /// A breaker on the failure rate, open for five seconds, and a budget.
    pub const RATE_BREAKER: Self = Self::Simple(Rules {
        breaker: Some(Breaking::PLAIN),
        ..Rules::BUDGET
    });
    /// As `RATE_BREAKER`, with open times up to a minute.
    pub const LONG_OPEN: Self = Self::Simple(Rules {
        breaker: Some(Breaking::BACKING_OFF),
        ..Rules::BUDGET
    });
    /// As `LONG_OPEN`, with one probe schedule for all workloads.
    pub const ONE_SCHEDULE: Self = Self::Simple(Rules {
        breaker: Some(Breaking {
            probing: Probing::OneSchedule,
            ..Breaking::BACKING_OFF
        }),
        ..Rules::BUDGET
    });
    /// A limiter that wakes on any give-up, or on latency alone; nothing is parked.
    pub const EAGER_LIMITER: Self = Self::Simple(Rules {
        limiter: Some(Limiting {
            wakes: Wakes::AnyGiveUp,
            floor: 4.0,
        }),
        ..Rules::BUDGET
    });
    /// The real law's limiter with a floor of four.
    pub const FLOOR_OF_FOUR: Self = Self::Simple(Rules {
        limiter: Some(Limiting {
            wakes: Wakes::Distress,
            floor: 4.0,
        }),
        ..Rules::BUDGET
    });
    /// A budget that refuses on guessed evidence.
    pub const INFERRED: Self = Self::Simple(Rules {
        evidence: Evidence::Inferred,
        ..Rules::BUDGET
    });
    /// As `INFERRED`, and a denial is evidence too.
    pub const RENEWED: Self = Self::Simple(Rules {
        evidence: Evidence::RenewedByDenials,
        ..Rules::BUDGET
    });
}

/// Runs a world under a law.
pub fn simulate(world: &World, law: Law, seed: u64) -> Report {
    let nodes = world.nodes();
    let governed = |setup| {
        let mut governed = Governed::new(setup, &nodes, world.backends.len(), seed);
        let mut report = run(world, &mut governed, seed);
        report.governors = governed.trace;
        report
    };
    match law {
        Law::None => run(world, &mut Ungoverned, seed),
        Law::Governor(params) => governed(Setup::of(params)),
        Law::Guessing(params) => governed(Setup {
            knowledge: Knowledge::Guessed,
            ..Setup::of(params)
        }),
        Law::Paced(params) => governed(Setup {
            pacing: Pacing::On,
            ..Setup::of(params)
        }),
        Law::Fleet(params, probes) => governed(Setup {
            probes,
            ..Setup::of(params)
        }),
        Law::Simple(rules) => run(world, &mut Simple::new(rules, &nodes, seed), seed),
        Law::SharedRatio => run(world, &mut SharedRatio::new(nodes.len()), seed),
    }
}
