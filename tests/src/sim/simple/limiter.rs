//! Adaptive concurrency by AIMD on latency, as Netflix concurrency-limits and
//! Envoy's adaptive concurrency have it, dormant until something looks bad.

use std::collections::VecDeque;

use governor_core::verdict::Outcome;

use crate::sim::engine::End;
use crate::sim::world::as_seconds;

/// What wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// A caller that gives up, or high latency for three ticks.
    AnyGiveUp,
    /// Three give-ups and 10 % in a second, and high latency or no success; then
    /// the floor's own latency is learned, as in the real law.
    Distress,
}

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Limiting {
    /// What wakes it.
    pub wakes: Wakes,
    /// Lowest limit.
    pub floor: f64,
}

const TICK: f64 = 0.1;
const TOLERANCE: f64 = 2.0;
const SLACK: f64 = 0.002;
const GOOD_TICKS: u32 = 50;

/// The state. In flight is not parked: a long poll fills a place.
#[derive(Default)]
pub(super) struct Limiter {
    limit: Option<f64>,
    in_flight: f64,
    peak: f64,
    next: f64,
    latencies: Vec<f64>,
    gave_up: u32,
    other: u32,
    recent: VecDeque<[u32; 3]>,
    baseline: Option<f64>,
    healthy: f64,
    high_ticks: u32,
    good_ticks: u32,
    refused: bool,
    floor_since: Option<f64>,
}

impl Limiter {
    pub(super) fn has_room(&mut self) -> bool {
        let room = self.limit.is_none_or(|limit| self.in_flight < limit);
        self.refused |= !room;
        room
    }

    pub(super) fn enter(&mut self) {
        self.in_flight += 1.0;
        self.peak = self.peak.max(self.in_flight);
    }

    pub(super) fn leave(&mut self) {
        self.in_flight -= 1.0;
    }

    pub(super) fn ended(&mut self, limiting: &Limiting, end: &End) {
        match end.outcome {
            Outcome::Success => self.latencies.push(as_seconds(end.latency)),
            Outcome::Timeout => self.gave_up += 1,
            _ => self.other += 1,
        }
        self.tick(limiting, as_seconds(end.now));
    }

    pub(super) fn tick(&mut self, limiting: &Limiting, time: f64) {
        if time < self.next {
            return;
        }
        self.next = time + TICK;
        let mut latencies = std::mem::take(&mut self.latencies);
        latencies.sort_by(f64::total_cmp);
        let median = latencies.get(latencies.len() / 2).copied();
        let successes = latencies.len() as u32;
        let gave_up = std::mem::take(&mut self.gave_up);
        let other = std::mem::take(&mut self.other);
        self.recent.push_back([successes, gave_up, other]);
        if self.recent.len() > 10 {
            self.recent.pop_front();
        }
        let high = match (median, self.baseline) {
            (Some(median), Some(baseline)) => median > TOLERANCE * baseline + SLACK,
            _ => false,
        };
        let peak = std::mem::replace(&mut self.peak, self.in_flight);
        let refused = std::mem::take(&mut self.refused);
        let bad = match limiting.wakes {
            Wakes::AnyGiveUp => {
                self.high_ticks = if high { self.high_ticks + 1 } else { 0 };
                if self.limit.is_none() {
                    let wake = (gave_up > 0 || self.high_ticks >= 3) && self.baseline.is_some();
                    if wake {
                        self.wake(limiting);
                    } else if let Some(median) = median {
                        let old = self.baseline.unwrap_or(median);
                        self.baseline = Some(0.9 * old + 0.1 * median);
                        self.healthy = 0.9 * self.healthy + 0.1 * self.in_flight;
                    }
                }
                gave_up > 0 || high
            }
            Wakes::Distress => {
                if successes > 0 {
                    self.high_ticks = if high { self.high_ticks + 1 } else { 0 };
                }
                if self.limit.is_none() {
                    if self.distress() {
                        self.wake(limiting);
                    } else if let Some(median) = median {
                        self.learn(median);
                        if !high && gave_up == 0 {
                            self.healthy = f64::max(peak, self.healthy * 0.998);
                        }
                    }
                }
                high || (successes == 0 && gave_up > 0)
            }
        };
        if let Some(limit) = self.limit {
            self.adapt(limiting, (time, limit), bad, median, refused);
        }
    }

    fn wake(&mut self, limiting: &Limiting) {
        self.limit = Some(f64::max(limiting.floor, self.healthy));
        self.good_ticks = 0;
        self.floor_since = None;
    }

    fn distress(&self) -> bool {
        let sum = |which: usize| self.recent.iter().map(|tick| tick[which]).sum::<u32>();
        let (successes, gave_up, other) = (sum(0), sum(1), sum(2));
        let all = f64::from(successes + gave_up + other);
        gave_up >= 3 && f64::from(gave_up) >= 0.1 * all && (self.high_ticks >= 3 || successes == 0)
    }

    fn learn(&mut self, median: f64) {
        let old = self.baseline.unwrap_or(median);
        self.baseline = Some(if median < old {
            0.95 * old + 0.05 * median
        } else {
            old + f64::min(median - old, old) * 0.002
        });
    }

    fn adapt(
        &mut self,
        limiting: &Limiting,
        (time, limit): (f64, f64),
        bad: bool,
        median: Option<f64>,
        refused: bool,
    ) {
        if bad {
            self.good_ticks = 0;
            if limit <= limiting.floor && limiting.wakes == Wakes::Distress {
                let since = *self.floor_since.get_or_insert(time);
                if time - since >= 1.0 && median.is_some() {
                    self.baseline = median;
                    self.floor_since = None;
                }
            }
            self.limit = Some(f64::max(limiting.floor, limit * 0.8));
            return;
        }
        self.floor_since = None;
        if median.is_some() {
            self.limit = Some(limit + f64::max(1.0, 0.1 * limit));
        }
        if !refused {
            self.good_ticks += 1;
        }
        if self.good_ticks > GOOD_TICKS {
            self.limit = None;
        }
    }
}
