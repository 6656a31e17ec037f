//! One workload does not drown the others out in the event log.
//!
//! The kernel tells of a denial once a second and endpoint, and a workload may
//! have two thousand endpoints: nine that scanned addresses left the log of a
//! thousand events with the last 80 ms.

use std::collections::HashMap;

use governor_core::units::Nanos;

/// Events of one workload that are told in one second.
const MOST: u32 = 16;
const SECOND: u64 = Nanos::from_secs(1).0;

/// What was told in the second that runs.
#[derive(Debug, Default)]
pub struct Quiet {
    second: u64,
    told: HashMap<u64, u32>,
}

impl Quiet {
    /// Notes an event of a workload; whether to tell it.
    pub fn tells(&mut self, workload: u64) -> bool {
        let told = self.told.entry(workload).or_default();
        *told = told.saturating_add(1);
        *told <= MOST
    }

    /// Before an event of that time: which workloads had more than was told in
    /// the second that is over now, and how many.
    pub fn over(&mut self, at: Nanos) -> Vec<(u64, u32)> {
        let second = at.0 / SECOND;
        // CPUs tell in the order they reserve, not by the clock: never back.
        if second <= self.second {
            return Vec::new();
        }
        self.second = second;
        let told = std::mem::take(&mut self.told);
        told.into_iter()
            .filter(|(_, told)| *told > MOST)
            .map(|(workload, told)| (workload, told - MOST))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_floods_is_cut_short_and_the_rest_counted() {
        let mut quiet = Quiet::default();
        let at = Nanos::from_secs(5);
        assert!(quiet.over(at).is_empty());
        let flood = (0..2_000).filter(|_| quiet.tells(1)).count();
        let other = (0..3).filter(|_| quiet.tells(2)).count();
        assert_eq!((flood, other), (MOST as usize, 3));
        assert!(quiet.over(at).is_empty(), "the second is not over");
        assert_eq!(quiet.over(Nanos::from_secs(6)), [(1, 2_000 - MOST)]);
        assert!(quiet.tells(1));
    }
}
