//! The retry rules, adaptive concurrency, pacing.

use governor_core::params::{Params, concurrency};
use governor_tests::sim::Law;
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, World, poisson};

use super::scenes::{DEGRADED, OVERLOAD, STALLED_NODES, failing, lost, named, nodes, possible};
use super::trial::Over::Mean;
use super::trial::Wanted::{Less, More};
use super::trial::{Measure, Scene, Trial};

/// `retry`.
pub const RETRY: &[Trial] = &[
    Trial {
        key: "retry.attempts",
        unit: "",
        chosen: 3.0,
        values: &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0],
        set: |p, attempts| p.attempts = attempts as u32,
        scenes: &[&SHARD, &POISON, &UNBOUNDED],
    },
    Trial {
        key: "retry.evidenceWindow",
        unit: "s",
        chosen: 10.0,
        values: &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0],
        set: |p, seconds| p.evidence_window = (seconds * 1e3) as u64,
        scenes: &[&GUESSES, &FALSE_GUESSES],
    },
];

/// `concurrency` and `pacing`.
pub const LIMITER_AND_PACING: &[Trial] = &[
    Trial {
        key: "concurrency.minLimit",
        unit: "in flight",
        chosen: 1.0,
        values: &[1.0, 2.0, 4.0, 8.0, 16.0],
        set: |p, limit| p.limit_floor = limit as u32,
        scenes: &[&STALLED_NODES, &OVERLOAD, &DEGRADED],
    },
    Trial {
        key: "concurrency.latencyTolerance",
        unit: "x",
        chosen: 2.0,
        values: &[1.2, 1.5, 2.0, 3.0, 5.0, 10.0],
        set: |p, times| p.latency_tolerance = (times * 100.0).round() as u32,
        scenes: &[&NOISY, &SLOWER, &OVERLOAD, &DEGRADED],
    },
    Trial {
        key: "pacing.maxDelay",
        unit: "ms",
        chosen: 250.0,
        values: &[0.0, 50.0, 100.0, 250.0, 500.0, 1_000.0],
        set: |p, millis| p.pacing_delay = millis as u32,
        scenes: &[&WAVE],
    },
];

/// 3 % of operations can not succeed; callers would try nine times.
const POISON: Scene = Scene {
    world: |random| {
        let mut arrivals = poisson(random, 100.0, 0.0, 90.0);
        for arrival in &mut arrivals {
            arrival.1 = u8::from(random.chance(0.03));
        }
        let backend = Backend::quick().that(|time, class, random| {
            match class == 1 || random.chance(if time < 10.0 { 0.0 } else { 0.05 }) {
                true => Mode::Fail,
                false => Mode::Serve,
            }
        });
        let caller = Caller {
            retries: 8,
            delay: 0.05,
            ..Caller::retrying(Jitter::Full)
        };
        World::single(90, arrivals, vec![backend], caller)
    },
    law: Law::Governor,
    measures: &[
        Measure {
            name: "operations lost that could succeed, 5 % fail, 3 % always do, %",
            wanted: Less(0.3),
            over: Mean,
            of: |report| (lost(report, 15..75) - 3.0).max(0.0) / 0.97,
        },
        Measure {
            name: "load, callers would try nine times, x offered",
            wanted: Less(0.15),
            over: Mean,
            of: |report| report.all.amplification(15..75),
        },
    ],
};

/// One shard of twenty fails for 600 ms of every 5 s, as where its leader changes.
const SHARD: Scene = Scene {
    world: |random| {
        let mut arrivals = poisson(random, 200.0, 0.0, 120.0);
        for arrival in &mut arrivals {
            arrival.1 = u8::from(random.chance(0.05));
        }
        let backend =
            Backend::quick().that(|time, class, _| match class == 1 && time % 5.0 > 4.4 {
                true => Mode::Fail,
                false => Mode::Serve,
            });
        let caller = Caller {
            retries: 8,
            ..Caller::retrying(Jitter::Full)
        };
        World::single(120, arrivals, vec![backend], caller)
    },
    law: Law::Governor,
    measures: &[Measure {
        name: "operations lost that met a shard's 600 ms, callers wait 0.1, 0.2, 0.4 s.., %",
        wanted: Less(20.0),
        over: Mean,
        // One in twenty, and of those 600 ms of 5 s.
        of: |report| lost(report, 0..120) / (0.05 * 0.12),
    }],
};

