//! One of three backends of a destination fails, in three ways.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};

use governor_tests::service::Service;
use governor_tests::storm::report::{Outcome, Try};

use super::usual::{PORT, RETRIES, governed};
use crate::findings::{Claim, Key, Run, Table};
use crate::measure::{Clock, Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "partial",
    title: "one of three backends fails: refuses, answers 503, does not answer",
    seconds: |length| Times::of(length).end + 6.0,
    play,
};

const CAPACITY: f64 = 400.0;
/// By each of two workloads.
const OFFERED: f64 = 120.0;
/// Which backend fails, of three.
const BAD: u64 = 1;
const BACKENDS: u64 = 3;

/// The three ways, as orders of the service.
const WAYS: [(&str, &str); 3] = [
    ("refuse", "refuses"),
    ("status 503", "answers 503"),
    ("hang", "does not answer"),
];

#[derive(Clone, Copy)]
struct Times {
    /// For each way.
    bad: [(f64, f64); 3],
    end: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let fast = Self {
            bad: [(2.0, 5.0), (6.0, 9.0), (10.0, 13.0)],
            end: 15.0,
        };
        let usual = Self {
            bad: [(5.0, 15.0), (20.0, 30.0), (35.0, 45.0)],
            end: 50.0,
        };
        length.pick(fast, usual, usual)
    }
}

/// A run, and the tries of each of its workloads.
struct Told {
    taken: Taken,
    once: Vec<Try>,
    again: Vec<Try>,
}

/// The backend that a try went to: `--and` of the crowd.
fn backend(each: &Try) -> u64 {
    (each.op + u64::from(each.attempt) - 1) % BACKENDS
}

/// First tries at a good backend that failed, of all there, percent.
fn lost(tries: &[Try]) -> f64 {
    let at_good = tries
        .iter()
        .filter(|each| each.attempt == 1 && backend(each) != BAD);
    let (mut all, mut failed) = (0, 0);
    for each in at_good {
        all += 1;
        failed += u32::from(each.outcome != Outcome::Ok);
    }
    100.0 * f64::from(failed) / f64::from(all)
}

/// Operations that ended well, of those that began in a time.
fn share(clock: Clock, tries: &[Try], (from, to): (f64, f64)) -> f64 {
    let began: HashSet<u64> = tries
        .iter()
        .filter(|each| each.attempt == 1 && (clock.at(from)..clock.at(to)).contains(&each.t))
        .map(|each| each.op)
        .collect();
    let well = tries
        .iter()
        .filter(|each| each.outcome == Outcome::Ok && began.contains(&each.op));
    well.count() as f64 / began.len() as f64
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let with_policy = governed("");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", times),
        || storm(play, Governor::With(&with_policy), "with", times),
    );
    let of =
        |told: &Told, tries: &[Try], way: usize| share(told.taken.clock, tries, times.bad[way]);
    let silent = |told: &Told| {
        let (once, again) = (of(told, &told.once, 2), of(told, &told.again, 2));
        format!("{once:.2}, {again:.2}")
    };
    let mut claims = Vec::new();
    for (way, (_, words)) in WAYS.iter().enumerate() {
        let once = of(&with, &with.once, way);
        claims.extend([
            Claim::at_least(
                format!("with, one {words}: goodput of callers without retries"),
                once,
                0.66,
                "of offered",
            ),
            Claim::at_least(
                format!("with, one {words}: what retries add to it for those who make them"),
                of(&with, &with.again, way) - once,
                0.05,
                "of offered",
            ),
        ]);
    }
    for (who, tries) in [("without", &with.once), ("with", &with.again)] {
        claims.push(Claim::at_most(
            format!("with: first tries at good backends that failed, callers {who} retries"),
            lost(tries),
            1.0,
            "%",
        ));
    }
    let rows = WAYS.iter().enumerate().flat_map(|(way, (_, words))| {
        let row = |who: &str, without: f64, with: f64| {
            vec![
                format!("one {words}, {who}"),
                format!("{without:.3}"),
                format!("{with:.3}"),
            ]
        };
        let once = row(
            "no retries",
            of(&without, &without.once, way),
            of(&with, &with.once, way),
        );
        let again = row(
            "3 retries",
            of(&without, &without.again, way),
            of(&with, &with.again, way),
        );
        [once, again]
    });
    let tables = vec![Table::new(
        &["goodput, of offered", "without", "with"],
        rows,
    )];
    // Their capacity is not the point.
    let run = |told: &Told| Run {
        capacity: Vec::new(),
        ..told.taken.run()
    };
    Found {
        story: format!(
            "Two workloads ask a destination of {BACKENDS} backends {OFFERED} times a second each, in turn. One does \
             not try again, the other three times, 50 ms apart, each at the next backend. One backend refuses from {} \
             to {} s, answers 503 from {} to {} s, and does not answer from {} to {} s; callers wait 1 s.",
            times.bad[0].0, times.bad[0].1, times.bad[1].0, times.bad[1].1, times.bad[2].0, times.bad[2].1,
        ),
        claims,
        runs: vec![run(&without), run(&with)],
        tables,
        key: Some(Key {
            what: "goodput while one of three does not answer, callers without and with retries, of offered"
                .to_owned(),
            without: silent(&without),
            with: silent(&with),
        }),
        notes: vec![
            format!("Refused with the governor: {}.", with.taken.samples.last().map_or_else(String::new, |sample| sample.reasons("service"))),
            "Who has no retries loses the third that went to the bad backend, and no more. Retries are worth what \
             the budget admits: a tenth of the successes and the reserve."
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, times: Times) -> Told {
    play.stage(governor, name, times.end, |stage| {
        let backends: Vec<Service> = (1..=BACKENDS as u8)
            .map(|number| {
                let address: SocketAddr = (Ipv4Addr::new(127, 0, 0, number), PORT).into();
                stage.within(&format!("backend-{number}"), |place| {
                    Service::start_at(address, &format!("--capacity {CAPACITY}"), place)
                })
            })
            .collect();
        stage.begin();
        let load = format!(
            "--rate {OFFERED} --for {}s --connections fresh --and 127.0.0.2:{PORT},127.0.0.3:{PORT}",
            times.end
        );
        let once = stage.crowd("once", PORT, &load);
        let again = stage.crowd("again", PORT, &format!("{load} {RETRIES}"));
        let bad = &backends[BAD as usize];
        for ((order, words), (from, to)) in WAYS.iter().zip(times.bad) {
            stage.until(from);
            bad.order(order);
            stage.until(to);
            bad.order("serve");
            stage.mark(from, to, &format!("one {words}"));
        }
        stage.until(times.end);
        let slots = backends.iter().flat_map(Service::slots).collect();
        let once = once.finish(ENDS_WITHIN).tries;
        let again = again.finish(ENDS_WITHIN).tries;
        let tries = once.iter().chain(&again).cloned().collect();
        Told {
            taken: Taken::down(name, stage, times.end, tries, slots),
            once,
            again,
        }
    })
}
