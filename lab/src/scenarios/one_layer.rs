//! One layer tries again for all: the policy that takes the product out of layered retries.

use std::collections::HashSet;
use std::iter;
use std::time::Duration;

use governor_tests::storm::report::Outcome;
use serde_json::Value;

use super::layers::{CALLED, Calls, Layers, Names};
use super::usual::percent;
use crate::findings::{Claim, Key, Run, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{Governor, Stage, document};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "one-layer",
    title: "three layers that each try 3 times; then the edge alone may try again",
    seconds: |length| Times::of(length).end + 8.0,
    play,
};

const AT_LEAF: &str = "attempts at the leaf for each request of the edge";
const OFFERED: f64 = 25.0;
const CAPACITY: f64 = 1_000.0;
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(1);
/// The edge may add so much, whatever fails: a tenth of what ends well, and no reserve beside it.
const BUDGET: &str = "retryConstraint: {budget: {percent: 10}, minRetryRate: {count: 0}}";
/// What of the leaf's answers are errors when it is unwell, percent: less than the edge may try again, and twice that.
const UNWELL: [u8; 2] = [8, 20];

/// What happens when, in seconds.
#[derive(Clone, Copy)]
struct Times {
    /// All answers of the leaf are errors, while the governor only watches.
    before: (f64, f64),
    /// The policy comes into force.
    policy: f64,
    /// The same once more.
    after: (f64, f64),
    /// Some answers are errors: of each share of [`UNWELL`].
    unwell: [(f64, f64); 2],
    end: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let usual = Self {
            before: (4.0, 10.0),
            policy: 12.0,
            after: (20.0, 28.0),
            unwell: [(38.0, 52.0), (53.0, 67.0)],
            end: 69.0,
        };
        // The policy's destinations are new: before anything is refused, each layer
        // must have seen twenty different requests succeed.
        let fast = Self {
            before: (2.0, 4.0),
            policy: 4.5,
            after: (8.0, 12.0),
            unwell: [(15.0, 25.0), (26.0, 36.0)],
            end: 38.0,
        };
        length.pick(fast, usual, usual)
    }
}

/// What `gain` says of the leaf.
#[derive(Default)]
struct Gain {
    /// The product of the tries that were seen.
    seen: f64,
    /// What of it the policy lets through.
    allowed: f64,
}

/// A run, and what `gain` said before the policy and under it.
struct Told {
    taken: Taken,
    gain: [Gain; 2],
}

impl Told {
    /// Attempts at the leaf for each request of the edge.
    fn each(&self, (from, to): (f64, f64)) -> f64 {
        let (from, to) = (from as usize, to as usize);
        self.taken.load().sum(from, to) / self.taken.offered().sum(from, to)
    }

    /// Of the operations of the edge that began then, those that ended well.
    fn well(&self, (from, to): (f64, f64)) -> f64 {
        let Taken { clock, tries, .. } = &self.taken;
        let within = clock.at(from)..clock.at(to);
        let begun = tries
            .iter()
            .filter(|it| it.attempt == 1 && within.contains(&it.t));
        let begun: HashSet<u64> = begun.map(|it| it.op).collect();
        let well = tries
            .iter()
            .filter(|it| it.outcome == Outcome::Ok && begun.contains(&it.op));
        well.count() as f64 / begun.len() as f64
    }

    /// The same from a trouble's end on, two seconds later, for three.
    fn well_after(&self, (_, end): (f64, f64)) -> f64 {
        self.well((end + 2.0, end + 5.0))
    }

    /// What comes to the leaf, named or not.
    fn at_leaf(&self, times: Times) -> impl Iterator<Item = Claim> {
        let claim = |when: String, measured: f64| {
            let what = format!("{}: {AT_LEAF}, {when}", self.taken.name);
            Claim::at_most(what, measured, 1.1, "")
        };
        let some = UNWELL.iter().zip(times.unwell);
        let some = some.map(move |(share, when)| claim(format!("{share} % fail"), self.each(when)));
        iter::once(claim("all fail".to_owned(), self.each(times.after))).chain(some)
    }

