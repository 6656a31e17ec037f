//! How attempts ended in the last minute, by workload and destination: the
//! difference of copies of the ledgers.

use std::collections::{HashMap, VecDeque};

use governor_core::key::{DestinationKey, WorkloadKey, plain};
use governor_core::ledger::WorkloadLedger;
use governor_core::units::Nanos;

use super::restore::{Ended, OfOne, SPAN};
use crate::status;

/// What is longer ago is forgotten.
const KEPT: Nanos = Nanos::from_secs(60);
/// Entries that are kept of what ended before the last [`SPAN`]: 5 MB. Where
/// there are more, the last seconds tell enough.
const MOST: usize = 100_000;

/// The last minute, look by look.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    looked: Option<Nanos>,
    before: HashMap<WorkloadKey, Ended>,
    spans: VecDeque<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    from: Nanos,
    ended: Vec<(WorkloadKey, Ended)>,
}

impl Outcomes {
    /// Takes up the ledgers as they are at `now`.
    pub fn take(&mut self, now: Nanos, ledgers: &[(WorkloadKey, WorkloadLedger)]) {
        let after = |(key, ledger): &(WorkloadKey, WorkloadLedger)| {
            let (well, badly) = status::ended(ledger);
            (*key, Ended { well, badly })
        };
        self.count(now, ledgers.iter().map(after).collect());
    }

    fn count(&mut self, now: Nanos, after: HashMap<WorkloadKey, Ended>) {
        if let Some(from) = self.looked.replace(now) {
            let ended = after.iter().map(|(key, after)| {
                // A ledger that was not there began at 0.
                let before = self.before.get(key).copied().unwrap_or_default();
                let ended = Ended {
                    well: after.well.saturating_sub(before.well),
                    badly: after.badly.saturating_sub(before.badly),
                };
                (*key, ended)
            });
            let ended = ended.filter(|(_, ended)| ended.all() > 0).collect();
            self.spans.push_back(Span { from, ended });
        }
        self.before = after;
        let mut kept: usize = self.spans.iter().map(|span| span.ended.len()).sum();
        while let Some(span) = self.spans.front() {
            let ago = now.since(span.from);
            if ago <= SPAN || (ago <= KEPT && kept <= MOST) {
                break;
            }
            kept -= span.ended.len();
            self.spans.pop_front();
        }
    }

    /// How they ended since then, of each workload; at one destination, or at all.
    pub fn since(&self, since: Nanos, destination: Option<DestinationKey>) -> Vec<OfOne> {
        let now = self.looked.unwrap_or_default();
        let mut sums: HashMap<u64, OfOne> = HashMap::new();
        for span in self.spans.iter().filter(|span| span.from >= since) {
            let recent = now.since(span.from) <= SPAN;
            for (key, ended) in &span.ended {
                // Of whatever network namespace: an order names the address.
                let at = DestinationKey {
                    address: plain(key.destination.address),
                    ..key.destination
                };
                if destination.is_some_and(|destination| destination != at) {
                    continue;
                }
                let workload = key.workload;
                let sum = sums.entry(workload).or_insert(OfOne {
                    workload,
                    ..OfOne::default()
                });
                sum.lately = sum.lately.and(*ended);
                if recent {
                    sum.recently = sum.recently.and(*ended);
                }
            }
        }
        sums.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::scope::ANYWHERE;

    fn key(workload: u64, port: u32) -> WorkloadKey {
        WorkloadKey {
            workload,
            destination: DestinationKey { port, ..ANYWHERE },
        }
    }

    const fn ended(well: u64, badly: u64) -> Ended {
        Ended { well, badly }
    }

    /// Of all workloads: in the last seconds, and in all that is known.
    fn sums(of: &[OfOne]) -> [Ended; 2] {
        let sum = |part: fn(&OfOne) -> Ended| of.iter().map(part).fold(ended(0, 0), Ended::and);
        [sum(|one| one.recently), sum(|one| one.lately)]
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(100_000 + millis)
    }

    #[test]
    fn what_ended_before_the_first_look_is_history() {
        let mut outcomes = Outcomes::default();
        outcomes.count(at(0), [(key(1, 80), ended(1_000, 1_000))].into());
        assert_eq!(outcomes.since(Nanos(0), None), []);
        outcomes.count(at(500), [(key(1, 80), ended(1_007, 1_003))].into());
        assert_eq!(sums(&outcomes.since(Nanos(0), None)), [ended(7, 3); 2]);
    }

    #[test]
    fn workloads_and_destinations_are_told_apart() {
        let mut outcomes = Outcomes::default();
        outcomes.count(at(0), [(key(1, 80), ended(5, 0))].into());
        let later = [
            (key(1, 80), ended(9, 1)),
            (key(2, 80), ended(3, 2)),
            (key(2, 443), ended(0, 8)),
        ];
        outcomes.count(at(500), later.into());
        let at_80 = Some(key(0, 80).destination);
        assert_eq!(sums(&outcomes.since(Nanos(0), at_80)), [ended(7, 3); 2]);
        assert_eq!(sums(&outcomes.since(Nanos(0), None)), [ended(7, 11); 2]);
        let mut each = outcomes.since(Nanos(0), None);
        each.sort_by_key(|one| one.workload);
        assert_eq!(
            [each[0].lately, each[1].lately],
            [ended(4, 1), ended(3, 10)]
        );
    }

    #[test]
    fn the_last_five_seconds_and_the_last_minute_are_known_and_of_them_those_since_a_time() {
        let mut outcomes = Outcomes::default();
        for second in 0..=80 {
            outcomes.count(at(second * 1_000), [(key(1, 80), ended(second, 0))].into());
        }
        let since = |since| sums(&outcomes.since(since, None));
        assert_eq!(since(Nanos(0)), [ended(5, 0), ended(60, 0)]);
        assert_eq!(since(at(50_000)), [ended(5, 0), ended(30, 0)]);
        assert_eq!(since(at(78_000)), [ended(2, 0); 2]);
    }

    #[test]
    fn of_very_many_the_last_five_seconds_are_kept() {
        let mut outcomes = Outcomes::default();
        for second in 0..=20 {
            let all = (0..10_000).map(|id| (key(id, 80), ended(second, 0)));
            outcomes.count(at(second * 1_000), all.collect());
        }
        let kept: usize = outcomes.spans.iter().map(|span| span.ended.len()).sum();
        assert_eq!(kept, MOST);
        let of_all = [ended(50_000, 0), ended(100_000, 0)];
        assert_eq!(sums(&outcomes.since(Nanos(0), None)), of_all);
    }

    #[test]
    fn a_ledger_that_is_forgotten_and_begins_anew_takes_nothing_away() {
        let mut outcomes = Outcomes::default();
        outcomes.count(at(0), [(key(1, 80), ended(500, 0))].into());
        outcomes.count(at(500), HashMap::new());
        outcomes.count(at(1_000), [(key(1, 80), ended(4, 1))].into());
        assert_eq!(sums(&outcomes.since(Nanos(0), None)), [ended(4, 1); 2]);
    }
}
