//! A service that works for callers who have gone.

use std::collections::HashMap;

use governor_tests::storm::report::Outcome;

use super::stalled::Stalled;
use super::usual::{governed, percent};
use crate::findings::{Claim, Key, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::Governor;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "wasted-work",
    title: "how much of the service's work is for callers who have gone",
    seconds: |length| length.pick(1.0, 2.0, 2.0) * (end(length) + 6.0),
    play,
};

const CAPACITY: f64 = 400.0;
const OFFERED: f64 = 320.0;
const STALL: (f64, f64) = (3.0, 6.0);
/// The users behind the callers leave after so long, seconds; a caller does not know it.
const PATIENCE: f64 = 2.0;
const DEADLINE: &str = "retry: {deadline: 2s}";
const DEADLINE_ALONE: &str = "retry: {deadline: 2s, attempts: 10}, circuitBreaker: {mode: Disabled}, \
                              concurrency: {mode: Disabled}, retryConstraint: {mode: Disabled}";

fn end(length: Length) -> f64 {
    // What the stall wastes before anybody can know of it needs a while of good work beside it.
    length.pick(20.0, 40.0, 60.0)
}

/// What the service worked off from the stall on.
struct Work {
    all: f64,
    /// For nobody: the try was over, or the user behind it had left.
    wasted: f64,
}

impl Work {
    fn of(taken: &Taken) -> Self {
        let first = taken.tries.iter().filter(|each| each.attempt == 1);
        let began: HashMap<_, _> = first.map(|each| (each.op, each.t)).collect();
        let patience = (PATIENCE * 1e6) as u64;
        let (from, to) = (taken.clock.at(STALL.0), taken.clock.at(taken.clock.length));
        let ended_late = taken.tries.iter().filter(|each| {
            let end = each.t + each.micros;
            each.outcome == Outcome::Ok
                && (from..to).contains(&end)
                && began.get(&each.op).is_some_and(|t| end > t + patience)
        });
        let late = ended_late.count() as f64;
        let slots = taken
            .slots
            .iter()
            .filter(|slot| (from..to).contains(&slot.t));
        let (answered, gone) = slots.fold((0, 0), |(answered, gone), slot| {
            (answered + slot.answered, gone + slot.wasted)
        });
        Self {
            all: (answered + gone) as f64,
            wasted: gone as f64 + late,
        }
    }

    fn share(&self) -> f64 {
        self.wasted / self.all
    }
}

fn play(play: &Play<'_>) -> Found {
    let length = end(play.length);
    let with_policy = governed(DEADLINE);
    let deadline_alone = governed(DEADLINE_ALONE);
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", length),
        || storm(play, Governor::With(&with_policy), "with", length),
    );
    let mut runs = vec![without, with];
    if play.length != Length::Fast {
        let governor = Governor::With(&deadline_alone);
        runs.push(storm(play, governor, "with, deadline alone", length));
    }
    let work: Vec<_> = runs.iter().map(Work::of).collect();
    let percent = |work: &Work| percent(work.share());
    let late = |taken: &Taken| {
        let last = taken.samples.last();
        let denied = last.and_then(|it| it.destination("service")?["denied"]["deadline"].as_u64());
        denied.unwrap_or_default() as f64
    };
    let rows = runs.iter().zip(&work).map(|(run, work)| {
        vec![
            run.name.clone(),
            format!("{:.0}", work.all),
            format!("{:.0}", work.wasted),
            percent(work),
            format!("{:.0}", late(run)),
        ]
    });
    let after = STALL.1 as usize;
    let mut claims = vec![
        Claim::at_least(
            "without: work that was wasted",
            work[0].share(),
            0.5,
            "of all",
        ),
        Claim::at_least(
            "less of the work is wasted with the governor, all rules in force",
            work[0].share() / work[1].share(),
            10.0,
            "times",
        ),
        Claim::at_least(
            "with: goodput from 5 s after the stall on",
            runs[1].share(after + 5, length as usize),
            0.95,
            "of offered",
        ),
    ];
    let mut notes = vec![
        "The deadline alone does not end the storm: the second try begins before it, and two tries of each are \
         more than the service can do. With all rules the load is small before a deadline is reached: the breaker \
         and the budget save the work, the deadline is what is left for callers who wait longer."
            .to_owned(),
    ];
    if let (Some(alone), Some(spent)) = (runs.get(2), work.get(2)) {
        notes.push(format!(
            "Ten times less is claimed of all rules together, not of refusing what is past its deadline: alone that \
             leaves {} of the work wasted, where {} are without the governor.",
            percent(spent),
            percent(&work[0]),
        ));
        let what = "with, deadline alone: retries refused whose user had left";
        claims.push(Claim::at_least(what, late(alone), 1.0, ""));
    }
    Found {
        story: format!(
            "A service that answers {CAPACITY} requests a second is asked for {OFFERED} a second and stalls for {} s. \
             Callers wait 1 s and try again after 50 ms, three times; the users behind them leave after {PATIENCE} s, \
             which they do not know. The policy does: its deadline is {PATIENCE} s. Work is wasted where its try was \
             over or its user gone. All work from the beginning of the stall on is counted.",
            STALL.1 - STALL.0,
        ),
        claims,
        tables: vec![Table::new(
            &[
                "",
                "worked off",
                "of that wasted",
                "share",
                "refused: deadline",
            ],
            rows,
        )],
        key: Some(Key {
            what: "work for callers who had gone".to_owned(),
            without: percent(&work[0]),
            with: percent(&work[1]),
        }),
        runs: runs.iter().map(Taken::run).collect(),
        notes,
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, length: f64) -> Taken {
    let storm = Stalled {
        capacity: CAPACITY,
        offered: OFFERED,
        stall: STALL,
        length,
    };
    storm.play(play, governor, name)
}
