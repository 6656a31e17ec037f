//! What callers are told to wait: by a destination, and by the governor.

use std::cell::Cell;

use governor_tests::sim::world::{
    Backend, Caller, Heeds, Jitter, Mode, Random, Workload, World, poisson,
};

use super::scenes::{alike, back, lost, refusing, refusing_in, unlike, unsaved};
use super::trial::Wanted::{Less, More};
use super::trial::{Scene, Trial, mean, worst};

/// Their defaults.
pub const ALL: &[Trial] = &[
    Trial {
        key: "pushback.maxRetryAfter",
        unit: "s (0: not honoured)",
        chosen: 30.0,
        values: &[0.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0],
        set: |p, seconds| p.pushback_max = (seconds * 1e3) as u64,
        scenes: &[&SOONER, &MEANT, &BANS],
    },
    Trial {
        key: "deny.retryAfter",
        unit: "s (0: not said)",
        chosen: 1.0,
        values: &[0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0],
        set: |p, seconds| p.retry_after = seconds as u32,
        scenes: &[&OUTAGES, &UNENDING, &THIRD],
    },
];

/// So many seconds are asked for from 30 s on, by three destinations.
const ASKED: [u32; 3] = [5, 20, 60];

/// Three destinations, each asked 20 times a second from a node of its own, for 200 s.
fn three(random: &mut Random, backend: fn(u32) -> Backend) -> World {
    let workload = |node| Workload {
        node,
        arrivals: poisson(random, 20.0, 0.0, 200.0),
        backends: vec![node],
        caller: Caller::retrying(Jitter::Full),
    };
    World {
        seconds: 200,
        workloads: (0..ASKED.len()).map(workload).collect(),
        backends: ASKED.map(backend).into(),
    }
}

/// Away for 4 s, whatever they ask for.
const SOONER: Scene = Scene::of(
    |random| {
        three(random, |asked| {
            Backend::quick().that(move |time, _, _| match (30.0..34.0).contains(&time) {
                true => Mode::Asks(asked),
                false => Mode::Serve,
            })
        })
    },
    &[
        mean(
            "goodput of 90 s, destinations back after 4 s that ask for 5, 20, 60 s, of offered",
            More(0.1),
            |report| report.all.goodput(34..124),
        ),
        worst(
            "until goodput is back after 4 s away, 60 s are asked for, worst seed, s",
            Less(10.0),
            |report| {
                let asks_most = &report.workloads[ASKED.len() - 1];
                asks_most.recovery(34, 3).unwrap_or(200 - 34) as f64
            },
        ),
    ],
);

/// Away for a minute, and asks for what is left of it.
const MEANT: Scene = Scene::of(
    |random| {
        let backend = Backend::quick().that(|time, _, _| match (20.0..80.0).contains(&time) {
            true => Mode::Asks((80.0 - time).ceil() as u32),
            false => Mode::Serve,
        });
        alike(20, 1.0, 150).retrying(random, vec![backend])
    },
    &[
        mean(
            "attempts into a service that asks for the 60 s it is away, 1/s each, of offered",
            Less(0.05),
            |report| report.all.amplification(20..80),
        ),
        worst(
            "until goodput is back after 60 s that were asked for, worst seed, s",
            Less(6.0),
            |report| back(report, 80),
        ),
    ],
);

/// Bans begin anew with each call that comes before they end, as where a rate limit counts refused calls too.
const BANS: Scene = Scene::of(
    |random| {
        three(random, |asked| {
            // What is asked for is rounded up.
            let until = Cell::new(30.0 + f64::from(asked) - 0.5);
            Backend::quick().that(move |time, _, _| {
                if !(30.0..until.get()).contains(&time) {
                    return Mode::Serve;
                }
                until.set(time + f64::from(asked) - 0.5);
                Mode::Asks(asked)
            })
        })
    },
    &[mean(
        "goodput, bans of 5, 20, 60 s that begin anew with each call in them, of offered",
        More(0.1),
        |report| report.all.goodput(30..198),
    )],
);

