//! Fifty nodes, each with a governor of its own that knows of no other, call one service.
//!
//! Played in the simulator: the law is the real one, the same source that runs in the kernel;
//! fifty kernels are more than a machine holds.

use std::ops::Range;

use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, Random, Workload, World, poisson};
use governor_tests::sim::{Law, Report, simulate};

use crate::findings::{Claim, Key, Mark, Run};
use crate::measure::beside;
use crate::scenario::{Found, Play, Scenario};
use crate::stop;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "many-nodes",
    title: "50 nodes, each with its own governor, call one service: a stall, an overload, 60 % failing",
    seconds: |length| length.pick(2.0, 5.0, 12.0),
    play,
};

const NODES: usize = 50;
const CAPACITY: f64 = 1_000.0;
/// Each storm is a run of its own of so many seconds.
const LENGTH: usize = 60;
/// Seconds in a row that make a recovery.
const LASTING: usize = 5;

/// Jain's index that counts as even: as if one node in twenty got nothing.
const EVEN: f64 = 0.95;
/// What no node may fall below, of the mean node's goodput.
const LEAST: f64 = 0.5;

/// One of the storms.
#[derive(Clone, Copy)]
struct Storm {
    name: &'static str,
    /// First tries per second, of all nodes.
    offered: f64,
    /// From when to when there is trouble.
    trouble: Span,
    jitter: Jitter,
    backend: fn() -> Backend,
}

/// From one second to before another.
#[derive(Clone, Copy)]
struct Span(u32, u32);

impl Span {
    fn seconds(self) -> Range<usize> {
        self.0 as usize..self.1 as usize
    }
}

const STALL: Storm = Storm {
    name: "a stall of 5 s",
    offered: 800.0,
    trouble: Span(20, 25),
    jitter: Jitter::None,
    backend: || {
        Backend::fifo(|t| {
            if (20.0..25.0).contains(&t) {
                0.0
            } else {
                CAPACITY
            }
        })
    },
};
const OVERLOAD: Storm = Storm {
    name: "1.2x overload",
    offered: 1_200.0,
    trouble: Span(0, 60),
    jitter: Jitter::None,
    backend: || Backend::fifo(|_| CAPACITY),
};
const FAILING: Storm = Storm {
    name: "60 % failing",
    offered: 1_000.0,
    trouble: Span(20, 60),
    jitter: Jitter::Full,
    backend: || {
        Backend::quick().that(|time, _, random| {
            if time >= 20.0 && random.chance(0.6) {
                Mode::Fail
            } else {
                Mode::Serve
            }
        })
    },
};
const STORMS: [Storm; 3] = [STALL, OVERLOAD, FAILING];

impl Storm {
    fn play(&self, law: Law, seed: u64) -> Report {
        let mut random = Random::new(seed);
        let workloads = (0..NODES).map(|node| Workload {
            node,
            arrivals: poisson(&mut random, self.offered / NODES as f64, 0.0, LENGTH as f64),
            backends: vec![0],
            caller: Caller::retrying(self.jitter),
        });
        let world = World {
            seconds: LENGTH,
            workloads: workloads.collect(),
            backends: vec![(self.backend)()],
        };
        simulate(&world, law, seed)
    }
}

/// A storm under a law, with some seeds.
struct Played(Vec<Report>);

