//! What became of the day.

use std::collections::BTreeMap;
use std::time::Duration;

use governor_tests::real_clients::{End, RealClient};
use governor_tests::storm::report::{Outcome, Try};
use serde::Deserialize;
use serde_json::Value;

use crate::findings::Claim;
use crate::measure::Taken;
use crate::stage::{ENDS_WITHIN, Stage};
use crate::watch::Sample;

use super::day::{HANG, HANGS_AT};
use super::loads::{Away, BACKENDS, Loads, Services};
use super::{none, refused};

/// Destinations where something fails on purpose; everything else is well.
pub const TROUBLED: [&str; 6] = [
    "polls-and-calls",
    "deployed",
    "partial",
    "half",
    "thirds",
    "guessed",
];
/// Loads on them.
const TROUBLED_LOADS: [&str; 10] = [
    "calls",
    "deployed-1",
    "deployed-2",
    "deployed-3",
    "partial-2",
    "partial-3",
    "half-2",
    "thirds-2",
    "thirds-3",
    "guessed-3",
];
/// After a hang has ended its last callers give up, seconds.
const OVER: f64 = 2.0;
/// So long after that a limiter which parks no long poll still refused nearly everything (docs/law.md).
const AFTER: f64 = 30.0;

/// A day, and how each load fared.
pub struct Day {
    /// The workload of the chart.
    pub taken: Taken,
    tries: BTreeMap<String, Vec<Try>>,
    /// Loads that are not of storm clients.
    pub others: BTreeMap<String, Fared>,
    /// When servers were away.
    pub away: Vec<Away>,
    /// When it was over.
    pub last: Option<Sample>,
}

/// Operations of a load that is not of storm clients.
#[derive(Debug, Deserialize)]
pub struct Fared {
    /// All.
    pub ended: usize,
    /// Those that did not end well.
    pub failed: usize,
    why: Vec<String>,
}

impl Day {
    /// Waits for the end of all loads.
    pub fn of(
        name: &str,
        stage: &Stage<'_>,
        length: f64,
        services: &Services,
        loads: Loads,
    ) -> Self {
        let slots = services.web.slots();
        let mut tries = BTreeMap::new();
        for (name, storms) in loads.storms {
            let all = storms
                .into_iter()
                .flat_map(|storm| storm.finish(ENDS_WITHIN).tries);
            tries.insert(name, all.collect::<Vec<_>>());
        }
        let mut others = BTreeMap::new();
        for (name, load) in loads.peers {
            let output = load.finish(ENDS_WITHIN).expect_success().stdout;
            let fared = serde_json::from_str(&output);
            others.insert(
                name.to_owned(),
                fared.unwrap_or_else(|_| Fared::not(&output)),
            );
        }
        for (client, load) in loads.real {
            // Some take seconds to start.
            let output = load.finish(ENDS_WITHIN * 2).expect_success().stdout;
            others.insert(format!("{client:?}"), Fared::of(&output));
        }
        // What is on its way is told within a second.
        std::thread::sleep(Duration::from_secs(1));
        let last = stage.status();
        let web = tries.remove("web").unwrap_or_default();
        Self {
            taken: Taken::down(name, stage, length, web, slots),
            tries,
            others,
            away: loads.away,
            last,
        }
    }

    /// What must be so where nothing fails.
    pub fn healthy(&self, without: &Self) -> Vec<Claim> {
        let mut claims = refused::judge_peace(self);
        claims.extend([
            none(
                "attempts denied there, of whatever kind, by the governor's count",
                self.found(|it| &it["denied"]),
            ),
            none(
                "operations that failed there, as their callers saw it",
                self.failed(),
            ),
            Claim::at_most(
                "nothing is delayed: how much longer an operation of the chart's workload takes, median",
                self.median() - without.median(),
                1.0,
                "ms",
            ),
        ]);
        claims
    }