/// Tries four times, and waits as long as it is told.
const TOLD: Caller = Caller {
    heeds: Heeds::RetryAfter,
    ..Caller::retrying(Jitter::Full)
};

/// Everything is refused for 2, 5 and 10 s of 140. Half of the callers would by themselves retry at once, as
/// urllib3 does, half after about a second; their users leave after 2 to 40 s.
const OUTAGES: Scene = Scene::of(
    |random| {
        let callers = [2.0, 5.0, 10.0, 20.0, 40.0].into_iter();
        let callers = callers.flat_map(|user_leaves| {
            [0.0, 1.0].map(|delay| Caller {
                delay,
                user_leaves,
                ..TOLD
            })
        });
        let backend = refusing_in([20.0..22.0, 50.0..55.0, 90.0..100.0]);
        unlike(random, 5.0, 140, backend, callers)
    },
    &[mean(
        "operations lost to outages, callers wait as told, of those whose first try failed, %",
        Less(5.0),
        unsaved,
    )],
);

/// Everything is refused for 20 s, and callers try 20 times, at once if they are not told to wait.
const UNENDING: Scene = Scene::of(
    |random| {
        let caller = Caller {
            retries: 19,
            delay: 0.0,
            ..TOLD
        };
        alike(5, 20.0, 60).called_by(random, vec![refusing(20.0, 40.0)], caller)
    },
    &[mean(
        "answers of the governor per operation, 20 s of outage, callers try 20 times",
        Less(3.0),
        |report| {
            let denied: u32 = report.all.denied[20..40].iter().sum();
            let first: u32 = report.all.first[20..40].iter().sum();
            f64::from(denied) / f64::from(first)
        },
    )],
);

/// 30 % fail for 30 s: the budget refuses. How long a saved operation took would say little: the longer the
/// wait, the fewer of those that waited are among the saved.
const THIRD: Scene = Scene::of(
    |random| {
        let backend = Backend::quick().that(|time, _, random| {
            match (20.0..50.0).contains(&time) && random.chance(0.3) {
                true => Mode::Fail,
                false => Mode::Serve,
            }
        });
        alike(1, 100.0, 150).called_by(random, vec![backend], TOLD)
    },
    &[
        mean(
            "operations lost of 30 s in which 30 % fail, callers wait as told, %",
            Less(5.0),
            |report| lost(report, 0..150) * 5.0,
        ),
        mean(
            "time until an operation ends, well or not, whose first try failed, mean, s",
            Less(1.0),
            |report| {
                let all = report.rescued.iter().chain(&report.given_up);
                f64::from(all.clone().sum::<f32>()) / all.count() as f64
            },
        ),
    ],
);

#[cfg(test)]
mod tests {
    use governor_tests::sim::{Law, Report, simulate};

    use super::*;

    /// One operation at 1 s; for 5 s the destination asks for 7.
    fn asked_to_wait(caller: Caller) -> Report {
        let backend = Backend::quick().that(|time, _, _| match time {
            5.0.. => Mode::Serve,
            _ => Mode::Asks(7),
        });
        let world = World::single(20, vec![(1.0, 0)], vec![backend], caller);
        simulate(&world, Law::None, 1)
    }

    #[test]
    fn a_caller_that_heeds_comes_back_when_it_was_told() {
        let all = asked_to_wait(TOLD).all;
        assert_eq!((all.load[8], all.good[8]), (1, 1));
        assert_eq!(all.load.iter().sum::<u32>(), 2);
    }

    #[test]
    fn one_that_does_not_has_tried_before() {
        let all = asked_to_wait(Caller::retrying(Jitter::Full)).all;
        assert_eq!(all.load[1..3].iter().sum::<u32>(), 4);
        assert_eq!(all.good.iter().sum::<u32>(), 0);
    }

    #[test]
    fn what_succeeds_after_the_user_has_left_is_for_nobody() {
        let caller = Caller {
            user_leaves: 3.0,
            ..TOLD
        };
        let all = asked_to_wait(caller).all;
        assert_eq!((all.late[8], all.good[8]), (1, 0));
    }
}
