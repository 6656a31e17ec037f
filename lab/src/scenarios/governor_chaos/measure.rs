//! What a storm with a disturbed governor was, in figures.

use std::collections::HashMap;
use std::ops::Range;

use governor_tests::service::Slot;
use governor_tests::storm::report::{Outcome, Try};

use crate::measure::Taken;
use crate::stage::Stage;
use crate::watch::Sample;

use super::events::{Met, TIGHT};
use super::{CALLERS, IN_FORCE, LIVE, SERVICE, Times};

/// `budget.percent`, and `budget.interval` in seconds.
const PERCENT: f64 = 10.0;
const INTERVAL: f64 = 10.0;
/// `minRetryRate` for the interval: the ceiling of the reserve, which is a tenth of the healthy rate and at least
/// [`FLOOR`].
const CEILING: f64 = 100.0;
/// 1 a second.
const FLOOR: f64 = 10.0;
/// Goodput is counted in slots so long.
const HALF: f64 = 0.5;
/// Load is counted in windows of a second that begin so often.
const STEP: f64 = 0.1;

/// What was taken down of one run.
pub struct Storm {
    /// All of it.
    pub taken: Taken,
    /// When things did happen: a governor that is slow to come holds up what follows.
    pub times: Times,
    /// What was met.
    pub met: Met,
    /// Who each process is.
    callers: HashMap<u32, &'static str>,
}

/// A time in which one governor was there and had seen what there was to see.
struct Life {
    /// It sees all that begins from here on.
    sees: u64,
    /// It is judged from here on.
    judged: u64,
    /// It ends.
    ends: u64,
    reserve: f64,
}

impl Storm {
    /// From what came of it: the tries of each of [`CALLERS`], in this order.
    pub fn of(
        name: &str,
        stage: &Stage<'_>,
        times: Times,
        tries: [Vec<Try>; CALLERS.len()],
        slots: Vec<Slot>,
        met: Met,
    ) -> Self {
        let named = CALLERS.into_iter().zip(&tries);
        let callers = named.flat_map(|(name, tries)| tries.iter().map(move |it| (it.pid, name)));
        Self {
            callers: callers.collect(),
            taken: Taken::down(name, stage, times.end, tries.concat(), slots),
            times,
            met,
        }
    }