    /// What must be so where something does fail.
    pub fn troubled(&self, without: &Self) -> Vec<Claim> {
        let clock = self.taken.clock;
        let from = HANGS_AT * clock.length + HANG + OVER;
        let share = |day: &Self| {
            let calls = day.tries_of("calls");
            let clock = day.taken.clock;
            let after = clock.at(from)..clock.at(from + AFTER);
            let late: Vec<_> = calls
                .iter()
                .filter(|each| after.contains(&each.t))
                .collect();
            let well = late
                .iter()
                .filter(|each| each.outcome == Outcome::Ok)
                .count();
            well as f64 / late.len() as f64
        };
        let lost_at = |day: &Self, loads: &[&str]| {
            let lost = loads.iter().map(|load| lost(day.tries_of(load)));
            lost.sum::<usize>() as f64
        };
        let spared = |what: &str, loads: &[&str]| {
            Claim::at_most(
                format!("{what} (without: {})", lost_at(without, loads)),
                lost_at(self, loads),
                0.0,
                "operations",
            )
        };
        let well = |day: &Self| {
            let tries = day.deployed().into_iter().flatten();
            tries.filter(|each| each.outcome == Outcome::Ok).count() as f64
        };
        let mut claims = vec![
            Claim::at_least(
                format!(
                    "long polls and calls that hang for {HANG} s: goodput of calls in the {AFTER} s from {OVER} s after it (without: {:.3})",
                    share(without)
                ),
                share(self),
                0.99,
                "of offered",
            ),
            spared(
                "one of three backends refuses, one hangs: lost at the third",
                &["partial-1"],
            ),
            spared(
                "one of two backends refuses, 20/s: lost at the other",
                &["half-1"],
            ),
            spared(
                "two of three backends refuse, 300/s: lost at the third",
                &["thirds-1"],
            ),
            spared(
                "one of three backends refuses, 1,000/s without retries: lost at the others",
                &["guessed-1", "guessed-2"],
            ),
            Claim::at_least(
                "servers restarted one by one: operations that ended well",
                well(self) / well(without),
                0.999,
                "x without",
            ),
        ];
        claims.extend(refused::judge_trouble(self));
        claims
    }

    /// What a reader may want to know.
    pub fn told(&self) -> String {
        let tries = self
            .tries
            .iter()
            .map(|(name, tries)| format!("{name} {}", tries.len()));
        let others = self
            .others
            .iter()
            .map(|(name, fared)| format!("{name} {}", fared.ended));
        let loads: Vec<_> = tries.chain(others).collect();
        let trouble: Vec<_> = self
            .destinations()
            .filter(|it| TROUBLED.contains(&it["destination"].as_str().unwrap_or_default()))
            .map(|it| format!("{} at {}", named_counts(&it["denied"]), named(it)))
            .collect();
        let mistaken = self.found(|it| &it["failures"]);
        format!(
            "Tries by load, beside those of the chart: {}. Denied where something failed: {}. Counted as failures \
             although none were, and without consequence: {} (a last word on which the server closes first).",
            loads.join(", "),
            trouble.join("; "),
            mistaken.join(", "),
        )
    }

    /// Counts that are not zero at destinations that are well.
    pub fn found(&self, count: impl Fn(&Value) -> &Value) -> Vec<String> {
        let found = self.well().filter(|it| sum(count(it)) > 0);
        found
            .map(|it| format!("{} at {}", named_counts(count(it)), named(it)))
            .collect()
    }

    fn destinations(&self) -> impl Iterator<Item = &Value> {
        self.last.iter().flat_map(Sample::destinations)
    }

    /// Destinations that are well.
    fn well(&self) -> impl Iterator<Item = &Value> {
        self.destinations()
            .filter(|it| !TROUBLED.contains(&it["destination"].as_str().unwrap_or_default()))
    }