    /// What can be known where operations have names.
    fn known(&self, times: Times) -> Vec<Claim> {
        let name = &self.taken.name;
        let [before, after] = &self.gain;
        let [few, many] = times.unwell;
        let (all, most) = (self.each(times.after), self.each(few).max(self.each(many)));
        vec![
            Claim::that(
                format!("{name}: `gain` before the policy, of 3 x 3 x 3: operations have names"),
                format!("{}", before.seen),
                "27",
                before.seen == 27.0,
            ),
            Claim::at_least(
                format!(
                    "{name}: operations that end well while {} % fail: the edge's tries help",
                    UNWELL[0]
                ),
                self.well(few),
                0.99,
                "of them",
            ),
            // As blip-90s has it: a breaker that was open for long looks after 5 s, or up to half as long again.
            Claim::at_most(
                format!("{name}: until goodput is at 0.95 of offered, and stays"),
                self.taken.back_after(times.after.1),
                10.0,
                "s after all failed",
            ),
            Claim::that(
                format!("{name}: `gain` under the policy"),
                format!("{}, measured {most:.2} and {all:.2}", after.allowed),
                "no less than measured, and at most 0.1 more",
                all <= after.allowed && (0.0..=0.1).contains(&(after.allowed - most)),
            ),
        ]
    }

    /// Its figures, beside those of the other runs.
    fn row(&self, times: Times) -> Vec<String> {
        let [before, after] = &self.gain;
        let gain = |gain: f64| match self.taken.samples.is_empty() {
            true => "-".to_owned(),
            false => format!("{gain}"),
        };
        vec![
            self.taken.name.clone(),
            format!("{:.2}", self.each(times.after)),
            format!("{:.2}", self.each(times.unwell[0])),
            format!("{:.2}", self.each(times.unwell[1])),
            format!("{:.3}", self.well(times.unwell[0])),
            format!("{:.3}", self.well(times.unwell[1])),
            format!("{:.3}", self.well_after(times.after)),
            gain(before.seen),
            gain(after.allowed),
        ]
    }
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let watching = document("watching", "Audit", &CALLED, "");
    let governor = Governor::With(&watching);
    let (without, (with, unnamed)) = beside(
        || storm(play, Governor::Without, "without", Names::Key, times),
        || {
            beside(
                || storm(play, governor, "with", Names::Key, times),
                || storm(play, governor, "with, no names", Names::None, times),
            )
        },
    );
    let mut claims = vec![Claim::at_least(
        format!("without: {AT_LEAF}, all fail"),
        without.each(times.after),
        20.0,
        "",
    )];
    claims.extend(with.at_leaf(times));
    claims.extend(with.known(times));
    claims.extend(unnamed.at_leaf(times));
    let [few, many] = UNWELL.map(|share| format!("{share} % fail"));
    let well = UNWELL.map(|share| format!("end well while {share} % fail"));
    let columns = [
        "",
        "attempts at the leaf per request of the edge, all fail",
        &few,
        &many,
        &well[0],
        &well[1],
        "end well 2 to 5 s after all failed",
        "`gain` before the policy",
        "under it",
    ];
    let rows = [&without, &with, &unnamed].map(|told| told.row(times));
    let [soon_without, soon_with] = [&without, &with].map(|told| told.well_after(times.after));
    Found {
        story: format!(
            "The edge asks mid-1 {OFFERED} times a second, which asks mid-2, which asks the leaf. Each tries up to \
             {TRIES} times, 50 ms apart. All answers of the leaf are 503 from {} to {} s, while the governor only \
             watches, and from {} to {} s, when its policy is that mid-1 and mid-2 may not try again and the edge a \
             tenth of what ends well, with no reserve. From {} to {} s {} % of its answers are, then to {} s {} %. \
             The tries of one operation of mid-1 or mid-2 carry its idempotency-key, as SDKs do it; in a third run \
             nothing names them.",
            times.before.0,
            times.before.1,
            times.after.0,
            times.after.1,
            times.unwell[0].0,
            times.unwell[0].1,
            UNWELL[0],
            times.unwell[1].1,
            UNWELL[1],
        ),
        claims,
        key: Some(Key {
            what: format!(
                "attempts at the leaf for each request of the edge, all fail (with: {} % fail); `gain`, named operations",
                UNWELL[1]
            ),
            without: format!("{:.1}, {}", without.each(times.after), with.gain[0].seen),
            with: format!(
                "{:.2} ({:.2}), {}",
                with.each(times.after),
                with.each(times.unwell[1]),
                with.gain[1].allowed
            ),
        }),
        // The leaf's capacity is not the point.
        runs: [without, with, unnamed]
            .iter()
            .map(|told| Run {
                capacity: Vec::new(),
                ..told.taken.run()
            })
            .collect(),
        tables: vec![Table::new(&columns, rows)],
        notes: vec![
            "A limit, and not claimed for the run without names: mid-1 that asks again because the edge did sends the \
             same bytes as mid-1 that tries again by itself, and nothing on the wire tells them apart. So `gain` counts \
             the tries of layers above once more (the table says how much), and a layer that may not try again does not pass on what the edge \
             tries again: the load is as small, the edge's retries do not help. Who wants both names operations."
                .to_owned(),
            format!(
                "What it costs here: of the operations that begin 2 to 5 s after all failed {} end well without the \
                 governor, {} with it. This leaf is not overloaded, only its answers are errors, so nothing need be \
                 spared; breakers that were open for so long look every 5 to 7.5 s whether it is back.",
                percent(soon_without),
                percent(soon_with),
            ),
        ],
        ..Found::default()
    }
}

