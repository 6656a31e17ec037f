//! What a storm with a disturbed governor was, in figures.

use std::collections::HashMap;

use governor_tests::service::Slot;
use governor_tests::storm::report::{Outcome, Try};

use crate::measure::Taken;
use crate::stage::Stage;

use super::events::Met;
use super::{CALLERS, IN_FORCE, LIVE, SERVICE, Times};

/// `budget.percent`, and the reserve: `minRetryRate` for `budget.interval`, which 10 % of the healthy rate do not lessen.
const PERCENT: f64 = 10.0;
const RESERVE: f64 = 100.0;
const INTERVAL: usize = 10;
/// A try is longer in its caller's books than at the service: the caller notes its time before it connects, and after
/// it has closed. What overlaps for less than a slot of the service (50 ms) did not meet there: probes follow each other
/// within a millisecond.
const BOOKED: u64 = 50_000;
/// So long after a breaker has opened what was admitted before has ended: callers wait 1 s.
const ENDED: f64 = 1.2;

/// What was taken down of one run.
pub struct Storm {
    /// All of it.
    pub taken: Taken,
    /// When things did happen: a governor that is slow to come holds up what follows.
    times: Times,
    /// How long the governor was away.
    pub back: Back,
    /// What happened to the governor, in words.
    pub events: Vec<String>,
    /// See [`Met`].
    pub unjudged: u64,
    /// See [`Met`].
    pub newcomer_lost: usize,
}

/// Seconds since a start was ordered.
pub struct Back {
    /// After `kill -9`: until the daemon was ready. What it had put into the kernel went on.
    pub killed: f64,
    /// After a stop. None where nobody stopped it.
    pub restarted: Option<Restarted>,
}

/// Seconds since the start of a governor that finds nothing of another.
pub struct Restarted {
    /// Until it was ready.
    pub ready: f64,
    /// Until something was refused.
    pub refuses: f64,
}

impl Storm {
    /// From what came of it.
    pub fn of(
        name: &str,
        stage: &Stage<'_>,
        times: Times,
        tries: Vec<Try>,
        slots: Vec<Slot>,
        met: Met,
    ) -> Self {
        let taken = Taken::down(name, stage, times.end, tries, slots);
        let restarted = met.restarted.map(|(at, ready)| {
            let start = taken.clock.at(at);
            let refused = taken.tries.iter().filter(|each| is_refused(each));
            let since = refused.filter_map(|each| each.t.checked_sub(start));
            let refuses = since.min().map_or(f64::NAN, |after| after as f64 / 1e6);
            Restarted { ready, refuses }
        });
        Self {
            taken,
            times,
            back: Back {
                killed: met.killed,
                restarted,
            },
            events: met.said,
            unjudged: met.unjudged,
            newcomer_lost: met.newcomer_lost,
        }
    }

    /// Operations that ended well in the storm until the governor was stopped.
    pub fn well(&self) -> f64 {
        let until = self.times.restarted.min(self.times.storm.1);
        let goodput = self.taken.goodput();
        goodput.sum(self.times.storm.0 as usize, until as usize)
    }

    /// The same from there to the end of the storm, relative to as many seconds at its beginning: a governor that
    /// knows nothing must see a queue before it can do something about it.
    pub fn well_again(&self) -> f64 {
        let goodput = self.taken.goodput();
        let (begin, stop, end) = (
            self.times.storm.0 as usize,
            self.times.restarted as usize,
            self.times.storm.1 as usize,
        );
        goodput.sum(stop, end) / goodput.sum(begin, begin + end - stop)
    }

    /// Who refused after the storm, and how long after its end the last one was refused: in words.
    pub fn late(&self) -> String {
        let (_, end) = self.times.storm;
        let clock = self.taken.clock;
        let refused = self.taken.tries.iter().filter(|each| is_refused(each));
        let last = refused.map(|each| each.t).max().unwrap_or_default();
        let after = last.saturating_sub(clock.at(end)) as f64 / 1e6;
        let samples = &self.taken.samples;
        let from = samples.iter().rfind(|it| it.t < clock.at(end + LIVE));
        let reasons = match (from, samples.last()) {
            (Some(from), Some(to)) => to.reasons_since(from, SERVICE.0),
            _ => String::new(),
        };
        match reasons.as_str() {
            "" => format!("the last one {after:.1} s after it"),
            reasons => format!("the last one {after:.1} s after it; since {LIVE} s: {reasons}"),
        }
    }

    /// First tries that the governor refused in the storm.
    pub fn refused_in_it(&self) -> f64 {
        let storm = self.span(self.times.storm.0, self.times.storm.1);
        self.refused_first(|each| storm.contains(&each.t))
    }

    /// First tries that the governor refused where nothing was wrong.
    pub fn refused_in_peace(&self) -> f64 {
        let storm = self.span(self.times.storm.0, self.times.storm.1 + LIVE);
        self.refused_first(|each| !storm.contains(&each.t))
    }

