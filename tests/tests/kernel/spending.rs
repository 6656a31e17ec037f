//! Exact retries as fast as all CPUs can, and whether the budget was kept.

use bytemuck::Zeroable;
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::params::{Params, concurrency};
use governor_core::trace::Step;
use governor_core::units::Nanos;
use governor_core::verdict::Outcome;

use super::hammer::{Run, hammer};
use super::{Kernel, WORKLOADS, now};

const MILLI: u64 = 1_000_000;
const EPOCH: u64 = 100 * MILLI;
const WINDOW: u64 = 10;
/// Retries that nothing has earned.
pub const RESERVE: u64 = 80;

/// The budget and nothing else: a window of a second, a tenth, and the reserve.
pub const BUDGET_ALONE: Params = Params {
    budget_epoch: EPOCH,
    budget_percent: 1_000,
    reserve_ceiling: RESERVE as u32,
    reserve_floor: RESERVE as u32,
    breaker_enabled: 0,
    concurrency: concurrency::DISABLED,
    ..Params::DEFAULT
};

/// Successes and admitted retries, as their callers saw them.
#[derive(Default)]
pub struct Log {
    /// Successes.
    pub successes: Vec<Run>,
    /// Retries that were admitted.
    pub retries: Vec<Run>,
    /// Retries that were wanted.
    pub asked: u64,
}

impl Log {
    fn merge(logs: Vec<Self>) -> Self {
        let mut all = Self::default();
        for log in logs {
            all.successes.extend(log.successes);
            all.retries.extend(log.retries);
            all.asked += log.asked;
        }
        all
    }

    /// The fullest window: retries in it, and what it allowed.
    ///
    /// Looked at from each admission: retries that were over before it began count for sure, and a
    /// success may count if it was not over before the window began, and had begun before the
    /// admission was over. (An admission counts in the epoch of its own time; a success, of a CPU
    /// whose clock is behind, in a later one at most.)
    pub fn fullest(&self, percent: u64, reserve: u64) -> (u64, u64) {
        let sorted = |runs: &[Run], key: fn(&Run) -> u64| {
            let mut times: Vec<u64> = runs.iter().map(key).collect();
            times.sort_unstable();
            times
        };
        let epochs = sorted(&self.retries, |run| run.before / EPOCH);
        let over = sorted(&self.retries, |run| run.after);
        let begun = sorted(&self.successes, |run| run.before);
        let done = sorted(&self.successes, |run| run.after);
        let below = |times: &[u64], bound: u64| times.partition_point(|it| *it < bound) as u64;
        let allowed = |from: u64, to: u64| {
            let successes = below(&begun, to + 1).saturating_sub(below(&done, from * EPOCH));
            successes * percent / 100 + reserve
        };
        let mut worst = (0, 1);
        let mut take = |retries: u64, allowed: u64| {
            if retries * worst.1 > worst.0 * allowed {
                worst = (retries, allowed);
            }
        };
        for run in &self.retries {
            let first = (run.before / EPOCH).saturating_sub(WINDOW - 1);
            // Those of older epochs are over as well.
            let before = below(&over, run.before).saturating_sub(below(&epochs, first));
            take(before + 1, allowed(first, run.after));
        }
        // At the end of each epoch nothing of it is missed.
        for epoch in epochs.iter().copied() {
            let first = epoch.saturating_sub(WINDOW - 1);
            let retries = below(&epochs, epoch + 1) - below(&epochs, first);
            take(retries, allowed(first, (epoch + 1) * EPOCH));
        }
        worst
    }
}

/// Every thread: so many exact retries for each success, as fast as it can.
pub fn spend(kernel: &Kernel, retries_per_success: u32, length: Nanos) -> Log {
    let until = now() + length.0;
    let logs = hammer(kernel, |hand| {
        let workload = WORKLOADS[hand.number / 2 % 2];
        let mut log = Log::default();
        while now() < until {
            hand.run(attempt(workload, Evidence::None));
            log.successes
                .push(hand.run(end_of_exchange(workload, Outcome::Success)));
            for _ in 0..retries_per_success {
                log.asked += 1;
                let run = hand.run(attempt(workload, Evidence::Exact));
                if Decision::unpack(run.result) == Decision::Go {
                    log.retries.push(run);
                }
            }
        }
        log
    });
    Log::merge(logs)
}

/// An attempt of a workload.
pub fn attempt(workload: u64, evidence: Evidence) -> Step {
    Step {
        workload,
        evidence: evidence as u32,
        random: u32::MAX / 2,
        ..Step::zeroed()
    }
}

/// The end of an exchange of a workload.
pub fn end_of_exchange(workload: u64, outcome: Outcome) -> Step {
    Step {
        what: 2,
        workload,
        outcome: outcome as u32,
        random: u32::MAX / 2,
        ..Step::zeroed()
    }
}