/// The edge may try again; mid-1 and mid-2 fail fast.
fn one_layer() -> String {
    let edge = document("edge", "Enforce", &CALLED, BUDGET);
    let inner = document(
        "fail-fast",
        "Enforce",
        &CALLED,
        "workloads: [{cgroup: /mid-*.service}], retry: {attempts: 0}",
    );
    format!("{edge}---\n{inner}")
}

fn gain(stage: &Stage<'_>) -> Gain {
    let Some(told) = stage.order("gain --json") else {
        return Gain::default();
    };
    let told: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
    let mut destinations = told["destinations"].as_array().into_iter().flatten();
    let leaf = destinations.find(|it| it["destination"] == CALLED[2].0);
    let leaf = leaf.cloned().unwrap_or_default();
    let multiplier = |which: &str| leaf[which]["multiplier"].as_f64().unwrap_or(f64::NAN);
    Gain {
        seen: multiplier("worstCase"),
        allowed: multiplier("allowed"),
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, names: Names, times: Times) -> Told {
    let calls = Calls {
        tries: TRIES,
        patience: PATIENCE,
        names,
    };
    play.stage(governor, name, times.end, |stage| {
        let layers = Layers::start(stage, calls, CAPACITY);
        let fail = |(from, to): (f64, f64), how: &str, label: &str| {
            stage.until(from);
            layers.leaf.order(how);
            stage.mark(from, to, label);
            stage.until(to);
            layers.leaf.order("serve");
        };
        stage.begin();
        let load = Layers::load(stage, calls, OFFERED, times.end);
        fail(times.before, "status 503", "all fail");
        let before = gain(stage);
        stage.until(times.policy);
        stage.set_policy(&one_layer());
        stage.mark(times.policy, times.policy, "one layer");
        fail(times.after, "status 503", "all fail");
        for (share, when) in UNWELL.iter().zip(times.unwell) {
            fail(
                when,
                &format!("status 503 {share}"),
                &format!("{share} % fail"),
            );
        }
        let after = gain(stage);
        stage.until(times.end);
        let (tries, slots) = layers.finish(load);
        Told {
            taken: Taken::down(name, stage, times.end, tries, slots),
            gain: [before, after],
        }
    })
}
