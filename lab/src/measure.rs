//! What a storm was, in figures: from tries, slots of the service, and samples of the governor.

use governor_tests::service::Slot;
use governor_tests::storm::report::{Outcome, Try};

use crate::findings::{Mark, Run};
use crate::stage::Stage;
use crate::watch::Sample;

/// Length of a slot in charts, seconds.
const CHART: f64 = 0.5;

/// Counts over time, in slots of equal length from time zero on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(pub Vec<f64>);

/// The clock of a scene: time zero and its length.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Microseconds of CLOCK_MONOTONIC at time zero.
    pub start: u64,
    /// Seconds.
    pub length: f64,
}

impl Clock {
    /// What happened when, counted in slots of `slot` seconds; what is outside is left out.
    pub fn count(self, slot: f64, events: impl Iterator<Item = (u64, f64)>) -> Series {
        let slots = (self.length / slot).ceil() as usize;
        let mut counts = vec![0.0; slots];
        // In whole microseconds: 0.15 s are two slots of 0.05 s and a rest, as fractions.
        let micros = (slot * 1e6).round() as u64;
        for (t, weight) in events {
            let at = t.checked_sub(self.start).map(|since| since / micros);
            if let Some(count) = at.and_then(|at| counts.get_mut(at as usize)) {
                *count += weight;
            }
        }
        Series(counts)
    }

    /// The moment so many seconds after zero, microseconds of CLOCK_MONOTONIC.
    pub fn at(self, seconds: f64) -> u64 {
        self.start + (seconds * 1e6) as u64
    }

    /// First tries by their beginning.
    pub fn offered(self, slot: f64, tries: &[Try]) -> Series {
        let first = tries.iter().filter(|each| each.attempt == 1);
        self.count(slot, first.map(|each| (each.t, 1.0)))
    }

    /// Operations that ended well, by their end.
    pub fn goodput(self, slot: f64, tries: &[Try]) -> Series {
        let well = tries.iter().filter(|each| each.outcome == Outcome::Ok);
        self.count(slot, well.map(|each| (each.t + each.micros, 1.0)))
    }

    /// What a service could do, per second, on average of each slot; 0 where it was not there.
    pub fn capacity(self, slot: f64, slots: &[Slot]) -> Vec<f64> {
        let sum = self.count(slot, slots.iter().map(|each| (each.t, each.capacity)));
        let count = self.count(slot, slots.iter().map(|each| (each.t, 1.0)));
        let pairs = sum.0.into_iter().zip(count.0);
        pairs
            .map(|(sum, count)| if count > 0.0 { sum / count } else { 0.0 })
            .collect()
    }

    /// Requests that came to a service.
    pub fn load(self, slot: f64, slots: &[Slot]) -> Series {
        self.count(slot, slots.iter().map(|each| (each.t, each.came() as f64)))
    }
}

impl Series {
    /// The mean of slots `from..to`.
    pub fn mean(&self, from: usize, to: usize) -> f64 {
        let slots = self.0.get(from..to.min(self.0.len())).unwrap_or_default();
        slots.iter().sum::<f64>() / slots.len() as f64
    }

    /// The sum of slots `from..to`.
    pub fn sum(&self, from: usize, to: usize) -> f64 {
        let slots = self.0.get(from..to.min(self.0.len())).unwrap_or_default();
        slots.iter().sum()
    }

    /// The greatest of slots `from..to`.
    pub fn peak(&self, from: usize, to: usize) -> f64 {
        let slots = self.0.get(from..to.min(self.0.len())).unwrap_or_default();
        slots.iter().copied().fold(0.0, f64::max)
    }

    /// The first slot from `from` on that, with the `lasting - 1` after it, is at least `share` of the
    /// same slots of `of`. `None` where there is none.
    pub fn reaches(&self, share: f64, of: &Self, from: usize, lasting: usize) -> Option<usize> {
        let slots = self.0.len().min(of.0.len());
        (from..(slots + 1).saturating_sub(lasting)).find(|first| {
            let window = *first..first + lasting;
            self.0[window.clone()].iter().sum::<f64>() >= share * of.0[window].iter().sum::<f64>()
        })
    }

    /// Each slot per second.
    fn rate(self, slot: f64) -> Vec<f64> {
        self.0.into_iter().map(|count| count / slot).collect()
    }
}

/// What was taken down of one run.
#[derive(Clone, Debug)]
pub struct Taken {
    /// How it is called: `without`, `with`.
    pub name: String,
    /// Zero and length of its time.
    pub clock: Clock,
    /// All tries, by their beginning.
    pub tries: Vec<Try>,
    /// What the service told.
    pub slots: Vec<Slot>,
    /// What the governor told; empty without it.
    pub samples: Vec<Sample>,
    marks: Vec<Mark>,
    governed: bool,
}

