//! A breaker on the failure rate, as Hystrix, resilience4j and Envoy's outlier
//! detection have it: half of at least twenty outcomes in ten seconds failed,
//! or seven in a row where there are fewer.

use std::collections::VecDeque;

use super::Pass;
use crate::sim::world::Random;

/// Who may probe when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probing {
    /// Each workload after its own open time, one at a time.
    Own,
    /// One schedule for all workloads of the node: a failed probe makes all wait.
    OneSchedule,
}

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Breaking {
    /// First open time, in seconds.
    pub base: f64,
    /// Longest open time.
    pub max: f64,
    /// Spread of the open time, as a share of it.
    pub jitter: f64,
    /// Time over which admission grows back.
    pub ramp: f64,
    /// Who may probe when.
    pub probing: Probing,
}

impl Breaking {
    /// Open for five seconds, then all at once.
    pub const PLAIN: Self = Self {
        base: 5.0,
        max: 5.0,
        jitter: 0.0,
        ramp: 0.0,
        probing: Probing::Own,
    };
    /// Open time from one second, doubling up to a minute, jittered; a ramp of five seconds.
    pub const BACKING_OFF: Self = Self {
        base: 1.0,
        max: 60.0,
        jitter: 0.5,
        ramp: 5.0,
        probing: Probing::Own,
    };
}

const SHARE: f64 = 0.5;
const LEAST: u32 = 20;
const IN_A_ROW: u32 = 7;
const PROBE_TIMEOUT: f64 = 5.0;

/// What the workloads of a node share.
#[derive(Default)]
pub(super) struct Schedule {
    probing_until: f64,
    next: f64,
}

#[derive(Clone, Copy, Default)]
struct Second {
    number: u64,
    successes: u32,
    failures: u32,
}

/// The state.
#[derive(Default)]
pub(super) struct Breaker {
    seconds: VecDeque<Second>,
    in_a_row: u32,
    open_until: Option<f64>,
    doubled: i32,
    closed_at: Option<f64>,
}

/// What it says.
pub(super) enum Gate {
    Pass,
    Probe,
    Refuse,
}

impl Breaker {
    pub(super) fn gate(
        &mut self,
        breaking: &Breaking,
        schedule: &mut Schedule,
        time: f64,
        random: &mut Random,
    ) -> Gate {
        if let Some(until) = self.open_until {
            let held = breaking.probing == Probing::OneSchedule && time < schedule.next;
            if time < until || time < schedule.probing_until || held {
                return Gate::Refuse;
            }
            schedule.probing_until = time + PROBE_TIMEOUT;
            return Gate::Probe;
        }
        if let Some(closed) = self.closed_at
            && time - closed < breaking.ramp
            && !random.chance(f64::max(0.05, (time - closed) / breaking.ramp))
        {
            return Gate::Refuse;
        }
        Gate::Pass
    }

    pub(super) fn ended(
        &mut self,
        breaking: &Breaking,
        schedule: &mut Schedule,
        (time, success, pass): (f64, bool, Pass),
        random: &mut Random,
    ) {
        if pass == Pass::Probe {
            schedule.probing_until = 0.0;
            if success {
                *self = Self {
                    closed_at: Some(time),
                    ..Self::default()
                };
            } else {
                self.doubled += 1;
                let until = time + self.open_time(breaking, random);
                self.open_until = Some(until);
                schedule.next = until;
            }
            return;
        }
        if self.open_until.is_none() && self.trips(time, success) {
            self.doubled = 0;
            self.open_until = Some(time + self.open_time(breaking, random));
        }
    }

    fn open_time(&self, breaking: &Breaking, random: &mut Random) -> f64 {
        let open = f64::min(
            breaking.max,
            breaking.base * 2f64.powi(self.doubled.min(20)),
        );
        open * random.between(1.0 - breaking.jitter, 1.0 + breaking.jitter)
    }

    fn trips(&mut self, time: f64, success: bool) -> bool {
        let number = time as u64;
        while self
            .seconds
            .front()
            .is_some_and(|s| s.number + 10 <= number)
        {
            self.seconds.pop_front();
        }
        if self.seconds.back().is_none_or(|s| s.number != number) {
            self.seconds.push_back(Second {
                number,
                ..Second::default()
            });
        }
        if let Some(last) = self.seconds.back_mut() {
            last.successes += u32::from(success);
            last.failures += u32::from(!success);
        }
        self.in_a_row = if success { 0 } else { self.in_a_row + 1 };
        let failures: u32 = self.seconds.iter().map(|s| s.failures).sum();
        let all = failures + self.seconds.iter().map(|s| s.successes).sum::<u32>();
        if success {
            false
        } else if all < LEAST {
            self.in_a_row >= IN_A_ROW
        } else {
            f64::from(failures) >= SHARE * f64::from(all)
        }
    }
}
