//! A budget whose earnings all workloads share, half of it at most for one.
//!
//! What two broken workloads spend is then what the healthy ones have earned.

use std::collections::VecDeque;

use governor_core::order::Kind;
use governor_core::units::Nanos;
use governor_core::verdict::Outcome;

use super::engine::{End, Governor, Try};

const WINDOW: Nanos = Nanos::from_secs(10);
const RESERVE: f64 = 100.0;

/// One budget for every workload.
pub struct SharedRatio {
    successes: VecDeque<Nanos>,
    retries: Vec<VecDeque<Nanos>>,
}

impl SharedRatio {
    /// For so many workloads.
    pub fn new(workloads: usize) -> Self {
        Self {
            successes: VecDeque::new(),
            retries: vec![VecDeque::new(); workloads],
        }
    }
}

fn trim(times: &mut VecDeque<Nanos>, now: Nanos) -> f64 {
    while times.front().is_some_and(|&time| now.since(time) >= WINDOW) {
        times.pop_front();
    }
    times.len() as f64
}

impl Governor for SharedRatio {
    type Pass = ();

    fn admit(&mut self, workload: usize, attempt: &Try) -> Option<()> {
        let now = attempt.now;
        if attempt.kind() == Kind::First {
            return Some(());
        }
        let allowance = 0.1 * trim(&mut self.successes, now) + RESERVE;
        let counts: Vec<f64> = self.retries.iter_mut().map(|own| trim(own, now)).collect();
        let others = counts
            .iter()
            .enumerate()
            .any(|(other, &count)| other != workload && count > 0.0);
        let within = counts.iter().sum::<f64>() < allowance;
        if !within || (others && counts[workload] >= 0.5 * allowance) {
            return None;
        }
        self.retries[workload].push_back(now);
        Some(())
    }

    fn settle(&mut self, _workload: usize, _pass: (), end: End) {
        if end.outcome == Outcome::Success {
            self.successes.push_back(end.now);
        }
    }
}
