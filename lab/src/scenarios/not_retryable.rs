//! Callers try again what will not be answered otherwise, or may not be done twice; others have good
//! reasons to ask again.

use std::time::Duration;

use governor_tests::service::Service;
use governor_tests::storm::report::{Outcome, Try};

use crate::findings::{Claim, Key, Run, Table};
use crate::measure::{Clock, Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor, policy};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "not-retryable",
    title: "400, 422 and POST are tried again; 404, 409, 412 and 423 are polled on",
    seconds: |length| Times::of(length).end + 6.0,
    play,
};

const FIRST_PORT: u16 = 8080;

/// What is to come of the repeats of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// They do not reach the service.
    Gone,
    /// All of them do.
    Untouched,
    /// All of them do from the second on that follows the first answer.
    SoonUntouched,
}

/// A workload and the service that it asks.
struct Case {
    name: &'static str,
    words: &'static str,
    /// What the service does, from some moment on.
    order: &'static str,
    load: &'static str,
    /// Another load of the same workload, from that moment on.
    then: Option<&'static str>,
    wanted: Wanted,
}

const CASES: [Case; 14] = [
    Case {
        name: "named-400",
        words: "400, operations have a key",
        order: "status 400",
        load: "--rate 10 --codes 400 --retry naive --tries 4 --delay 100ms --idempotency-key",
        then: None,
        wanted: Wanted::Gone,
    },
    Case {
        name: "named-422",
        words: "POST, 422, operations have a key",
        order: "status 422",
        load: "--rate 10 --method POST --body 64 --codes 422 --retry exponential --tries 4 --delay 50ms --idempotency-key",
        then: None,
        wanted: Wanted::Gone,
    },
    Case {
        name: "equal-400",
        words: "400, nothing names operations",
        order: "status 400",
        load: "--rate 10 --codes 400 --retry naive --tries 4 --delay 100ms",
        then: None,
        wanted: Wanted::Gone,
    },
    Case {
        name: "equal-422",
        words: "POST, 422, nothing names operations",
        order: "status 422",
        load: "--rate 10 --method POST --body 64 --codes 422 --retry exponential --tries 4 --delay 50ms",
        then: None,
        wanted: Wanted::Gone,
    },
    Case {
        name: "post-hangs",
        words: "POST, a fifth is not answered",
        order: "hang 20",
        load: "--rate 30 --method POST --body 64 --retry naive --tries 4 --delay 100ms --answer-timeout 300ms",
        then: None,
        wanted: Wanted::Gone,
    },
    Case {
        name: "post-500",
        words: "POST, a fifth is answered 500",
        order: "status 500 20",
        load: "--rate 30 --method POST --body 64 --retry naive --tries 4 --delay 100ms",
        then: None,
        wanted: Wanted::Gone,
    },
    Case {
        name: "polls-404",
        words: "404, asked again until it is there",
        order: "status 404",
        load: "--rate 5 --codes 404 --retry naive --tries 5 --delay 200ms",
        then: None,
        wanted: Wanted::Untouched,
    },
    Case {
        name: "races-409",
        words: "PUT, 409, raced on",
        order: "status 409",
        load: "--rate 5 --method PUT --body 64 --codes 409 --retry naive --tries 5 --delay 100ms",
        then: None,
        wanted: Wanted::Untouched,
    },
    Case {
        name: "races-412",
        words: "PUT, 412, raced on",
        order: "status 412",
        load: "--rate 5 --method PUT --body 64 --codes 412 --retry naive --tries 5 --delay 100ms",
        then: None,
        wanted: Wanted::Untouched,
    },
    Case {
        name: "waits-423",
        words: "POST, 423, waits for the lock",
        order: "status 423",
        load: "--rate 5 --method POST --body 64 --codes 423 --retry naive --tries 5 --delay 200ms",
        then: None,
        wanted: Wanted::Untouched,
    },
    Case {
        name: "checks-405",
        words: "a health check that gets 405 for life",
        order: "status 405",
        load: "--rate 10 --arrivals even --path /health",
        then: None,
        wanted: Wanted::Untouched,
    },
    Case {
        name: "mixed-405",
        words: "the same of a workload whose requests differ",
        order: "status 405",
        load: "--rate 10",
        then: Some("--rate 10 --arrivals even --path /health"),
        wanted: Wanted::Untouched,
    },
    Case {
        name: "mixed-400",
        words: "the same, 400 for life",
        order: "status 400",
        load: "--rate 10",
        then: Some("--rate 10 --arrivals even --path /health"),
        wanted: Wanted::SoonUntouched,
    },
    Case {
        name: "form-422",
        words: "a form that is sent again 2 s after a 422",
        order: "status 422",
        load: "--rate 5 --method POST --body 64 --codes 422 --retry naive --tries 2 --delay 2s",
        then: None,
        wanted: Wanted::Untouched,
    },
];