impl Taken {
    /// Takes down what happened on a stage in its first `length` seconds.
    pub fn down(
        name: &str,
        stage: &Stage<'_>,
        length: f64,
        tries: Vec<Try>,
        slots: Vec<Slot>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            clock: Clock {
                start: stage.start(),
                length,
            },
            tries,
            slots,
            samples: stage.samples(),
            marks: stage.marks(),
            governed: stage.is_governed(),
        }
    }

    /// First tries offered, second by second.
    pub fn offered(&self) -> Series {
        self.clock.offered(1.0, &self.tries)
    }

    /// Operations that ended well, second by second.
    pub fn goodput(&self) -> Series {
        self.clock.goodput(1.0, &self.tries)
    }

    /// Requests that came to the service, second by second.
    pub fn load(&self) -> Series {
        self.clock.load(1.0, &self.slots)
    }

    /// Goodput relative to what was offered, from one second to before another.
    pub fn share(&self, from: usize, to: usize) -> f64 {
        self.goodput().sum(from, to) / self.offered().sum(from, to)
    }

    /// Seconds from `since` until goodput is at 0.95 of what is offered and stays there for five
    /// seconds; NaN where that never comes.
    pub fn back_after(&self, since: f64) -> f64 {
        let back = self
            .goodput()
            .reaches(0.95, &self.offered(), since as usize, 5);
        back.map_or(f64::NAN, |second| second as f64 - since)
    }

    /// What its chart is drawn from.
    pub fn run(&self) -> Run {
        self.drawn(&self.samples)
    }

    /// The same, of the governor only what concerns one destination.
    pub fn run_of(&self, destination: &str) -> Run {
        let samples = self.samples.iter().map(|sample| sample.only(destination));
        self.drawn(&samples.collect::<Vec<_>>())
    }

    fn drawn(&self, samples: &[Sample]) -> Run {
        let clock = self.clock;
        Run {
            name: self.name.clone(),
            governed: self.governed,
            slot: CHART,
            offered: clock.offered(CHART, &self.tries).rate(CHART),
            load: clock.load(CHART, &self.slots).rate(CHART),
            goodput: clock.goodput(CHART, &self.tries).rate(CHART),
            capacity: clock.capacity(CHART, &self.slots),
            denied: clock.count(CHART, denials(samples)).rate(CHART),
            breakers: sampled(clock, samples, 0.0, |sample| sample.breakers() as f64),
            limit: sampled(clock, samples, f64::NAN, |sample| {
                sample.limit().unwrap_or(f64::NAN)
            }),
            marks: self.marks.clone(),
        }
    }
}

/// Plays two scenes side by side: where neither fills the machine.
pub fn beside<T: Send, U>(one: impl FnOnce() -> T + Send, other: impl FnOnce() -> U) -> (T, U) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        let one = one
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (one, other)
    })
}

/// What was denied between two samples, evenly: where the daemon was away there are seconds of it.
fn denials(samples: &[Sample]) -> impl Iterator<Item = (u64, f64)> {
    samples.windows(2).flat_map(|pair| {
        let denied = pair[1].denied().saturating_sub(pair[0].denied());
        spread((pair[0].t, pair[1].t), denied as f64)
    })
}

/// A number of events of some time, as parts of a tenth of a second.
fn spread((from, to): (u64, u64), events: f64) -> impl Iterator<Item = (u64, f64)> {
    const PART: u64 = 100_000;
    let parts = (to.saturating_sub(from) / PART).max(1);
    let end = move |part: u64| from + to.saturating_sub(from) * part / parts;
    (1..=parts).map(move |part| (end(part), events / parts as f64))
}

/// What the last sample of each slot says; `nothing` where there is none.
fn sampled(
    clock: Clock,
    samples: &[Sample],
    nothing: f64,
    says: impl Fn(&Sample) -> f64,
) -> Vec<f64> {
    let slots = (clock.length / CHART).ceil() as usize;
    let mut said = vec![nothing; slots];
    for sample in samples {
        let at = sample
            .t
            .checked_sub(clock.start)
            .map(|since| since as f64 / 1e6 / CHART);
        if let Some(slot) = at.and_then(|at| said.get_mut(at as usize)) {
            *slot = says(sample);
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_reaches_a_share_where_it_lasts() {
        let offered = Series(vec![10.0; 6]);
        let goodput = Series(vec![10.0, 0.0, 10.0, 0.0, 10.0, 10.0]);
        assert_eq!(goodput.reaches(0.95, &offered, 0, 1), Some(0));
        assert_eq!(goodput.reaches(0.95, &offered, 1, 2), Some(4));
        assert_eq!(goodput.reaches(0.95, &offered, 0, 3), None);
        assert_eq!(goodput.reaches(0.95, &offered, 5, 2), None);
    }

    #[test]
    fn every_slot_of_the_service_is_one_of_the_series() {
        let clock = Clock {
            start: 3_000_000,
            length: 10.0,
        };
        let slots = (0..200).map(|slot| (clock.start + slot * 50_000, 1.0));
        assert_eq!(clock.count(0.05, slots), Series(vec![1.0; 200]));
    }

    #[test]
    fn what_was_counted_late_is_spread_over_the_time_it_is_of() {
        let parts: Vec<_> = spread((1_000_000, 1_400_000), 8.0).collect();
        assert_eq!(
            parts,
            [
                (1_100_000, 2.0),
                (1_200_000, 2.0),
                (1_300_000, 2.0),
                (1_400_000, 2.0)
            ]
        );
        assert_eq!(spread((5, 6), 3.0).collect::<Vec<_>>(), [(6, 3.0)]);
    }

    #[test]
    fn what_is_outside_the_scene_is_not_counted() {
        let clock = Clock {
            start: 1_000_000,
            length: 2.0,
        };
        let events = [999_999, 1_000_000, 2_500_000, 3_000_000];
        let counted = clock.count(1.0, events.into_iter().map(|t| (t, 1.0)));
        assert_eq!(counted, Series(vec![1.0, 1.0]));
    }
}