impl Played {
    fn mean(&self, of: impl Fn(&Report) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    fn worst(&self, of: impl Fn(&Report) -> f64) -> f64 {
        self.0.iter().map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    fn goodput(&self, seconds: Range<usize>, possible: f64) -> f64 {
        self.mean(|report| report.all.goodput_of(seconds.clone(), possible))
    }

    fn load(&self, seconds: Range<usize>) -> f64 {
        self.mean(|report| report.all.amplification(seconds.clone()))
    }

    fn peak(&self, seconds: Range<usize>) -> f64 {
        self.mean(|report| report.all.peak_amplification(seconds.clone()))
    }

    /// Seconds until goodput is back after `since`, worst of the seeds; NaN: never.
    fn back(&self, since: usize) -> f64 {
        let back = |report: &Report| report.all.recovery(since, LASTING);
        let all: Option<Vec<_>> = self.0.iter().map(back).collect();
        let worst = all.and_then(|all| all.into_iter().max());
        worst.map_or(f64::NAN, |seconds| seconds as f64)
    }

    /// Jain's index of what each node got of what it asked for: 1 is even, 1/50 is all for one.
    fn fairness(&self, seconds: Range<usize>) -> f64 {
        self.mean(|report| {
            let got = shares(report, seconds.clone());
            let sum: f64 = got.iter().sum();
            let squares: f64 = got.iter().map(|share| share * share).sum();
            sum * sum / (got.len() as f64 * squares)
        })
    }

    /// What the worst node got, relative to the mean of all.
    fn worst_node(&self, seconds: Range<usize>) -> f64 {
        -self.worst(|report| {
            let got = shares(report, seconds.clone());
            let mean = got.iter().sum::<f64>() / got.len() as f64;
            let worst = got.iter().copied().fold(f64::INFINITY, f64::min);
            -worst / mean
        })
    }
}

fn shares(report: &Report, seconds: Range<usize>) -> Vec<f64> {
    let nodes = report.workloads.iter();
    nodes.map(|node| node.goodput(seconds.clone())).collect()
}

fn play(play: &Play<'_>) -> Found {
    let seeds = play.length.pick(2, 4, 10);
    let act = play
        .progress
        .act("in the simulator", (SCENARIO.seconds)(play.length));
    act.begins();
    let all = |law| {
        STORMS.map(|storm| {
            Played(
                (1..=seeds)
                    .map(|seed| {
                        stop::check();
                        storm.play(law, seed)
                    })
                    .collect(),
            )
        })
    };
    let (without, with) = beside(|| all(Law::None), || all(Law::REAL));
    Found {
        story: format!(
            "{NODES} nodes with a governor each, the real law in the simulator, call one service that answers \
             {CAPACITY} requests a second from one queue; callers wait 1 s and try again after 100, 200 and 400 ms. \
             Three storms, each begun anew and drawn one after the other: a stall of 5 s at 80 % load, an overload \
             of 1.2x, and 60 % of answers are errors (no queue; callers with full jitter). Mean of {seeds} seeds."
        ),
        claims: claims(&without, &with),
        runs: vec![run("without", &without), run("with", &with)],
        key: Some(Key {
            what: "load in the worst second while 60 % fail".to_owned(),
            without: format!("{:.2} x offered", without[2].peak(FAILING.trouble.seconds())),
            with: format!("{:.2} x offered", with[2].peak(FAILING.trouble.seconds())),
        }),
        notes: vec![
            "No node knows of another. Law, budgets and breakers are the kernel's own source; network, queue and \
             callers are simulated."
                .to_owned(),
            format!(
                "While 60 % fail whatever the load, each retry is as good as a first try, and a budget costs goodput: \
                 {:.2} of offered without, {:.2} with. The budget can not know that there is room; it bounds what a \
                 service without room would get.",
                without[2].goodput(20..LENGTH - 2, FAILING.offered),
                with[2].goodput(20..LENGTH - 2, FAILING.offered),
            ),
            format!(
                "In the overload nobody shares the capacity out: each node's limiter finds its own part, and the \
                 worst node gets {:.2} of the mean one's goodput.",
                with[1].worst_node(5..LENGTH - 2),
            ),
        ],
        ..Found::default()
    }
}

fn claims(without: &[Played; 3], with: &[Played; 3]) -> Vec<Claim> {
    let [stall, overload, failing] = with;
    let after = 25..LENGTH - 2;
    let settled = 5..LENGTH - 2;
    // The last seconds are left out: their answers come after the end.
    let fails = FAILING.trouble.0 as usize..LENGTH - 2;
    let mut claims = vec![
        Claim::at_most(
            "stall, without: goodput after it",
            without[0].goodput(after.clone(), STALL.offered),
            0.5,
            "of offered",
        ),
        Claim::at_least(
            "stall: goodput after it",
            stall.goodput(after.clone(), STALL.offered),
            0.9,
            "of offered",
        ),
        Claim::at_most(
            "stall: until goodput is back, worst seed",
            stall.back(25),
            5.0,
            "s",
        ),
        Claim::at_most(
            "stall: mean load from its beginning on",
            stall.load(20..LENGTH - 2),
            1.16,
            "x offered",
        ),
        Claim::at_most(
            "stall: load in the worst second",
            stall.peak(20..LENGTH - 2),
            1.5,
            "x offered",
        ),
        Claim::at_most(
            "overload, without: goodput",
            without[1].goodput(settled.clone(), CAPACITY),
            0.5,
            "of capacity",
        ),
        Claim::at_least(
            "overload: goodput",
            overload.goodput(settled.clone(), CAPACITY),
            0.95,
            "of capacity",
        ),
        Claim::at_most(
            "overload: mean load",
            overload.load(settled.clone()),
            1.15,
            "x offered",
        ),
        Claim::at_most(
            "overload: load in the worst second",
            overload.peak(settled.clone()),
            1.2,
            "x offered",
        ),
        Claim::at_least(
            "60 % failing, without: load in the worst second",
            without[2].peak(fails.clone()),
            1.8,
            "x offered",
        ),
        Claim::at_most(
            "60 % failing: mean load",
            failing.load(fails.clone()),
            1.16,
            "x offered",
        ),
        Claim::at_most(
            "60 % failing: load in the worst second",
            failing.peak(fails.clone()),
            1.39,
            "x offered",
        ),
    ];
    for (storm, played, seconds) in [
        ("stall", stall, after),
        ("overload", overload, settled),
        ("60 % failing", failing, fails),
    ] {
        claims.extend([
            Claim::at_least(
                format!("{storm}: fairness over nodes, Jain's index of goodput"),
                played.fairness(seconds.clone()),
                EVEN,
                "",
            ),
            Claim::at_least(
                format!("{storm}: the worst node's goodput, worst seed"),
                played.worst_node(seconds),
                LEAST,
                "of the mean node's",
            ),
        ]);
    }
    claims
}

/// The three storms one after the other, of the first seed.
fn run(name: &str, played: &[Played; 3]) -> Run {
    let line = |of: fn(&Report) -> &Vec<u32>| -> Vec<f64> {
        let first = played.iter().filter_map(|storm| storm.0.first());
        first
            .flat_map(|report| {
                let counts = of(report);
                // Seconds in which nothing more happened are not there.
                let last = counts.last().copied().unwrap_or(0);
                (0..LENGTH)
                    .map(move |second| f64::from(counts.get(second).copied().unwrap_or(last)))
            })
            .collect()
    };
    let capacity = STORMS.iter().flat_map(|storm| {
        (0..LENGTH).map(|second| {
            if storm.name == FAILING.name {
                return f64::NAN;
            }
            let stalled = storm.name == STALL.name && STALL.trouble.seconds().contains(&second);
            if stalled { 0.0 } else { CAPACITY }
        })
    });
    let marks = STORMS.iter().enumerate().map(|(at, storm)| Mark {
        from: f64::from(storm.trouble.0) + (at * LENGTH) as f64,
        to: f64::from(storm.trouble.1) + (at * LENGTH) as f64,
        label: storm.name.to_owned(),
    });
    Run {
        name: name.to_owned(),
        governed: name == "with",
        slot: 1.0,
        offered: line(|report| &report.all.first),
        load: line(|report| &report.all.load),
        goodput: line(|report| &report.all.good),
        capacity: capacity.collect(),
        denied: line(|report| &report.all.denied),
        breakers: line(|report| &report.governors.open),
        limit: Vec::new(),
        marks: marks.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Verdict;

    #[test]
    fn governors_that_know_of_no_other_do_not_add_up_to_a_storm() {
        let two = |law| STORMS.map(|storm| Played(vec![storm.play(law, 1), storm.play(law, 2)]));
        let (without, with) = beside(|| two(Law::None), || two(Law::REAL));
        let failing: Vec<_> = claims(&without, &with)
            .into_iter()
            .filter(|claim| claim.verdict != Verdict::Holds)
            .collect();
        assert!(failing.is_empty(), "{failing:#?}");
    }
}
