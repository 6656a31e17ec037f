//! The retry budget: `retryConstraint`.

use governor_tests::sim::scenario::HEALTHY;
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, Workload, World, poisson};

use super::scenes::{alike, budget_alone, failing, lost, named, neighbours};
use super::trial::Wanted::Less;
use super::trial::{Scene, Trial, mean, worst};

/// Its defaults.
pub const ALL: &[Trial] = &[
    Trial {
        key: "retryConstraint.budget.percent",
        unit: "%",
        chosen: 10.0,
        values: &[2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0],
        set: |p, percent| p.budget_percent = (percent * 100.0) as u32,
        scenes: &[&BLIPS, &FAILING, &NODE_HERD],
    },
    Trial {
        key: "retryConstraint.budget.interval",
        unit: "s",
        chosen: 10.0,
        values: &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0],
        set: |p, seconds| {
            p.budget_epoch = (seconds * 1e8) as u64;
            // Rates: so many per interval.
            p.reserve_floor = seconds as u32;
            p.reserve_ceiling = 10 * seconds as u32;
        },
        scenes: &[&SMALL, &UNLUCKY, &DOWN],
    },
    Trial {
        key: "retryConstraint.minRetryRate.count",
        unit: "a second",
        chosen: 10.0,
        values: &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
        set: |p, count| p.reserve_ceiling = (count * 10.0) as u32,
        scenes: &[&UNLUCKY, &DOWN],
    },
    Trial {
        key: "retryConstraint.maxReserveShare",
        unit: "%",
        chosen: 50.0,
        values: &[10.0, 25.0, 50.0, 75.0, 90.0, 100.0],
        set: |p, percent| p.reserve_share = (percent * 100.0) as u32,
        scenes: &[&ONE_GREEDY, &GREEDY, &NEEDY],
    },
];

/// Every twentieth attempt fails.
const BLIPS: Scene = Scene::of(
    |random| alike(1, 100.0, 60).retrying(random, vec![failing(0.0, 0.05)]),
    &[mean(
        "operations lost while 5 % of attempts fail, 100/s, %",
        Less(0.5),
        |report| lost(report, 10..58),
    )],
);

/// Every twentieth attempt of 20 small workloads fails.
const SMALL: Scene = Scene::of(
    |random| {
        let backends = vec![failing(0.0, 0.05)];
        neighbours(alike(20, 0.5, 120).retrying(random, backends))
    },
    &[mean(
        "operations lost while 5 % fail, 20 workloads of 1 in 2 s, %",
        Less(0.5),
        |report| lost(report, 10..118),
    )],
);

/// For three seconds 40 % fail: what was earned before pays for it.
const UNLUCKY: Scene = Scene::of(
    |random| {
        let backend = Backend::quick().that(|time, _, random| {
            match (20.0..23.0).contains(&(time % 30.0)) && random.chance(0.4) {
                true => Mode::Fail,
                false => Mode::Serve,
            }
        });
        alike(1, 300.0, 90).retrying(random, vec![backend])
    },
    &[mean(
        "operations lost in 3 s in which 40 % fail, 300/s, %",
        Less(5.0),
        // Three times 3 s in 90 s.
        |report| 10.0 * lost(report, 0..90),
    )],
);

/// Nothing succeeds any more, and only the budget is there.
const DOWN: Scene = Scene::of(
    |random| alike(1, 300.0, 60).retrying(random, vec![failing(20.0, 1.0)]),
    &[
        mean(
            "load in the first 10 s in which all fails, budget alone, x offered",
            Less(0.08),
            |report| report.all.amplification(20..30),
        ),
        mean(
            "load after 20 s in which all fails, budget alone, x offered",
            Less(0.05),
            |report| report.all.amplification(40..58),
        ),
    ],
)
.under(budget_alone);

/// 30 % fail.
const FAILING: Scene = Scene::of(
    |random| named("failing", random),
    &[
        mean("load while 30 % fail, x offered", Less(0.1), |report| {
            report.all.amplification(22..58)
        }),
        mean("operations lost while 30 % fail, %", Less(25.0), |report| {
            lost(report, 22..58)
        }),
    ],
);

/// 60 % fail, for 50 nodes.
const NODE_HERD: Scene = Scene::of(
    |random| named("node-herd", random),
    &[worst(
        "load in the worst second, 50 nodes, 60 % fail, x offered",
        Less(0.2),
        |report| report.all.peak_amplification(20..58),
    )],
);

/// Two workloads always fail, 20 have blips.
const GREEDY: Scene = Scene::of(
    |random| named("greedy", random),
    &[mean(
        "retries of 20 healthy workloads refused beside 2 broken ones, %",
        Less(2.0),
        |report| {
            let healthy = &report.workloads[..HEALTHY];
            let refused = healthy
                .iter()
                .map(|series| series.denied_retry_share(30..118));
            100.0 * refused.sum::<f64>() / HEALTHY as f64
        },
    )],
)
.under(budget_alone);

/// One of eleven workloads is broken from 20 s on, and a third of what the others do fails.
const ONE_GREEDY: Scene = Scene::of(
    |random| {
        let mut world =
            alike(10, 1.0, 90).retrying(random, vec![failing(20.0, 0.3), failing(20.0, 1.0)]);
        for workload in &mut world.workloads {
            workload.backends = vec![0];
        }
        world.workloads.push(Workload {
            node: 0,
            arrivals: poisson(random, 100.0, 0.0, 90.0),
            backends: vec![1],
            caller: Caller::retrying(Jitter::Full),
        });
        neighbours(world)
    },
    &[mean(
        "retries of 10 small workloads refused beside a broken one, 30 % of theirs fail, %",
        Less(10.0),
        |report| {
            let small = &report.workloads[..10];
            let refused = small.iter().map(|series| series.denied_retry_share(30..88));
            100.0 * refused.sum::<f64>() / 10.0
        },
    )],
)
.under(budget_alone);

/// One workload has bad luck while others retry now and then.
const NEEDY: Scene = Scene::of(
    |random| {
        let workload = |arrivals, backend| Workload {
            node: 0,
            arrivals,
            backends: vec![backend],
            caller: Caller::retrying(Jitter::Full),
        };
        World {
            seconds: 90,
            workloads: vec![
                workload(poisson(random, 20.0, 0.0, 90.0), 0),
                workload(poisson(random, 100.0, 0.0, 90.0), 1),
            ],
            backends: vec![failing(20.0, 0.4), failing(20.0, 0.005)],
        }
    },
    &[mean(
        "operations lost by one of two workloads, 40 % of its attempts fail, %",
        Less(5.0),
        |report| 100.0 * (1.0 - report.workloads[0].goodput(25..88)),
    )],
)
.under(budget_alone);
