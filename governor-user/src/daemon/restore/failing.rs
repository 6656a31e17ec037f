//! What share of attempts fails, so that no single workload decides for all:
//! one that polls a wrong port must not hold the retries of every other, one
//! that serves itself must not hide that the others fail.
//!
//! Each workload with [`ENOUGH`] outcomes has one vote, its own share; those
//! with fewer are taken together until they have as many. The share that a
//! quarter of the votes reach counts, and at least two of them, unless there is
//! only one: with a median the failures of one destination among many, or of a
//! third of the callers, would not be seen.

use governor_core::units::BasisPoints;

/// With fewer outcomes there is no judgement.
pub const ENOUGH: u64 = 20;

/// How attempts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Successes.
    pub well: u64,
    /// Failures; denials are none.
    pub badly: u64,
}

impl Ended {
    /// With those of another.
    pub const fn and(self, other: Self) -> Self {
        Self {
            well: self.well.saturating_add(other.well),
            badly: self.badly.saturating_add(other.badly),
        }
    }

    /// How many there are.
    pub const fn all(self) -> u64 {
        self.well.saturating_add(self.badly)
    }

    /// The share of failures, where there are enough outcomes to tell.
    fn failing(self) -> Option<BasisPoints> {
        let share = (u128::from(self.badly) * 10_000).checked_div(u128::from(self.all()));
        let share = share.and_then(|share| u32::try_from(share).ok());
        share.filter(|_| self.all() >= ENOUGH).map(BasisPoints)
    }
}

/// How the attempts of one workload ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfOne {
    /// Cgroup id.
    pub workload: u64,
    /// In the last seconds.
    pub recently: Ended,
    /// As long ago as is known, `recently` included.
    pub lately: Ended,
}

/// What share of attempts fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Of a quarter of the workloads at least so many fail.
    pub share: BasisPoints,
    /// The workload with the largest share, by cgroup id, and that share; `None` where it fails
    /// no more than others.
    pub worst: Option<(u64, BasisPoints)>,
    /// Whether there were others to ask.
    pub asked: Asked,
}

/// Whose attempts a share of failures is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Of one workload alone.
    One,
    /// Of several.
    Several,
}

impl Failing {
    /// By one vote each; `None` where too few attempts ended. What ended lately
    /// counts only where too few did recently.
    pub fn of(mut workloads: Vec<OfOne>) -> Option<Self> {
        workloads.sort_unstable_by_key(|one| one.workload);
        let (busy, quiet): (Vec<OfOne>, Vec<OfOne>) = workloads
            .into_iter()
            .partition(|one| one.recently.all() >= ENOUGH);
        let recently: u64 = quiet.iter().map(|one| one.recently.all()).sum();
        let quiet = quiet.iter().map(|one| match recently >= ENOUGH {
            true => (one.workload, one.recently),
            false => (one.workload, one.lately),
        });
        let busy = busy.iter().map(|one| (one.workload, one.recently));
        let mut votes: Vec<(BasisPoints, Option<u64>)> = Vec::new();
        let mut together = Ended::default();
        for (workload, ended) in busy.chain(quiet) {
            if let Some(share) = ended.failing() {
                votes.push((share, Some(workload)));
                continue;
            }
            together = together.and(ended);
            if let Some(share) = together.failing() {
                votes.push((share, None));
                together = Ended::default();
            }
        }
        votes.sort_unstable_by_key(|(share, _)| std::cmp::Reverse(share.0));
        let decides = votes.len().div_ceil(4).max(2).min(votes.len());
        let (share, _) = votes.get(decides.checked_sub(1)?)?;
        let worst = votes
            .iter()
            .find_map(|(share, workload)| Some(((*workload)?, *share)));
        let asked = match votes.len() {
            1 => Asked::One,
            _ => Asked::Several,
        };
        Some(Self {
            share: *share,
            worst: worst.filter(|(_, worst)| worst > share || asked == Asked::One),
            asked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percent that fail of so many outcomes in the last seconds.
    fn busy(workload: u64, outcomes: u64, percent: u64) -> OfOne {
        let badly = outcomes * percent / 100;
        let ended = Ended {
            well: outcomes - badly,
            badly,
        };
        OfOne {
            workload,
            recently: ended,
            lately: ended,
        }
    }

    /// The same, all of it longer ago.
    fn quiet(workload: u64, outcomes: u64, percent: u64) -> OfOne {
        OfOne {
            recently: Ended::default(),
            ..busy(workload, outcomes, percent)
        }
    }

    fn share(workloads: &[OfOne]) -> Option<u32> {
        Some(Failing::of(workloads.to_vec())?.share.0 / 100)
    }

    #[test]
    fn a_share_of_failures_needs_twenty_outcomes() {
        assert_eq!(share(&[]), None);
        assert_eq!(share(&[busy(1, 19, 100)]), None);
        assert_eq!(share(&[busy(1, 20, 100)]), Some(100));
        assert_eq!(share(&[busy(1, 100, 31)]), Some(31));
    }

    #[test]
    fn one_workload_that_fails_much_decides_nothing_and_is_named() {
        let others: Vec<_> = (2..=9).map(|id| busy(id, 50, 2)).collect();
        for healthy in 1..=others.len() {
            let mut all = others[..healthy].to_vec();
            all.push(busy(1, 5_000, 100));
            let failing = Failing::of(all).unwrap();
            assert_eq!(failing.share, BasisPoints(200), "among {healthy}");
            assert_eq!(failing.worst, Some((1, BasisPoints::WHOLE)));
        }
    }

    #[test]
    fn where_all_fail_alike_none_is_called_the_worst() {
        let all = |workloads: u64| (1..=workloads).map(|id| busy(id, 50, 90)).collect();
        assert_eq!(Failing::of(all(3)).unwrap().worst, None);
        assert_eq!(
            Failing::of(all(1)).unwrap().worst,
            Some((1, BasisPoints(9_000)))
        );
    }

    #[test]
    fn one_workload_that_succeeds_much_hides_no_others() {
        let failing = [2, 3].map(|id| busy(id, 30, 90));
        let hiding = busy(1, 100_000, 0);
        assert_eq!(share(&[failing[0], failing[1], hiding]), Some(90));
    }

    #[test]
    fn a_quarter_of_the_workloads_decides() {
        let some = |bad: u64| {
            let percent = |id| if id < bad { 50 } else { 5 };
            let all: Vec<_> = (0..12).map(|id| busy(id, 20, percent(id))).collect();
            share(&all)
        };
        assert_eq!([some(2), some(3)], [Some(5), Some(50)]);
    }

    #[test]
    fn many_with_few_outcomes_each_are_judged_together() {
        let herd: Vec<_> = (0..100).map(|id| busy(id, 5, 40)).collect();
        assert_eq!(share(&herd), Some(40));
        assert_eq!(Failing::of(herd).unwrap().worst, None);
    }

    #[test]
    fn where_few_ended_in_the_last_seconds_what_ended_before_counts() {
        assert_eq!(share(&[quiet(1, 25, 80)]), Some(80));
        // A busy one alone decides nothing where a quiet one is known.
        assert_eq!(share(&[quiet(1, 25, 4), busy(2, 100, 100)]), Some(4));
    }
}