/// Nothing succeeds, and no other rule bounds what callers do who would try nine times.
const UNBOUNDED: Scene = Scene {
    world: |random| {
        let caller = Caller {
            retries: 8,
            delay: 0.02,
            ..Caller::retrying(Jitter::Full)
        };
        nodes(random, 1, 100.0, 60, vec![failing(20.0, 1.0)], caller)
    },
    law: |params| {
        Law::Governor(Params {
            budget_enabled: 0,
            breaker_enabled: 0,
            concurrency: concurrency::DISABLED,
            ..params
        })
    },
    measures: &[Measure {
        name: "load where all fails and no other rule refuses, x offered; of 3 layers: cubed",
        wanted: Less(0.5),
        over: Mean,
        of: |report| report.all.amplification(30..58),
    }],
};

/// Callers of opaque protocols retry after 1, 2 and 4 s.
const GUESSES: Scene = Scene {
    world: |random| {
        let caller = Caller {
            delay: 1.0,
            ..Caller::retrying(Jitter::None)
        };
        nodes(random, 20, 0.5, 300, vec![failing(0.0, 0.1)], caller)
    },
    law: Law::Guessing,
    measures: &[Measure {
        name: "retries recognised, callers wait 1, 2, 4 s, 1 call in 2 s, %",
        wanted: More(5.0),
        over: Mean,
        of: |report| 100.0 * report.governors.recall(),
    }],
};

/// Callers that never retry.
const FALSE_GUESSES: Scene = Scene {
    world: |random| {
        nodes(
            random,
            50,
            0.1,
            600,
            vec![failing(0.0, 0.1)],
            Caller::PATIENT,
        )
    },
    law: Law::Guessing,
    measures: &[Measure {
        name: "first tries suspected, nobody retries, 10 % fail, 1 call in 10 s, %",
        wanted: Less(7.0),
        over: Mean,
        of: |report| {
            let first: u32 = report.all.first.iter().sum();
            100.0 * report.governors.guesses[1] as f64 / f64::from(first)
        },
    }],
};

/// One backend of three hangs, the others' latency is 6 or 12 ms by turns.
const NOISY: Scene = Scene {
    world: |random| {
        let healthy = || {
            Backend::parallel(|time, _, random| {
                let turn = if time % 3.0 < 1.5 { 0.006 } else { 0.012 };
                turn * random.between(0.7, 1.3)
            })
        };
        let hangs = healthy().that(|time, _, _| {
            if time >= 20.0 {
                Mode::Hang
            } else {
                Mode::Serve
            }
        });
        nodes(
            random,
            1,
            300.0,
            80,
            vec![healthy(), healthy(), hangs],
            Caller::PATIENT,
        )
    },
    law: Law::Governor,
    measures: &[Measure {
        name: "goodput, 1 of 3 backends hangs, latency varies, of what is possible",
        wanted: More(0.05),
        over: Mean,
        of: |report| report.all.goodput(25..78) * 1.5,
    }],
};

/// Latency rises tenfold, nothing fails.
const SLOWER: Scene = Scene {
    world: |random| named("slower", random),
    law: Law::Governor,
    measures: &[Measure {
        name: "goodput, latency 6 -> 60 ms, of offered",
        wanted: More(0.01),
        over: Mean,
        of: |report| possible(report, "slower"),
    }],
};

/// A thousand callers fail at one moment and retry 100 ms later.
const WAVE: Scene = Scene {
    world: |random| {
        let mut arrivals = poisson(random, 500.0, 0.0, 40.0);
        arrivals.extend((0..1_000).map(|_| (30.0, 0)));
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let backend = Backend::quick().that(|time, _, _| match (29.99..30.02).contains(&time) {
            true => Mode::Fail,
            false => Mode::Serve,
        });
        World::single(40, arrivals, vec![backend], Caller::retrying(Jitter::None))
    },
    law: Law::Paced,
    measures: &[
        Measure {
            name: "most attempts in 50 ms after 1,000 callers failed at once",
            wanted: Less(12.0),
            over: Mean,
            of: |report| f64::from(report.peak_slot(30.05, 32.0)),
        },
        Measure {
            name: "time of operations that a retry saved, mean, ms",
            wanted: Less(150.0),
            over: Mean,
            of: |report| {
                let sum: f32 = report.rescued.iter().sum();
                1_000.0 * f64::from(sum) / report.rescued.len() as f64
            },
        },
    ],
};
