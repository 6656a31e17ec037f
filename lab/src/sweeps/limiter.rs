//! Adaptive concurrency and pacing.

use std::cell::RefCell;

use governor_tests::sim::Law;
use governor_tests::sim::busy::sways;
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, Random, World, poisson};

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
        scenes: &[
            &SWAYING,
            &SWAYING_MORE,
            &STALLED,
            &STALLED_MORE,
            &STALLED_QUICK,
            &CROWDED,
            &SLOWER,
            &OVERLOAD,
        ],
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

/// What the others take sways by less than the tolerance.
const SWAYING: Scene = Scene::of(
    |random| swaying(random, 0.17),
    &[mean(
        "goodput, 1 of 3 backends hangs, the others take 100 or 170 ms, of what is possible",
        More(0.05),
        |report| report.all.goodput(25..78) * 1.5,
    )],
);

/// By more.
const SWAYING_MORE: Scene = Scene::of(
    |random| swaying(random, 0.25),
    &[mean(
        "goodput, 1 of 3 backends hangs, the others take 100 or 250 ms, of what is possible",
        More(0.05),
        |report| report.all.goodput(25..78) * 1.5,
    )],
);

/// One backend of three hangs from 20 s on; the others take 100 ms, or for 2 s of 4 so long. Nobody waits in a queue.
fn swaying(random: &mut Random, slow: f64) -> World {
    let healthy = || sways(4.0, slow);
    let hangs = healthy().that(|time, _, _| match time >= 20.0 {
        true => Mode::Hang,
        false => Mode::Serve,
    });
    alike(1, 300.0, 80).patient(random, vec![healthy(), healthy(), hangs])
}

/// All backends hang from 20 s to 25 s. What wakes the limit is over, and latency sways on: by less than the tolerance.
const STALLED: Scene = Scene::of(
    |random| stalled(random, 4.0, 0.17),
    &[
        mean(
            "goodput in the 6 s after a stall, where backends take 100 or 170 ms, of what is possible",
            More(0.05),
            |report| report.all.goodput(26..32),
        ),
        mean("the same from 4 s after it on", More(0.03), |report| {
            report.all.goodput(29..78)
        }),
    ],
);

/// By more.
const STALLED_MORE: Scene = Scene::of(
    |random| stalled(random, 4.0, 0.25),
    &[mean(
        "goodput from 4 s after a stall on, where backends take 100 or 250 ms, of what is possible",
        More(0.03),
        |report| report.all.goodput(29..78),
    )],
);

/// By more, and to and fro in less than a second.
const STALLED_QUICK: Scene = Scene::of(
    |random| stalled(random, 0.8, 0.3),
    &[mean(
        "goodput from 4 s after a stall on, where backends take 100 or 300 ms, for 0.4 s each, of what is possible",
        More(0.03),
        |report| report.all.goodput(29..78),
    )],
);

fn stalled(random: &mut Random, turn: f64, slow: f64) -> World {
    let backend = || {
        sways(turn, slow).that(|time, _, _| match (20.0..25.0).contains(&time) {
            true => Mode::Hang,
            false => Mode::Serve,
        })
    };
    alike(1, 300.0, 80).patient(random, vec![backend(), backend(), backend()])
}

/// 50 nodes ask for three times what 40 workers can do, who take 200 ms each.
const CROWDED: Scene = Scene::of(
    |random| {
        let backends = vec![workers(40, 0.2)];
        let mut world = alike(50, 3.0, 80).retrying(random, backends);
        for workload in &mut world.workloads {
            let more = poisson(random, 9.0, 20.0, 80.0);
            workload.arrivals.extend(more);
            workload.arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        world
    },
    &[mean(
        "goodput of workers that take 200 ms, 3x overload from 50 nodes, of capacity",
        More(0.03),
        |report| report.all.goodput_of(25..78, 200.0),
    )],
);

/// One queue before so many workers, each of whom takes so long, and works for those who have left, too.
fn workers(count: usize, takes: f64) -> Backend {
    let free_at = RefCell::new(vec![0.0_f64; count]);
    Backend::parallel(move |time, _, random| {
        let mut free_at = free_at.borrow_mut();
        let begins = |at: &f64| at.max(time);
        let first = free_at
            .iter_mut()
            .min_by(|a, b| begins(a).total_cmp(&begins(b)));
        let Some(first) = first else {
            return f64::INFINITY;
        };
        *first = begins(first) + takes * random.between(0.7, 1.3);
        *first - time
    })
}

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

#[cfg(test)]
mod tests {
    use governor_tests::sim::world::Service;

    use super::*;

    #[test]
    fn who_finds_all_workers_busy_waits_for_the_first() {
        let mut random = Random::new(1);
        let Service::Parallel(takes) = workers(2, 0.2).service else {
            panic!("workers are no queue of one")
        };
        let waits: Vec<_> = (0..4).map(|_| takes(1.0, 0, &mut random)).collect();
        assert!(
            waits[..2].iter().all(|wait| (0.14..0.26).contains(wait)),
            "{waits:?}"
        );
        assert!(
            waits[2..].iter().all(|wait| (0.28..0.52).contains(wait)),
            "{waits:?}"
        );
        assert!((0.14..0.26).contains(&takes(9.0, 0, &mut random)));
    }
}