    /// Whose try it is.
    pub fn caller(&self, of: &Try) -> &'static str {
        self.callers.get(&of.pid).copied().unwrap_or("?")
    }

    /// The tries of one of the callers.
    pub fn of_caller<'a>(&'a self, caller: &str) -> impl Iterator<Item = &'a Try> + use<'a> {
        let is_it = |pid: &u32| self.callers.get(pid) == Some(&caller);
        let pid = self.callers.keys().copied().find(is_it);
        self.taken
            .tries
            .iter()
            .filter(move |each| Some(each.pid) == pid)
    }

    /// When the governor was told to stop.
    pub fn stopped_at(&self) -> Option<u64> {
        Some(self.taken.clock.at(self.met.stopped?.gone))
    }

    /// Seconds from the start after a stop until something was refused; NaN where nobody stopped it.
    pub fn refuses_after(&self) -> f64 {
        let Some(stopped) = self.met.stopped else {
            return f64::NAN;
        };
        let start = self.taken.clock.at(stopped.started);
        let refused = self.taken.tries.iter().filter(|each| is_refused(each));
        let since = refused.filter_map(|each| each.t.checked_sub(start));
        since.min().map_or(f64::NAN, |after| after as f64 / 1e6)
    }

    /// Tries that were refused while no daemon was there, after `kill -9`.
    pub fn refused_by_nobody(&self) -> usize {
        let gone = self.met.killed.map(|it| self.span(it.gone, it.ready));
        let refused = self.taken.tries.iter().filter(|each| is_refused(each));
        refused
            .filter(|each| gone.as_ref().is_some_and(|gone| gone.contains(&each.t)))
            .count()
    }

    /// Operations that ended well in the storm until the governor was stopped, in this or another run of it.
    pub fn well(&self, until: f64) -> f64 {
        let goodput = self.taken.goodput();
        goodput.sum(self.times.storm.0 as usize, until as usize)
    }

    /// When the governor was stopped, or else the storm was over.
    pub fn undisturbed_until(&self) -> f64 {
        self.met.stopped.map_or(self.times.storm.1, |it| it.gone)
    }

    /// Seconds until the service answered nine tenths of `capacity` again, and went on: since the storm began, and since
    /// the governor was started after a stop.
    pub fn back(&self, capacity: f64) -> [f64; 2] {
        let goodput = self.taken.clock.goodput(HALF, &self.taken.tries);
        let since = |from: f64, to: f64| {
            let (first, last) = ((from / HALF) as usize, (to / HALF) as usize);
            let slots = goodput.0.get(first..last).unwrap_or_default();
            let bad = slots.iter().rposition(|slot| *slot < 0.9 * capacity * HALF);
            // Bad to the end: it never was back.
            match bad.map_or(0, |bad| bad + 1) {
                never if never == slots.len() => f64::NAN,
                back => (first + back) as f64 * HALF - from,
            }
        };
        let (begin, end) = self.times.storm;
        let stopped = self.met.stopped;
        [
            since(begin, self.undisturbed_until()),
            stopped.map_or(f64::NAN, |it| since(it.started, end)),
        ]
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
    pub fn refused_in_it(&self) -> Vec<&Try> {
        let storm = self.span(self.times.storm.0, self.times.storm.1);
        let tries = self.taken.tries.iter().filter(|each| each.attempt == 1);
        tries
            .filter(|each| is_refused(each) && storm.contains(&each.t))
            .collect()
    }

    /// When the first of them was, and why anything was refused up to then and until the governor was stopped or the
    /// storm over: in words.
    pub fn why(&self, refused: &[&Try]) -> String {
        let Some(first) = refused.first() else {
            return "none".to_owned();
        };
        let at = (first.t - self.taken.clock.start) as f64 / 1e6;
        let life = match self.met.stopped {
            Some(it) if at > it.gone => it.ready..self.times.storm.1,
            _ => 0.0..self.undisturbed_until(),
        };
        let reasons = self.samples(life.start, life.end).last();
        let reasons = reasons.map_or_else(String::new, |it| it.reasons(SERVICE.0));
        format!(
            "the first at {at:.2} s by {}; in all {reasons}",
            self.caller(first)
        )
    }

    /// First tries that did not end well where nothing was wrong: they were over before the storm, or began when I4 no
    /// longer allows anything to be refused.
    pub fn lost_in_peace(&self) -> f64 {
        let storm = self.span(self.times.storm.0, self.times.storm.1 + LIVE);
        let tries = self.taken.tries.iter().filter(|each| each.attempt == 1);
        let in_peace =
            tries.filter(|each| each.t + each.micros < storm.start || each.t > storm.end);
        in_peace.filter(|each| each.outcome != Outcome::Ok).count() as f64
    }

    /// The worst second at the service in the whole scene, relative to first tries offered in it. Left out: from when
    /// the governor was told to stop until [`IN_FORCE`] after the next one was started.
    pub fn worst_load(&self) -> f64 {
        let clock = self.taken.clock;
        let (load, offered) = (
            clock.load(STEP, &self.taken.slots),
            clock.offered(STEP, &self.taken.tries),
        );
        let second = (1.0 / STEP).round() as usize;
        let gap = self.met.stopped.map(|it| it.gone..it.started + IN_FORCE);
        let judged = |from: f64| {
            gap.as_ref()
                .is_none_or(|gap| from + 1.0 <= gap.start || from >= gap.end)
        };
        (0..load.0.len() - second)
            .filter(|slot| judged(*slot as f64 * STEP))
            .map(|slot| load.sum(slot, slot + second) / offered.sum(slot, slot + second))
            .fold(0.0, f64::max)
    }

    /// Samples in which fewer breakers for the service were open than there are callers, from when all were until the
    /// governor was stopped or the storm over.
    pub fn not_all_open(&self) -> usize {
        let until = self.undisturbed_until();
        let all = |sample: &&Sample| sample.breakers() < CALLERS.len();
        let samples = self.samples(self.times.storm.0, until);
        samples.skip_while(all).filter(all).count()
    }

    /// How often a count of the governor fell, from one sample to the next, until it was stopped.
    pub fn forgot(&self) -> usize {
        let until = self.met.stopped.map_or(self.times.end, |it| it.gone);
        let counts = self.samples(0.0, until).filter_map(|sample| {
            let service = sample.destination(SERVICE.0)?;
            let offered = &service["offered"];
            Some(
                [
                    &offered["firstTries"],
                    &offered["retries"],
                    &service["successes"],
                ]
                .map(|it| it.as_u64().unwrap_or(0)),
            )
        });
        let counts: Vec<_> = counts.collect();
        let fell = |pair: &&[[u64; 3]]| pair[0].iter().zip(pair[1]).any(|(was, is)| *was > is);
        counts.windows(2).filter(fell).count()
    }

    /// Seconds of the scene in which the status showed the tighter policy, from the first sample to the last.
    pub fn tight(&self) -> Option<(f64, f64)> {
        let seconds = |sample: &Sample| (sample.t - self.taken.clock.start) as f64 / 1e6;
        let mut shown = self
            .samples(0.0, self.times.end)
            .filter(|it| percent_of(it) == Some(TIGHT));
        let first = shown.next()?;
        Some((seconds(first), seconds(shown.last().unwrap_or(first))))
    }

    /// How long after it was written the tighter policy was in force, and the first one again; seconds.
    pub fn reloads(&self) -> [f64; 2] {
        let written = &self.met.policies;
        let written = |which: usize| written.get(which).copied().unwrap_or(self.times.end);
        [(written(0), TIGHT), (written(2), PERCENT)].map(|(since, percent)| {
            let mut samples = self.samples(since, self.times.end);
            let in_force = samples.find(|it| percent_of(it) == Some(percent));
            let t = in_force.map(|it| (it.t - self.taken.clock.at(since)) as f64 / 1e6);
            t.unwrap_or(f64::NAN)
        })
    }

    /// Retries that came through and began in these seconds of the scene.
    pub fn retries(&self, (from, to): (f64, f64)) -> usize {
        let span = self.span(from, to);
        let first = self.first_through(0);
        let begun = self.through().filter(|each| span.contains(&each.t));
        begun.filter(|each| !is_first(&first, each)).count()
    }

    /// Retries that reached the service in an interval, relative to what the budget allows: the fullest one. A governor
    /// that was started after a stop is judged from [`IN_FORCE`] on, by what it could see.
    ///
    /// The kernel admits a retry after its caller has begun it, and sees an answer before its caller has read it: how
    /// much, nobody tells. So a retry is counted where all of it lies within the interval, and a success where any of
    /// it does. (An eighth of the budget may be spent in the first milliseconds of each second; counted by when they
    /// began, such retries are often those of the second before: 1.07 x on a machine where all was well.)
    pub fn fullest_window(&self) -> f64 {
        let clock = self.taken.clock;
        let end = clock.at(self.times.end);
        let first = Life {
            sees: clock.start,
            judged: clock.start,
            ends: self.stopped_at().unwrap_or(end),
            // A tenth of what was healthy is more.
            reserve: CEILING,
        };
        let second = self.met.stopped.map(|it| Life {
            sees: clock.at(it.ready),
            judged: clock.at(it.started + IN_FORCE),
            ends: end,
            reserve: (self.first_tries(it.ready, it.started + IN_FORCE) / 10.0)
                .clamp(FLOOR, CEILING),
        });
        let lives = [first].into_iter().chain(second);
        lives.map(|life| self.fullest(&life)).fold(0.0, f64::max)
    }

    /// First tries that began in these seconds of the scene. Until the first failure a governor takes them for healthy.
    fn first_tries(&self, from: f64, to: f64) -> f64 {
        let span = self.span(from, to);
        let first = self.taken.tries.iter().filter(|each| each.attempt == 1);
        first.filter(|each| span.contains(&each.t)).count() as f64
    }

    fn fullest(&self, life: &Life) -> f64 {
        let first = self.first_through(life.sees);
        let ends = |each: &Try| each.t + each.micros;
        let interval = (INTERVAL * 1e6) as u64;
        let windows = (life.judged + 1_000_000..=life.ends).step_by(1_000_000);
        let fill = windows.map(|end| {
            let start = end - interval;
            let (mut retries, mut successes) = (0, 0);
            for each in self.through().filter(|each| each.t >= life.sees) {
                let lies_within = each.t >= start.max(life.judged) && ends(each) < end;
                let touches = each.t < end && start <= ends(each);
                retries += u32::from(lies_within && !is_first(&first, each));
                successes += u32::from(touches && each.outcome == Outcome::Ok);
            }
            f64::from(retries) / (f64::from(successes) * PERCENT / 100.0 + life.reserve)
        });
        fill.fold(0.0, f64::max)
    }

    /// Tries that were not refused.
    fn through(&self) -> impl Iterator<Item = &Try> {
        self.taken.tries.iter().filter(|each| !is_refused(each))
    }

    /// The first try of each operation that came through since then. Who was refused before anything of an operation
    /// came through has not been there: what comes next is its first.
    fn first_through(&self, since: u64) -> HashMap<(u32, u64), u32> {
        let mut first = HashMap::new();
        for each in self.through().filter(|each| each.t >= since) {
            let attempt = first.entry((each.pid, each.op)).or_insert(each.attempt);
            *attempt = each.attempt.min(*attempt);
        }
        first
    }

    /// What the governor told in these seconds of the scene.
    fn samples(&self, from: f64, to: f64) -> impl Iterator<Item = &Sample> {
        let span = self.span(from, to);
        let samples = self.taken.samples.iter();
        samples.filter(move |sample| span.contains(&sample.t))
    }

    /// These seconds of the scene.
    pub fn span(&self, from: f64, to: f64) -> Range<u64> {
        self.taken.clock.at(from)..self.taken.clock.at(to)
    }
}

/// Whether it is the first try of its operation that came through.
fn is_first(first: &HashMap<(u32, u64), u32>, each: &Try) -> bool {
    first.get(&(each.pid, each.op)) == Some(&each.attempt)
}

/// `budget.percent` of the service, as a sample shows it.
fn percent_of(sample: &Sample) -> Option<f64> {
    sample.destination(SERVICE.0)?["budget"]["percent"].as_f64()
}

/// Nothing but the governor refuses in these storms: the service always listens.
pub fn is_refused(each: &Try) -> bool {
    each.denied || each.outcome == Outcome::Refused
}
