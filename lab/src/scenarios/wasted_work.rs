//! A service that works for callers who have gone.

use std::collections::HashMap;

use governor_tests::storm::report::Outcome;

use super::stalled::Stalled;
use super::usual::{SERVICE, governed, percent};
use crate::findings::{Claim, Key, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::Governor;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "wasted-work",
    title: "how much of the service's work is for callers who have gone",
    seconds: |length| 2.0 * (end(length) + 6.0),
    play,
};

const CAPACITY: f64 = 400.0;
const OFFERED: f64 = 200.0;
const STALL: (f64, f64) = (3.0, 5.0);
/// How callers try: exponential, as most libraries do, and longer than anybody waits for it.
const CALLERS: &str = "--retry exponential --tries 6 --delay 100ms";
/// The users behind the callers leave after so long, seconds; a caller, who waits as long for each try, does not
/// know it. One try fits into it.
const PATIENCE: f64 = 1.0;
/// Two tries fit into this: twice what is offered is all that the service can do.
const LONGER: f64 = 2.2;

fn end(length: Length) -> f64 {
    // What the stall wastes before anybody can know of it needs a while of good work beside it.
    length.pick(25.0, 40.0, 60.0)
}

/// A policy whose deadline is the users' patience.
fn deadline(patience: f64) -> String {
    format!("retry: {{deadline: {patience}s}}")
}

/// The same, and no other rule that could refuse.
fn deadline_alone(patience: f64) -> String {
    format!(
        "retry: {{deadline: {patience}s, attempts: 10}}, circuitBreaker: {{mode: Disabled}}, \
         concurrency: {{mode: Disabled}}, retryConstraint: {{mode: Disabled}}, \
         pushback: {{honorRetryAfter: false}}"
    )
}

/// One run, and how long its users stay.
struct Storm {
    taken: Taken,
    patience: f64,
}

/// What the service worked off from the stall on.
struct Work {
    all: f64,
    /// For nobody: the try was over, or the user behind it had left.
    wasted: f64,
}

impl Storm {
    fn work(&self) -> Work {
        let taken = &self.taken;
        let first = taken.tries.iter().filter(|each| each.attempt == 1);
        let began: HashMap<_, _> = first.map(|each| (each.op, each.t)).collect();
        let patience = (self.patience * 1e6) as u64;
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
        Work {
            all: (answered + gone) as f64,
            wasted: gone as f64 + late,
        }
    }

    /// Retries that were refused since their chain was older than the deadline.
    fn refused(&self) -> f64 {
        let last = self.taken.samples.last();
        let denied = last.and_then(|it| it.destination(SERVICE.0)?["denied"]["deadline"].as_u64());
        denied.unwrap_or_default() as f64
    }

    /// Goodput from 5 s after the stall on, of what is offered.
    fn after(&self) -> f64 {
        let end = self.taken.clock.length as usize;
        self.taken.share(STALL.1 as usize + 5, end)
    }

    fn row(&self) -> Vec<String> {
        let work = self.work();
        vec![
            self.taken.name.clone(),
            format!("{:.0}", work.all),
            format!("{:.0}", work.wasted),
            percent(work.share()),
            percent(self.after()),
            format!("{:.0}", self.refused()),
        ]
    }
}

impl Work {
    fn share(&self) -> f64 {
        self.wasted / self.all
    }
}

fn play(play: &Play<'_>) -> Found {
    let length = end(play.length);
    let whole = governed(&deadline(PATIENCE));
    let alone = governed(&deadline_alone(PATIENCE));
    let longer = governed(&deadline_alone(LONGER));
    let storm = |governor, name, patience| storm(play, governor, name, patience, length);
    let (without, with_deadline) = beside(
        || storm(Governor::Without, "without", PATIENCE),
        || storm(Governor::With(&alone), "deadline alone", PATIENCE),
    );
    let (with, two_tries) = beside(
        || storm(Governor::With(&whole), "with", PATIENCE),
        || {
            let name = "deadline alone, users stay for two tries";
            storm(Governor::With(&longer), name, LONGER)
        },
    );
    let share = |storm: &Storm| storm.work().share();
    let claims = vec![
        Claim::at_least(
            "without: work that was wasted",
            share(&without),
            0.9,
            "of all",
        ),
        Claim::at_least(
            "less of the work is wasted with deadlines refused, and no other rule in force",
            share(&without) / share(&with_deadline),
            10.0,
            "times",
        ),
        Claim::at_least(
            "less of the work is wasted with all rules in force",
            share(&without) / share(&with),
            10.0,
            "times",
        ),
        Claim::at_least(
            "deadline alone: goodput from 5 s after the stall on",
            with_deadline.after(),
            0.95,
            "of offered",
        ),
        Claim::at_least(
            "with: goodput from 5 s after the stall on",
            with.after(),
            0.95,
            "of offered",
        ),
        Claim::at_least(
            "with: retries refused whose user had left, before another rule refused them",
            with.refused(),
            1.0,
            "",
        ),
    ];
    let note = format!(
        "A limit: a deadline can refuse only tries after the first, and ends a storm where those that fit into it are \
         not more than the service can do. Where users stay {LONGER} s two tries fit, {} a second of the {CAPACITY} \
         that it can do, and the deadline alone leaves {} of the work wasted: breaker and budget are for that. What is \
         in the queue when the stall ends is worked off for nobody, whoever refuses what.",
        2.0 * OFFERED,
        percent(share(&two_tries)),
    );
    let runs = [without, with_deadline, with, two_tries];
    Found {
        story: format!(
            "A service that answers {CAPACITY} requests a second is asked for {OFFERED} a second and stalls for {} s. \
             Callers wait 1 s and try again five times, after 100 ms and then twice as long each time; the users \
             behind them leave after {PATIENCE} s, which they do not know. The policy does: its deadline is {PATIENCE} \
             s. Work is wasted where its try was over or its user gone. All work from the beginning of the stall on is \
             counted.",
            STALL.1 - STALL.0,
        ),
        claims,
        tables: vec![Table::new(
            &[
                "",
                "worked off",
                "of that wasted",
                "share",
                "goodput from 5 s after the stall on",
                "refused: deadline",
            ],
            runs.iter().map(Storm::row),
        )],
        key: Some(Key {
            what: "work for callers who had gone (deadlines alone; all rules)".to_owned(),
            without: percent(share(&runs[0])),
            with: format!("{}; {}", percent(share(&runs[1])), percent(share(&runs[2]))),
        }),
        runs: runs.iter().map(|it| it.taken.run()).collect(),
        notes: vec![
            note,
            "With all rules somewhat more is wasted than with the deadline alone. Whom the breaker refused has sent \
             nothing yet: what comes of it later is a first try to the law, whose user may have left. When the \
             breaker closes they come together."
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, patience: f64, length: f64) -> Storm {
    let storm = Stalled {
        callers: CALLERS,
        capacity: CAPACITY,
        offered: OFFERED,
        stall: STALL,
        length,
    };
    Storm {
        taken: storm.play(play, governor, name),
        patience,
    }
}
