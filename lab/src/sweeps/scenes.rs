//! What the storms of the sweeps are made of, and those that several controls are tried in.

use std::ops::Range;

use governor_core::params::{Params, concurrency};
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, Random, Workload, World, poisson};
use governor_tests::sim::{Law, Report, Scenario};

use super::trial::Wanted::{Less, More};
use super::trial::{Scene, mean, worst};

/// A scenario of docs/law.md's tables.
pub fn named(name: &str, random: &mut Random) -> World {
    match Scenario::named(name) {
        Some(scenario) => (scenario.world)(random),
        None => unreachable!("the simulator has `{name}`"),
    }
}

/// Its goodput, of what is possible.
pub fn possible(report: &Report, name: &str) -> f64 {
    Scenario::named(name).map_or(f64::NAN, |scenario| scenario.goodput(report))
}

/// Seconds until goodput is back for three seconds; what was simulated where it never is.
pub fn back(report: &Report, since: usize) -> f64 {
    let all = &report.all;
    all.recovery(since, 3).unwrap_or(all.first.len() - since) as f64
}

/// First tries without a success, percent.
pub fn lost(report: &Report, seconds: Range<usize>) -> f64 {
    // Some that succeed came before the first of the seconds.
    (100.0 * (1.0 - report.all.goodput(seconds))).max(0.0)
}

/// Of the operations whose first try failed or was refused, those that never succeeded for their users, percent. Over all
/// that was simulated: operations are lost, too, that began just after an outage, and how many meet one is chance.
pub fn unsaved(report: &Report) -> f64 {
    let sum = |counts: &[u32]| -> f64 { counts.iter().map(|&count| f64::from(count)).sum() };
    let lost = sum(&report.all.first) - sum(&report.all.good);
    100.0 * lost / (lost + report.rescued.len() as f64)
}

/// Some workloads that are alike, each on a node of its own.
pub struct Alike {
    count: usize,
    rate: f64,
    seconds: usize,
}

/// So many workloads, each with so many calls a second, for so many seconds.
pub fn alike(count: usize, rate: f64, seconds: usize) -> Alike {
    Alike {
        count,
        rate,
        seconds,
    }
}

impl Alike {
    /// At one backend or several, by callers that try once.
    pub fn patient(self, random: &mut Random, backends: Vec<Backend>) -> World {
        self.called_by(random, backends, Caller::PATIENT)
    }

    /// By callers that retry, with full jitter.
    pub fn retrying(self, random: &mut Random, backends: Vec<Backend>) -> World {
        self.called_by(random, backends, Caller::retrying(Jitter::Full))
    }

    /// By others.
    pub fn called_by(self, random: &mut Random, backends: Vec<Backend>, caller: Caller) -> World {
        let workloads = (0..self.count).map(|node| Workload {
            node,
            arrivals: poisson(random, self.rate, 0.0, self.seconds as f64),
            backends: (0..backends.len()).collect(),
            caller,
        });
        World {
            seconds: self.seconds,
            workloads: workloads.collect(),
            backends,
        }
    }
}

/// The same, on one node.
pub fn neighbours(world: World) -> World {
    let workloads = world.workloads.into_iter();
    World {
        workloads: workloads
            .map(|workload| Workload {
                node: 0,
                ..workload
            })
            .collect(),
        ..world
    }
}

/// Callers that are not alike, each with so many calls a second from a node of its own.
pub fn unlike(
    random: &mut Random,
    rate: f64,
    seconds: usize,
    backend: Backend,
    callers: impl Iterator<Item = Caller>,
) -> World {
    let workload = |(node, caller)| Workload {
        node,
        arrivals: poisson(random, rate, 0.0, seconds as f64),
        backends: vec![0],
        caller,
    };
    World {
        seconds,
        workloads: callers.enumerate().map(workload).collect(),
        backends: vec![backend],
    }
}

/// A backend that fails a share of attempts from a time on.
pub fn failing(from: f64, share: f64) -> Backend {
    Backend::quick().that(
        move |time, _, random| match time >= from && random.chance(share) {
            true => Mode::Fail,
            false => Mode::Serve,
        },
    )
}

/// A backend that refuses between two times.
pub fn refusing(from: f64, until: f64) -> Backend {
    Backend::quick().that(move |time, _, _| match (from..until).contains(&time) {
        true => Mode::Refuse,
        false => Mode::Serve,
    })
}

/// A backend that refuses in three outages.
pub fn refusing_in(outages: [Range<f64>; 3]) -> Backend {
    Backend::quick().that(move |time, _, _| {
        match outages.iter().any(|outage| outage.contains(&time)) {
            true => Mode::Refuse,
            false => Mode::Serve,
        }
    })
}

/// So many backends that refuse, and one that serves.
pub fn one_alive(dead: usize) -> Vec<Backend> {
    let mut all = vec![Backend::quick()];
    all.extend((0..dead).map(|_| refusing(20.0, f64::INFINITY)));
    all
}

/// The real law with its budget alone.
pub fn budget_alone(params: Params) -> Law {
    Law::Governor(Params {
        breaker_enabled: 0,
        concurrency: concurrency::DISABLED,
        ..params
    })
}

/// A stall of 5 s at 80 % load.
pub const STALL: Scene = Scene::of(
    |random| named("stall", random),
    &[
        mean(
            "goodput after a stall of 5 s, of what is possible",
            More(0.03),
            |report| possible(report, "stall"),
        ),
        worst(
            "until goodput is back after a stall of 5 s, worst seed, s",
            Less(1.0),
            |report| back(report, 25),
        ),
    ],
);

/// The same, 250 nodes.
pub const STALLED_NODES: Scene = Scene::of(
    |random| named("many-nodes", random),
    &[mean(
        "goodput after a stall, 250 nodes, of what is possible",
        More(0.03),
        |report| possible(report, "many-nodes"),
    )],
);

/// 1.2x overload.
pub const OVERLOAD: Scene = Scene::of(
    |random| named("overload", random),
    &[mean(
        "goodput in an overload, of capacity",
        More(0.03),
        |report| possible(report, "overload"),
    )],
);

/// 60 % of capacity.
pub const DEGRADED: Scene = Scene::of(
    |random| named("degraded", random),
    &[mean(
        "goodput with 60 % of capacity left, of that",
        More(0.03),
        |report| possible(report, "degraded"),
    )],
);
