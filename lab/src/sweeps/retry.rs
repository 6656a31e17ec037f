//! The retry rules: `retry`.

use governor_core::params::{Params, concurrency};
use governor_tests::sim::Law;
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, World, poisson};

use super::scenes::{alike, failing, lost, refusing_in, unlike, unsaved};
use super::trial::Wanted::{Less, More};
use super::trial::{Scene, Trial, mean};

/// Its defaults.
pub const ALL: &[Trial] = &[
    Trial {
        key: "retry.attempts",
        unit: "",
        chosen: 3.0,
        values: &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0],
        set: |p, attempts| p.attempts = attempts as u32,
        scenes: &[&SHARD, &POISON, &UNBOUNDED],
    },
    Trial {
        key: "retry.deadline",
        unit: "s",
        chosen: 30.0,
        values: &[2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0],
        set: |p, seconds| p.deadline = (seconds * 1e3) as u64,
        scenes: &[&USERS],
    },
    Trial {
        key: "retry.evidenceWindow",
        unit: "s",
        chosen: 10.0,
        values: &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0],
        set: |p, seconds| p.evidence_window = (seconds * 1e3) as u64,
        scenes: &[&GUESSES, &LATE_GUESSES, &FALSE_GUESSES, &POLLS],
    },
];

/// 3 % of operations can not succeed; callers would try nine times.
const POISON: Scene = Scene::of(
    |random| {
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
    &[
        mean(
            "operations lost that could succeed, 5 % fail, 3 % always do, %",
            Less(0.3),
            |report| (lost(report, 15..75) - 3.0).max(0.0) / 0.97,
        ),
        mean(
            "load, callers would try nine times, x offered",
            Less(0.15),
            |report| report.all.amplification(15..75),
        ),
    ],
);

/// One shard of twenty fails for 600 ms of every 5 s, as where its leader changes.
const SHARD: Scene = Scene::of(
    |random| {
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
    &[mean(
        "operations lost of those that met a shard's 600 ms, callers wait 0.1, 0.2, 0.4 s.., %",
        Less(20.0),
        unsaved,
    )],
);

/// Nothing succeeds, and no other rule bounds what callers do who would try nine times.
const UNBOUNDED: Scene = Scene::of(
    |random| {
        let caller = Caller {
            retries: 8,
            delay: 0.02,
            ..Caller::retrying(Jitter::Full)
        };
        alike(1, 100.0, 60).called_by(random, vec![failing(20.0, 1.0)], caller)
    },
    &[mean(
        "load where all fails and no other rule refuses, x offered; of 3 layers: cubed",
        Less(0.5),
        |report| report.all.amplification(30..58),
    )],
)
.under(|params| {
    Law::Governor(Params {
        budget_enabled: 0,
        breaker_enabled: 0,
        concurrency: concurrency::DISABLED,
        ..params
    })
});

/// Everything is refused for 5, 15 and 40 s of 300. Callers go on for 7 to 56 s, in the mean; their users
/// leave after 5 to 80 s, which they do not know.
const USERS: Scene = Scene::of(
    |random| {
        let callers = [5.0, 10.0, 20.0, 40.0, 80.0].into_iter();
        let callers = callers.flat_map(|user_leaves| {
            [2.0, 4.0, 8.0, 16.0].map(|delay| Caller {
                delay,
                user_leaves,
                ..Caller::retrying(Jitter::Full)
            })
        });
        let backend = refusing_in([20.0..25.0, 60.0..75.0, 140.0..180.0]);
        unlike(random, 1.0, 300, backend, callers)
    },
    &[
        mean(
            "operations lost to outages, users leave after 5 to 80 s, of those whose first try failed, %",
            Less(5.0),
            unsaved,
        ),
        mean(
            "tries for users who had left, of operations begun in an outage, %",
            Less(5.0),
            |report| {
                let late: u32 = report.all.late.iter().sum();
                let first: u32 = report.all.first.iter().sum();
                100.0 * f64::from(late) / f64::from(first) * 5.0
            },
        ),
    ],
);

/// Callers of opaque protocols retry after 1, 2 and 4 s.
const GUESSES: Scene = Scene::of(
    |random| {
        let caller = Caller {
            delay: 1.0,
            ..Caller::retrying(Jitter::None)
        };
        alike(20, 0.5, 300).called_by(random, vec![failing(0.0, 0.1)], caller)
    },
    &[mean(
        "retries recognised, callers wait 1, 2, 4 s, 1 call in 2 s, %",
        More(5.0),
        |report| 100.0 * report.governors.recall(),
    )],
)
.under(Law::Guessing);

/// Callers retry after 5, 10 and 20 s, at most.
const LATE_GUESSES: Scene = Scene::of(
    |random| {
        let caller = Caller {
            delay: 5.0,
            ..Caller::retrying(Jitter::Full)
        };
        alike(100, 0.02, 600).called_by(random, vec![failing(0.0, 0.3)], caller)
    },
    &[mean(
        "retries recognised, callers wait up to 5, 10, 20 s, 1 call in 50 s, %",
        More(5.0),
        |report| 100.0 * report.governors.recall(),
    )],
)
.under(Law::Guessing);

/// Polls every 15 s, and none is repeated.
const POLLS: Scene = Scene::of(
    |random| {
        let mut world = alike(50, 1.0, 600).patient(random, vec![failing(0.0, 0.1)]);
        for workload in &mut world.workloads {
            let begins = random.between(0.0, 15.0);
            let poll = |number| (begins + 15.0 * f64::from(number), 0);
            workload.arrivals = (0..39).map(poll).collect();
        }
        world
    },
    &[mean(
        "polls suspected, one in 15 s, 10 % fail, %",
        Less(2.0),
        |report| {
            let first: u32 = report.all.first.iter().sum();
            100.0 * report.governors.guesses[1] as f64 / f64::from(first)
        },
    )],
)
.under(Law::Guessing);

/// Callers that never retry.
const FALSE_GUESSES: Scene = Scene::of(
    |random| alike(50, 0.1, 600).patient(random, vec![failing(0.0, 0.1)]),
    &[mean(
        "first tries suspected, nobody retries, 10 % fail, 1 call in 10 s, %",
        Less(7.0),
        |report| {
            let first: u32 = report.all.first.iter().sum();
            100.0 * report.governors.guesses[1] as f64 / f64::from(first)
        },
    )],
)
.under(Law::Guessing);