    fn refused_first(&self, is_one: impl Fn(&Try) -> bool) -> f64 {
        let tries = self.taken.tries.iter();
        let first = tries.filter(|each| each.attempt == 1 && is_refused(each) && is_one(each));
        first.count() as f64
    }

    /// The worst second at the service in the storm, from the third one on, relative to what was offered. While
    /// nobody governs, and until the next one is in force, it is not judged.
    pub fn worst_load(&self) -> f64 {
        let (load, offered) = (self.taken.load(), self.taken.offered());
        let (from, to) = (self.times.storm.0 as usize + 3, self.times.storm.1 as usize);
        let gap =
            self.times.restarted as usize..(self.times.restarted + IN_FORCE).ceil() as usize + 1;
        let judged = (from..to).filter(|second| !gap.contains(second));
        let rate = offered.mean(from, to);
        judged
            .map(|second| load.0[second] / rate)
            .fold(0.0, f64::max)
    }

    /// The most tries that were on their way to the service at one moment while every breaker was open.
    pub fn at_once(&self) -> usize {
        let mut moves: Vec<(u64, i64)> = Vec::new();
        for each in self.through() {
            let there = each.micros.saturating_sub(BOOKED);
            // One that ends when another begins was before it.
            moves.extend([(each.t, 1), (each.t + there, -1)]);
        }
        moves.sort_unstable();
        let mut now = 0;
        let levels = moves.into_iter().map(|(_, by)| {
            now += by;
            now
        });
        levels.max().unwrap_or(0) as usize
    }

    /// They, in words: workload, beginning and end in seconds of the scene.
    pub fn told(&self) -> String {
        let start = self.taken.clock.start;
        let seconds = |t: u64| (t - start) as f64 / 1e6;
        let mut tries: Vec<_> = self.through().collect();
        tries.sort_by_key(|each| each.t);
        let tries = tries.iter().map(|each| {
            let (from, to) = (seconds(each.t), seconds(each.t + each.micros));
            format!("{from:.3}-{to:.3} s by {}", each.pid)
        });
        tries.collect::<Vec<_>>().join(", ")
    }

    /// How many they were.
    pub fn probes(&self) -> usize {
        self.through().count()
    }

    /// Tries that were not refused while every breaker was open.
    fn through(&self) -> impl Iterator<Item = &Try> {
        let clock = self.taken.clock;
        let mut seen = self
            .taken
            .samples
            .iter()
            .filter(|sample| sample.t > clock.at(self.times.storm.0));
        let opened = seen.find(|sample| sample.breakers() >= CALLERS.len());
        // Without that there is nothing to see, and a claim says so.
        let from = opened.map_or(u64::MAX, |sample| sample.t + (ENDED * 1e6) as u64);
        let to = clock.at(self.times.restarted.min(self.times.storm.1) - 0.1);
        self.taken
            .tries
            .iter()
            .filter(move |each| !is_refused(each) && (from..to).contains(&each.t))
    }

    /// Retries that reached the service in an interval, relative to what the budget allows: the fullest one before the
    /// governor was stopped.
    ///
    /// The kernel admits a retry after its caller has begun it, and sees an answer before its caller has read it: how
    /// much, nobody tells. So a retry is counted where all of it lies within the interval, and a success where any of
    /// it does. (An eighth of the budget may be spent in the first milliseconds of each second; counted by when they
    /// began, such retries are often those of the second before: 1.07 x on a machine where all was well.)
    pub fn fullest_window(&self) -> f64 {
        // Who was refused before anything of an operation came through has not been there: what comes next is its first.
        let mut first = HashMap::new();
        for each in self.taken.tries.iter().filter(|each| !is_refused(each)) {
            let attempt = first.entry((each.pid, each.op)).or_insert(each.attempt);
            *attempt = each.attempt.min(*attempt);
        }
        let windows = INTERVAL..=self.times.restarted as usize;
        let fill = windows.map(|end| {
            let window = self.span((end - INTERVAL) as f64, end as f64);
            let ends = |each: &Try| each.t + each.micros;
            let (mut retries, mut successes) = (0, 0);
            for each in self.taken.tries.iter().filter(|each| !is_refused(each)) {
                let lies_within = window.start <= each.t && ends(each) < window.end;
                let touches = each.t < window.end && window.start <= ends(each);
                let is_first = first.get(&(each.pid, each.op)) == Some(&each.attempt);
                retries += u32::from(lies_within && !is_first);
                successes += u32::from(touches && each.outcome == Outcome::Ok);
            }
            f64::from(retries) / (f64::from(successes) * PERCENT / 100.0 + RESERVE)
        });
        fill.fold(0.0, f64::max)
    }

    fn span(&self, from: f64, to: f64) -> std::ops::Range<u64> {
        self.taken.clock.at(from)..self.taken.clock.at(to)
    }
}

/// Nothing but the governor refuses in these storms: the service always listens.
fn is_refused(each: &Try) -> bool {
    each.denied || each.outcome == Outcome::Refused
}
