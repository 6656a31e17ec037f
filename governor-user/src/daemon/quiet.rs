//! One workload does not drown the others out in the event log.
//!
//! The kernel tells of a denial once a second and endpoint, and a workload may
//! have two thousand endpoints: nine that scanned addresses left the log of a
//! thousand events with the last 80 ms.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Events of one workload that are told in one [`ROUND`].
const MOST: u32 = 16;
const ROUND: Duration = Duration::from_secs(1);
/// When nothing waits to be told.
const LONG: Duration = Duration::from_secs(3600);

/// What was told in the round that runs.
#[derive(Debug, Default)]
pub struct Quiet {
    since: Option<Instant>,
    told: HashMap<u64, u32>,
}

impl Quiet {
    /// Notes an event of a workload; whether to tell it.
    pub fn tells(&mut self, workload: u64) -> bool {
        let told = self.told.entry(workload).or_default();
        *told = told.saturating_add(1);
        *told <= MOST
    }

    /// How long [`Self::over`] may wait.
    pub fn patience(&self) -> Duration {
        match self.told.is_empty() {
            true => LONG,
            false => ROUND,
        }
    }

    /// Before events that came by `now`: which workloads had more than was told
    /// in the round that is over, and how many.
    pub fn over(&mut self, now: Instant) -> Vec<(u64, u32)> {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < ROUND {
            return Vec::new();
        }
        self.since = Some(now);
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
        let start = Instant::now();
        assert!(quiet.over(start).is_empty());
        let flood = (0..2_000).filter(|_| quiet.tells(1)).count();
        let other = (0..3).filter(|_| quiet.tells(2)).count();
        assert_eq!((flood, other), (MOST as usize, 3));
        assert!(quiet.over(start).is_empty(), "the round is not over");
        assert_eq!(quiet.patience(), ROUND);
        assert_eq!(quiet.over(start + ROUND), [(1, 2_000 - MOST)]);
        assert!(quiet.tells(1));
    }
}