    /// Loads that lost something where nothing fails, and how much.
    fn failed(&self) -> Vec<String> {
        let failed = self.well_loads().filter(|(_, tries)| lost(tries) > 0);
        let failed = failed.map(|(name, tries)| {
            format!(
                "{} of {} of {name} ({})",
                lost(tries),
                tries.len(),
                ends(tries)
            )
        });
        let others = self
            .others
            .iter()
            .filter(|(_, fared)| fared.failed > 0 || fared.ended == 0);
        let others = others.map(|(name, fared)| {
            format!(
                "{} of {} of {name} ({})",
                fared.failed,
                fared.ended,
                fared.why.join(", ")
            )
        });
        failed.chain(others).collect()
    }

    /// How long a try of the chart's workload takes, ms.
    fn median(&self) -> f64 {
        let tries = self.taken.tries.iter();
        let mut took: Vec<_> = tries.map(|each| each.micros as f64 / 1e3).collect();
        took.sort_by(f64::total_cmp);
        took.get(took.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Loads of storm clients that are well.
    pub fn well_loads(&self) -> impl Iterator<Item = (&str, &[Try])> {
        let web = ("web", self.taken.tries.as_slice());
        let loads = self
            .tries
            .iter()
            .map(|(name, tries)| (name.as_str(), tries.as_slice()));
        loads
            .filter(|(name, _)| !TROUBLED_LOADS.contains(name))
            .chain([web])
    }

    /// Tries at a destination where something fails.
    pub fn tries_at(&self, destination: &str) -> impl Iterator<Item = &Try> {
        let is_there = move |load: &str| match destination {
            "polls-and-calls" => ["polls", "calls"].contains(&load),
            _ => load.starts_with(destination),
        };
        let loads = self.tries.iter().filter(move |(load, _)| is_there(load));
        loads.flat_map(|(_, tries)| tries)
    }

    /// Tries at each of the servers that are restarted.
    pub fn deployed(&self) -> [&[Try]; BACKENDS] {
        ["deployed-1", "deployed-2", "deployed-3"].map(|load| self.tries_of(load))
    }

    fn tries_of(&self, load: &str) -> &[Try] {
        self.tries.get(load).map_or(&[], Vec::as_slice)
    }
}

impl Fared {
    /// Of an unmodified client.
    fn of(output: &str) -> Self {
        let ended = RealClient::ended(output);
        let failed: Vec<_> = ended.iter().filter(|it| it.end != End::Well).collect();
        Self {
            ended: ended.len(),
            failed: failed.len(),
            why: failed
                .iter()
                .take(3)
                .map(|it| format!("{:?}", it.end))
                .collect(),
        }
    }

    fn not(output: &str) -> Self {
        Self {
            ended: 0,
            failed: 0,
            why: vec![output.to_owned()],
        }
    }
}

fn lost(tries: &[Try]) -> usize {
    tries
        .iter()
        .filter(|each| each.outcome != Outcome::Ok)
        .count()
}

/// How those ended that did not end well, and how many.
fn ends(tries: &[Try]) -> String {
    let mut ends = BTreeMap::<String, usize>::new();
    for each in tries.iter().filter(|each| each.outcome != Outcome::Ok) {
        *ends.entry(format!("{:?}", each.outcome)).or_default() += 1;
    }
    let ends = ends
        .into_iter()
        .map(|(end, count)| format!("{count} {end}"));
    ends.collect::<Vec<_>>().join(", ")
}

fn named(destination: &Value) -> &str {
    destination["destination"].as_str().unwrap_or("?")
}

/// A count, or the sum of all counts below it.
pub fn sum(counts: &Value) -> u64 {
    match counts {
        Value::Object(counts) => counts.values().map(sum).sum(),
        count => count.as_u64().unwrap_or(0),
    }
}

/// Those counts that are not zero, by name.
fn named_counts(counts: &Value) -> String {
    let Value::Object(counts) = counts else {
        return counts.to_string();
    };
    let some = counts.iter().filter(|(_, count)| sum(count) > 0);
    let some = some.map(|(name, count)| format!("{} {name}", sum(count)));
    some.collect::<Vec<_>>().join(" + ")
}
