//! What a simulation measures, per second.

use std::ops::Range;

/// Counts per second of one workload, or of all.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// First tries offered.
    pub first: Vec<u32>,
    /// Attempts that reached the network.
    pub load: Vec<u32>,
    /// Of those, for users who had left.
    pub late: Vec<u32>,
    /// Attempts that succeeded for somebody, by the second in which they did.
    pub good: Vec<u32>,
    /// Attempts denied.
    pub denied: Vec<u32>,
    /// Of those, first tries.
    pub denied_first: Vec<u32>,
}

impl Series {
    /// Zeroes for so many seconds.
    pub fn new(seconds: usize) -> Self {
        let zeroes = vec![0; seconds];
        Self {
            first: zeroes.clone(),
            load: zeroes.clone(),
            late: zeroes.clone(),
            good: zeroes.clone(),
            denied: zeroes.clone(),
            denied_first: zeroes,
        }
    }

    /// Successes per first try.
    pub fn goodput(&self, seconds: Range<usize>) -> f64 {
        ratio(sum(&self.good, &seconds), sum(&self.first, &seconds))
    }

    /// Successes over what `per_second` would have been.
    pub fn goodput_of(&self, seconds: Range<usize>, per_second: f64) -> f64 {
        sum(&self.good, &seconds) / (seconds.len() as f64 * per_second)
    }

    /// Share of first tries denied.
    pub fn denied_first_share(&self, seconds: Range<usize>) -> f64 {
        ratio(
            sum(&self.denied_first, &seconds),
            sum(&self.first, &seconds),
        )
    }

    /// Share of retries denied.
    pub fn denied_retry_share(&self, seconds: Range<usize>) -> f64 {
        let denied = sum(&self.denied, &seconds) - sum(&self.denied_first, &seconds);
        let offered =
            sum(&self.load, &seconds) + sum(&self.denied, &seconds) - sum(&self.first, &seconds);
        ratio(denied, offered)
    }

    /// Attempts that reached the network per first try.
    pub fn amplification(&self, seconds: Range<usize>) -> f64 {
        ratio(sum(&self.load, &seconds), sum(&self.first, &seconds))
    }

    /// The worst second's [`Series::amplification`].
    pub fn peak_amplification(&self, seconds: Range<usize>) -> f64 {
        seconds
            .map(|second| self.amplification(second..second + 1))
            .fold(0.0, f64::max)
    }

    /// Seconds from `since` until more than 90 % of what is offered succeeds,
    /// for `lasting` seconds in a row; `None` where it never does.
    pub fn recovery(&self, since: usize, lasting: usize) -> Option<usize> {
        let last = self.first.iter().rposition(|&first| first > 0)?;
        (since..last.saturating_sub(lasting))
            .find(|&start| {
                (start..start + lasting).all(|second| {
                    f64::from(self.good[second]) > 0.9 * f64::from(self.first[second])
                })
            })
            .map(|second| second - since)
    }
}

/// Length of a slot of [`Report::slots`], seconds.
pub const SLOT: f64 = 0.05;

/// What a run gives.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Of all workloads.
    pub all: Series,
    /// Of each workload, in the order of the world's.
    pub workloads: Vec<Series>,
    /// Attempts that reached the network, per [`SLOT`].
    pub slots: Vec<u32>,
    /// How long operations took that succeeded on a retry, seconds.
    pub rescued: Vec<f32>,
    /// How long those took that were given up, seconds.
    pub given_up: Vec<f32>,
    /// What the governors did.
    pub governors: Trace,
}

/// What the governors of a run did, by second; empty where there are none.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Probes sent.
    pub probes: Vec<u32>,
    /// First tries that the limiter refused.
    pub limited: Vec<u32>,
    /// Breakers that were not closed at the end of it.
    pub open: Vec<u32>,
    /// Retries that were taken for retries, first tries that were, retries that
    /// were not: where it is guessed.
    pub guesses: [u64; 3],
}

impl Trace {
    /// Of those that were taken for retries, the share that were.
    pub fn precision(&self) -> f64 {
        let [right, wrong, _] = self.guesses;
        ratio(right as f64, (right + wrong) as f64)
    }

    /// Of the retries, the share that was taken for such.
    pub fn recall(&self) -> f64 {
        let [right, _, missed] = self.guesses;
        ratio(right as f64, (right + missed) as f64)
    }
}

impl Report {
    /// Share of first tries that the limiter refused.
    pub fn limited_share(&self, seconds: Range<usize>) -> f64 {
        let limited = &self.governors.limited;
        // It ends with the last that was refused.
        let seen = seconds.start.min(limited.len())..seconds.end.min(limited.len());
        ratio(sum(limited, &seen), sum(&self.all.first, &seconds))
    }

    /// The most attempts of any [`SLOT`] that reached the network.
    pub fn peak_slot(&self, from: f64, until: f64) -> u32 {
        let slots = (from / SLOT) as usize..(until / SLOT) as usize;
        self.slots[slots].iter().copied().max().unwrap_or(0)
    }
}

fn sum(counts: &[u32], seconds: &Range<usize>) -> f64 {
    counts[seconds.clone()]
        .iter()
        .map(|&count| f64::from(count))
        .sum()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