#[derive(Clone, Copy)]
struct Times {
    /// From then on the services answer as the case says: healthy requests were seen before.
    from: f64,
    end: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let fast = Self {
            from: 5.0,
            end: 11.0,
        };
        let usual = Self {
            from: 8.0,
            end: 24.0,
        };
        length.pick(fast, usual, usual)
    }
}

/// What one case came to, from the moment on.
struct Came {
    /// Requests at the service that a caller had sent before.
    repeats: f64,
    /// First tries that were not answered by the service.
    first_refused: usize,
    /// Tries that were not.
    refused: usize,
    /// From the first to the last of them, seconds.
    refused_for: f64,
    tries: usize,
    /// Why, as the governor counts it.
    reasons: String,
}

/// A run, case by case.
struct Told {
    taken: Taken,
    cases: Vec<Came>,
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let all = policy(&[], "");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", times),
        || storm(play, Governor::With(&all), "with", times),
    );
    let mut claims = Vec::new();
    let mut rows = Vec::new();
    for (case, (before, after)) in CASES.iter().zip(without.cases.iter().zip(&with.cases)) {
        let words = case.words;
        rows.push(vec![
            words.to_owned(),
            format!("{}", before.repeats),
            format!("{}", after.repeats),
            format!("{} of {}", after.refused, after.tries),
            format!("{}", after.first_refused),
            after.reasons.clone(),
        ]);
        match case.wanted {
            Wanted::Gone => claims.push(Claim::at_least(
                format!("{words}: fewer repeats at the service"),
                100.0 * (1.0 - after.repeats / before.repeats),
                95.0,
                "%",
            )),
            Wanted::Untouched => claims.push(Claim::at_most(
                format!("{words}: tries refused"),
                after.refused as f64,
                0.0,
                "",
            )),
            Wanted::SoonUntouched => claims.push(Claim::at_most(
                format!("{words}: from the first to the last refusal"),
                after.refused_for,
                1.0,
                "s",
            )),
        }
    }
    let others = CASES.iter().zip(&with.cases);
    let others = others.filter(|(case, _)| case.wanted != Wanted::SoonUntouched);
    let first: usize = others.map(|(_, came)| came.first_refused).sum();
    claims.push(Claim::at_most(
        "first tries refused, of all but the health check that gets 400",
        first as f64,
        0.0,
        "",
    ));
    let gone = |told: &Told| {
        let cases = CASES.iter().zip(&told.cases);
        let gone = cases.filter(|(case, _)| case.wanted == Wanted::Gone);
        gone.map(|(_, came)| came.repeats).sum::<f64>()
    };
    // Their capacity is not the point.
    let run = |told: &Told| Run {
        capacity: Vec::new(),
        ..told.taken.run()
    };
    Found {
        story: format!(
            "Each of {} workloads asks a service of its own, and all goes well for {} s. Then the services answer as \
             the table says, all of the time where it does not say how often, and callers try again as theirs do.",
            CASES.len(),
            times.from,
        ),
        claims,
        runs: vec![run(&without), run(&with)],
        tables: vec![Table::new(
            &[
                "",
                "repeats, without",
                "repeats, with",
                "tries refused, with",
                "first tries among them",
                "why",
            ],
            rows,
        )],
        key: Some(Key {
            what: "repeats that should not be at the services".to_owned(),
            without: format!("{}", gone(&without)),
            with: format!("{}", gone(&with)),
        }),
        notes: vec![
            "First tries that are refused, where there are any, are the limiter's (see why): a fifth of the answers is \
             missing, and on a busy machine the latency of the others grows for three ticks of three answers each."
                .to_owned(),
            "Where nothing names an operation, an equal request is refused for a second after an answer about what is \
             written in it (400, 411, 413, 414, 415, 422, 431). What is sent later comes by itself, as far as anyone \
             can tell, and is refused no more: so does a poller that gets such an answer for life. After any other 4xx \
             (a health check that gets 405) only what names the operation decides: an idempotency key, an SDK's \
             invocation."
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, times: Times) -> Told {
    play.stage(governor, name, times.end, |stage| {
        let ports = FIRST_PORT..;
        let services: Vec<Service> = CASES
            .iter()
            .zip(ports.clone())
            .map(|(case, port)| {
                stage.service(&format!("{}-service", case.name), port, "--capacity 2000")
            })
            .collect();
        stage.begin();
        let crowd = |case: &Case, port, load, seconds| {
            let load = format!("{load} --for {seconds}s --connections pool");
            stage.crowd(case.name, port, &load)
        };
        let mut crowds: Vec<_> = CASES
            .iter()
            .zip(ports.clone())
            .map(|(case, port)| vec![crowd(case, port, case.load, times.end)])
            .collect();
        stage.until(times.from);
        for ((case, port), service) in CASES.iter().zip(ports).zip(&services) {
            service.order(case.order);
            if let Some(load) = case.then {
                let load = crowd(case, port, load, times.end - times.from);
                crowds[usize::from(port - FIRST_PORT)].push(load);
            }
        }
        stage.mark(times.from, times.end, "not retryable");
        stage.until(times.end);
        let clock = Clock {
            start: stage.start() + Duration::from_secs_f64(times.from).as_micros() as u64,
            length: times.end - times.from,
        };
        let status = stage.status();
        let mut cases = Vec::new();
        let (mut tries, mut slots) = (Vec::new(), Vec::new());
        for (crowds, service) in crowds.into_iter().zip(&services) {
            let own: Vec<_> = crowds
                .into_iter()
                .flat_map(|crowd| crowd.finish(ENDS_WITHIN).tries)
                .collect();
            let told = service.slots();
            let repeats = told.iter().map(|slot| (slot.t, slot.repeats as f64));
            cases.push(Came {
                repeats: clock.count(clock.length, repeats).0[0],
                first_refused: own
                    .iter()
                    .filter(|each| each.attempt == 1 && refused(each))
                    .count(),
                refused: own.iter().filter(|each| refused(each)).count(),
                refused_for: time_of(own.iter().filter(|each| refused(each))),
                tries: own.len(),
                reasons: status.as_ref().map_or_else(String::new, |sample| {
                    sample.reasons(&service.address().to_string())
                }),
            });
            tries.extend(own);
            slots.extend(told);
        }
        Told {
            taken: Taken::down(name, stage, times.end, tries, slots),
            cases,
        }
    })
}

/// By the governor: the services refuse nobody.
fn refused(each: &Try) -> bool {
    each.denied || each.outcome == Outcome::Refused
}

/// From the first to the last, seconds.
fn time_of<'a>(tries: impl Iterator<Item = &'a Try> + Clone) -> f64 {
    let times = tries.map(|each| each.t);
    let first = times.clone().min().unwrap_or(0);
    times.max().unwrap_or(0).saturating_sub(first) as f64 / 1e6
}
