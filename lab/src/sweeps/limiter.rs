//! Adaptive concurrency and pacing.

use governor_tests::sim::Law;
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, World, poisson};

use super::scenes::{DEGRADED, OVERLOAD, STALLED_NODES, alike, named, possible};
use super::trial::Wanted::{Less, More};
use super::trial::{Scene, Trial, mean};

/// Their defaults.
pub const ALL: &[Trial] = &[
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

/// One backend of three hangs, the others' latency is 6 or 12 ms by turns.
const NOISY: Scene = Scene::of(
    |random| {
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
        alike(1, 300.0, 80).patient(random, vec![healthy(), healthy(), hangs])
    },
    &[mean(
        "goodput, 1 of 3 backends hangs, latency varies, of what is possible",
        More(0.05),
        |report| report.all.goodput(25..78) * 1.5,
    )],
);

/// Latency rises tenfold, nothing fails.
const SLOWER: Scene = Scene::of(
    |random| named("slower", random),
    &[mean(
        "goodput, latency 6 -> 60 ms, of offered",
        More(0.01),
        |report| possible(report, "slower"),
    )],
);

/// A thousand callers fail at one moment and retry 100 ms later.
const WAVE: Scene = Scene::of(
    |random| {
        let mut arrivals = poisson(random, 500.0, 0.0, 40.0);
        arrivals.extend((0..1_000).map(|_| (30.0, 0)));
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let backend = Backend::quick().that(|time, _, _| match (29.99..30.02).contains(&time) {
            true => Mode::Fail,
            false => Mode::Serve,
        });
        World::single(40, arrivals, vec![backend], Caller::retrying(Jitter::None))
    },
    &[
        mean(
            "most attempts in 50 ms after 1,000 callers failed at once",
            Less(12.0),
            |report| f64::from(report.peak_slot(30.05, 32.0)),
        ),
        mean(
            "time of operations that a retry saved, mean, ms",
            Less(150.0),
            |report| {
                let sum: f32 = report.rescued.iter().sum();
                1_000.0 * f64::from(sum) / report.rescued.len() as f64
            },
        ),
    ],
)
.under(Law::Paced);
