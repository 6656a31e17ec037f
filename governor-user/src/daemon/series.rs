//! Counters as metrics show them: by name, bounded in number, never falling.
//!
//! The kernel counts by cgroup id, metrics by path: a unit that restarts is one
//! series with two ledgers for a while. When the old ledger is forgotten its
//! counts stay in the sum, else Prometheus would take the fall for a restart
//! and count the rest twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use governor_core::key::WorkloadKey;
use governor_core::ledger::count;

/// The rest is shown under this name, as destination and as workload.
pub const OTHER: &str = "other";
/// How long a series stays after its last ledger has gone.
const STAYS: Duration = Duration::from_secs(3600);

/// Counts by [`count`].
pub type Counts = [u64; count::ALL];
/// Destination and workload.
pub type Pair = (String, String);

/// What has been shown.
#[derive(Debug)]
pub struct Series {
    most: usize,
    kept: BTreeMap<Pair, Kept>,
    last: HashMap<WorkloadKey, (Pair, Counts)>,
}

#[derive(Debug)]
struct Kept {
    /// Counts of ledgers that are gone.
    gone: Counts,
    /// When it last had a ledger.
    seen: Instant,
}

impl Series {
    /// At most `most` pairs.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            kept: BTreeMap::new(),
            last: HashMap::new(),
        }
    }

    /// Takes up the ledgers as they are at `now`; the counts to show.
    pub fn update(
        &mut self,
        ledgers: impl Iterator<Item = (WorkloadKey, Pair, Counts)>,
        now: Instant,
    ) -> BTreeMap<Pair, Counts> {
        let mut current = HashMap::new();
        for (key, pair, counts) in ledgers {
            current.insert(key, (self.admit(pair, now), counts));
        }
        for (key, (pair, before)) in std::mem::take(&mut self.last) {
            let forgotten = current
                .get(&key)
                .is_none_or(|(_, counts)| total(counts) < total(&before));
            if forgotten && let Some(kept) = self.kept.get_mut(&pair) {
                add(&mut kept.gone, &before);
            }
        }
        self.kept
            .retain(|_, kept| now.duration_since(kept.seen) < STAYS);
        let mut shown: BTreeMap<_, _> = self
            .kept
            .iter()
            .map(|(pair, kept)| (pair.clone(), kept.gone))
            .collect();
        for (pair, counts) in current.values() {
            add(shown.entry(pair.clone()).or_insert([0; count::ALL]), counts);
        }
        self.last = current;
        shown
    }

    /// Destinations that are shown by name.
    pub fn destinations(&self) -> BTreeSet<&str> {
        self.kept
            .keys()
            .map(|(destination, _)| destination.as_str())
            .collect()
    }

    /// Whether a pair is shown by name.
    pub fn shows(&self, pair: &Pair) -> bool {
        self.kept.contains_key(pair)
    }

    fn admit(&mut self, pair: Pair, now: Instant) -> Pair {
        let other = (OTHER.to_owned(), OTHER.to_owned());
        let full = self.kept.len() - usize::from(self.kept.contains_key(&other)) >= self.most;
        let pair = if full && !self.kept.contains_key(&pair) {
            other
        } else {
            pair
        };
        let kept = self.kept.entry(pair.clone()).or_insert(Kept {
            gone: [0; count::ALL],
            seen: now,
        });
        kept.seen = now;
        pair
    }
}

fn total(counts: &Counts) -> u64 {
    counts.iter().sum()
}

fn add(sum: &mut Counts, counts: &Counts) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor_core::key::DestinationKey;

    fn ledger(id: u64, workload: &str, first: u64) -> (WorkloadKey, Pair, Counts) {
        let destination = DestinationKey {
            address: [0; 16],
            port: 0,
            group: 7,
        };
        let mut counts = [0; count::ALL];
        counts[count::FIRST] = first;
        (
            WorkloadKey {
                workload: id,
                destination,
            },
            ("auth".to_owned(), workload.to_owned()),
            counts,
        )
    }

    fn first(shown: &BTreeMap<Pair, Counts>, destination: &str, workload: &str) -> Option<u64> {
        let counts = shown.get(&(destination.to_owned(), workload.to_owned()));
        counts.map(|counts| counts[count::FIRST])
    }

    #[test]
    fn a_unit_that_restarts_is_one_series_that_never_falls() {
        let (mut series, now) = (Series::new(10), Instant::now());
        series.update([ledger(1, "/a", 900)].into_iter(), now);
        let shown = series.update([ledger(1, "/a", 900), ledger(2, "/a", 50)].into_iter(), now);
        assert_eq!(first(&shown, "auth", "/a"), Some(950));
        let shown = series.update([ledger(2, "/a", 60)].into_iter(), now);
        assert_eq!(first(&shown, "auth", "/a"), Some(960));
        let shown = series.update([ledger(2, "/a", 61)].into_iter(), now);
        assert_eq!(first(&shown, "auth", "/a"), Some(961));
    }

    #[test]
    fn a_ledger_that_was_forgotten_and_made_anew_goes_on_counting() {
        let (mut series, now) = (Series::new(10), Instant::now());
        series.update([ledger(1, "/a", 900)].into_iter(), now);
        let shown = series.update([ledger(1, "/a", 5)].into_iter(), now);
        assert_eq!(first(&shown, "auth", "/a"), Some(905));
    }

    #[test]
    fn pairs_beyond_the_bound_are_shown_as_other_and_none_is_lost() {
        let (mut series, now) = (Series::new(2), Instant::now());
        let ledgers = || (0..5).map(|id| ledger(id, &format!("/{id}"), 10));
        let shown = series.update(ledgers(), now);
        assert_eq!(shown.len(), 3);
        assert_eq!(first(&shown, OTHER, OTHER), Some(30));
        // Who was first stays: no series moves.
        let again = series.update(ledgers().collect::<Vec<_>>().into_iter().rev(), now);
        assert_eq!(again, shown);
    }

    #[test]
    fn a_series_without_a_ledger_goes_after_an_hour_and_makes_room() {
        let (mut series, now) = (Series::new(1), Instant::now());
        series.update([ledger(1, "/a", 1)].into_iter(), now);
        assert_eq!(
            first(&series.update(std::iter::empty(), now), "auth", "/a"),
            Some(1)
        );
        assert!(series.update(std::iter::empty(), now + STAYS).is_empty());
        let shown = series.update([ledger(2, "/b", 1)].into_iter(), now + STAYS);
        assert_eq!(first(&shown, "auth", "/b"), Some(1));
    }
}
