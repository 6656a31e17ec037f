//! How attempts ended in the last seconds, by destination: the difference of
//! copies of the ledgers.

use std::collections::{HashMap, VecDeque};

use governor_core::key::{DestinationKey, WorkloadKey, plain};
use governor_core::ledger::WorkloadLedger;
use governor_core::units::Nanos;

use super::restore::{Ended, SPAN};
use crate::status;

/// The last [`SPAN`], look by look.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    looked: Option<Nanos>,
    before: HashMap<WorkloadKey, Ended>,
    spans: VecDeque<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    from: Nanos,
    ended: HashMap<DestinationKey, Ended>,
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
            let mut ended: HashMap<_, Ended> = HashMap::new();
            for (key, after) in &after {
                // A ledger that was not there began at 0.
                let before = self.before.get(key).copied().unwrap_or_default();
                // Of whatever network namespace: an order names the address.
                let destination = DestinationKey {
                    address: plain(key.destination.address),
                    ..key.destination
                };
                let sum = ended.entry(destination).or_default();
                sum.well += after.well.saturating_sub(before.well);
                sum.badly += after.badly.saturating_sub(before.badly);
            }
            self.spans.push_back(Span { from, ended });
        }
        self.before = after;
        let old = |span: &Span| now.since(span.from) > SPAN;
        while self.spans.front().is_some_and(old) {
            self.spans.pop_front();
        }
    }

    /// How they ended since then; at one destination, or at all.
    pub fn since(&self, since: Nanos, destination: Option<DestinationKey>) -> Ended {
        let spans = self.spans.iter().filter(|span| span.from >= since);
        let wanted = spans
            .flat_map(|span| &span.ended)
            .filter(|(key, _)| destination.is_none_or(|destination| destination == **key));
        wanted.fold(Ended::default(), |sum, (_, ended)| Ended {
            well: sum.well + ended.well,
            badly: sum.badly + ended.badly,
        })
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

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(100_000 + millis)
    }

    #[test]
    fn what_ended_before_the_first_look_is_history() {
        let mut outcomes = Outcomes::default();
        outcomes.count(at(0), [(key(1, 80), ended(1_000, 1_000))].into());
        assert_eq!(outcomes.since(Nanos(0), None), ended(0, 0));
        outcomes.count(at(500), [(key(1, 80), ended(1_007, 1_003))].into());
        assert_eq!(outcomes.since(Nanos(0), None), ended(7, 3));
    }

    #[test]
    fn workloads_add_up_and_destinations_are_told_apart() {
        let mut outcomes = Outcomes::default();
        outcomes.count(at(0), [(key(1, 80), ended(5, 0))].into());
        let later = [
            (key(1, 80), ended(9, 1)),
            (key(2, 80), ended(3, 2)),
            (key(2, 443), ended(0, 8)),
        ];
        outcomes.count(at(500), later.into());
        let at_80 = Some(key(0, 80).destination);
        assert_eq!(outcomes.since(Nanos(0), at_80), ended(7, 3));
        assert_eq!(outcomes.since(Nanos(0), None), ended(7, 11));
    }

    #[test]
    fn only_the_last_five_seconds_count_and_of_them_those_since_a_time() {
        let mut outcomes = Outcomes::default();
        for second in 0..=20 {
            outcomes.count(at(second * 1_000), [(key(1, 80), ended(second, 0))].into());
        }
        assert_eq!(outcomes.since(Nanos(0), None), ended(5, 0));
        assert_eq!(outcomes.since(at(18_000), None), ended(2, 0));
    }

    #[test]
    fn a_ledger_that_is_forgotten_and_begins_anew_takes_nothing_away() {
        let mut outcomes = Outcomes::default();
        outcomes.count(at(0), [(key(1, 80), ended(500, 0))].into());
        outcomes.count(at(500), HashMap::new());
        outcomes.count(at(1_000), [(key(1, 80), ended(4, 1))].into());
        assert_eq!(outcomes.since(Nanos(0), None), ended(4, 1));
    }
}
