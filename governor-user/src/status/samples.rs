//! What was counted in the last minute, by destination. Counts since the first
//! call hide a storm of five minutes behind a quiet day. The ledgers stay the only
//! place where anything is counted: these are differences of copies of them.

use std::collections::{HashMap, VecDeque};

use governor_core::key::{DestinationKey, WorkloadKey};
use governor_core::ledger::{DestinationLedger, WorkloadLedger, count};
use governor_core::limiter::OCTAVES;
use governor_core::units::Nanos;

use crate::kernel::Snapshot;

/// What is longer ago is forgotten.
const KEPT: Nanos = Nanos::from_secs(60);
/// Numbers that are kept, 32 bytes each: 10 MB. A busy destination has some
/// twenty in a sample. Where there are more, less than a minute is known.
const MOST: usize = 300_000;
/// Counters of a workload, then latencies.
const NUMBERS: usize = count::ALL + LATENCIES;
const LATENCIES: usize = OCTAVES * 4;

type Workloads = [(WorkloadKey, WorkloadLedger)];
type Destinations = [(DestinationKey, DestinationLedger)];

/// The last minute, sample by sample.
#[derive(Debug, Default)]
pub struct Samples {
    last: Option<Sample>,
    spans: VecDeque<Span>,
}

/// The ledgers at one time: 1.2 KB for each pair of a workload and a destination.
#[derive(Debug)]
struct Sample {
    at: Nanos,
    counts: HashMap<WorkloadKey, [u64; count::ALL]>,
    latencies: HashMap<DestinationKey, [u64; LATENCIES]>,
}

/// What was counted from one sample to the next; numbers that are not 0.
#[derive(Debug)]
struct Span {
    from: Nanos,
    counted: Vec<(DestinationKey, u16, u32)>,
}

/// What was counted lately.
#[derive(Debug)]
pub struct Recently {
    /// For how long.
    pub lasting: Nanos,
    of: HashMap<DestinationKey, Counted>,
}

/// What one destination counted in a while.
#[derive(Clone, Debug)]
pub struct Counted([u64; NUMBERS]);

impl Samples {
    /// Takes up the ledgers as they are at `at`.
    pub fn take(&mut self, at: Nanos, workloads: &Workloads, destinations: &Destinations) {
        if let Some(last) = &self.last {
            let counted = last.until(workloads, destinations);
            let counted = counted.iter().flat_map(|(key, counted)| {
                let numbers = (0..).zip(counted.0).filter(|(_, number)| *number > 0);
                let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
                numbers.map(move |(which, number)| (*key, which, small(number)))
            });
            self.spans.push_back(Span {
                from: last.at,
                counted: counted.collect(),
            });
        }
        let counts = workloads.iter().map(|(key, it)| (*key, it.counts));
        let latencies = destinations.iter().map(|(key, it)| (*key, it.latency));
        self.last = Some(Sample {
            at,
            counts: counts.collect(),
            latencies: latencies.collect(),
        });
        let mut kept = self.kept();
        while let Some(oldest) = self.spans.front() {
            let next = self.spans.get(1).map_or(at, |next| next.from);
            // Without the oldest it would be less than a minute.
            if kept <= MOST && at.since(next) < KEPT {
                break;
            }
            kept -= oldest.counted.len();
            self.spans.pop_front();
        }
    }

    /// What was counted until `now`; none where nothing was there to compare with.
    pub fn recently(&self, now: &Snapshot) -> Option<Recently> {
        let last = self.last.as_ref()?;
        let from = self.spans.front().map_or(last.at, |span| span.from);
        let mut of = last.until(&now.workloads, &now.destinations);
        for (key, which, number) in self.spans.iter().flat_map(|span| &span.counted) {
            of.entry(*key).or_default().0[usize::from(*which)] += u64::from(*number);
        }
        Some(Recently {
            lasting: now.at.since(from),
            of,
        })
    }

    fn kept(&self) -> usize {
        self.spans.iter().map(|span| span.counted.len()).sum()
    }
}

impl Sample {
    /// What was counted since. Of each workload by itself: the sum falls when the
    /// ledger of one that has gone is forgotten.
    fn until(
        &self,
        workloads: &Workloads,
        destinations: &Destinations,
    ) -> HashMap<DestinationKey, Counted> {
        let mut of: HashMap<_, Counted> = HashMap::new();
        for (key, ledger) in workloads {
            let (counts, _) = of.entry(key.destination).or_default().parts();
            add(counts, &ledger.counts, self.counts.get(key));
        }
        for (key, ledger) in destinations {
            let (_, latencies) = of.entry(*key).or_default().parts();
            add(latencies, &ledger.latency, self.latencies.get(key));
        }
        of
    }
}

/// A ledger that was not there began at 0; one that begins anew takes nothing away.
fn add<const N: usize>(sums: &mut [u64], now: &[u64; N], before: Option<&[u64; N]>) {
    let before = before.unwrap_or(&[0; N]);
    for (sum, (now, before)) in sums.iter_mut().zip(now.iter().zip(before)) {
        *sum += now.saturating_sub(*before);
    }
}

impl Recently {
    /// At one destination.
    pub fn at(&self, destination: &DestinationKey) -> &Counted {
        static NOTHING: Counted = Counted([0; NUMBERS]);
        self.of.get(destination).unwrap_or(&NOTHING)
    }
}

impl Default for Counted {
    fn default() -> Self {
        Self([0; NUMBERS])
    }
}

impl Counted {
    /// A [`count`].
    pub fn of(&self, which: usize) -> u64 {
        self.0[..count::ALL].get(which).copied().unwrap_or(0)
    }

    /// As [`DestinationLedger::latency`].
    pub fn latencies(&self) -> &[u64] {
        &self.0[count::ALL..]
    }

    fn parts(&mut self) -> (&mut [u64], &mut [u64]) {
        self.0.split_at_mut(count::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(port: u32) -> DestinationKey {
        DestinationKey {
            address: [0; 16],
            port,
            group: 0,
        }
    }

    /// What a workload has counted at port 80: first tries.
    fn first_tries(workload: u64, tries: u64) -> (WorkloadKey, WorkloadLedger) {
        let key = WorkloadKey {
            workload,
            destination: destination(80),
        };
        let mut ledger = WorkloadLedger::default();
        ledger.counts[count::FIRST] = tries;
        (key, ledger)
    }

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(1_000 + seconds)
    }

    /// First tries at port 80 in the last minute, and for how long they were counted.
    fn recently(samples: &Samples, seconds: u64, workloads: &Workloads) -> (u64, Nanos) {
        let recently = samples.recently(&Snapshot {
            at: at(seconds),
            workloads: workloads.to_vec(),
            ..Snapshot::default()
        });
        let recently = recently.expect("a sample was taken");
        (
            recently.at(&destination(80)).of(count::FIRST),
            recently.lasting,
        )
    }

    #[test]
    fn before_the_first_sample_nothing_is_known() {
        assert!(Samples::default().recently(&Snapshot::default()).is_none());
    }

    #[test]
    fn what_was_counted_before_the_first_sample_is_not_recent() {
        let mut samples = Samples::default();
        samples.take(at(0), &[first_tries(1, 1_000)], &[]);
        let now = [first_tries(1, 1_007), first_tries(2, 5)];
        assert_eq!(
            recently(&samples, 2, &now),
            (12, Nanos::from_secs(2)),
            "a ledger that was not there began at 0"
        );
        assert_eq!(recently(&samples, 2, &[]), (0, Nanos::from_secs(2)));
    }

    #[test]
    fn a_minute_is_known_and_what_came_since_the_last_sample() {
        let mut samples = Samples::default();
        for second in (0..=200).step_by(5) {
            samples.take(at(second), &[first_tries(1, second)], &[]);
        }
        let now = |second| recently(&samples, second, &[first_tries(1, second)]);
        assert_eq!(now(200), (60, Nanos::from_secs(60)));
        assert_eq!(now(204), (64, Nanos::from_secs(64)));
    }

    #[test]
    fn a_workload_whose_ledger_is_forgotten_takes_nothing_away_from_the_others() {
        let mut samples = Samples::default();
        samples.take(at(0), &[first_tries(1, 500), first_tries(2, 10)], &[]);
        samples.take(at(5), &[first_tries(2, 13)], &[]);
        let now = [first_tries(1, 4), first_tries(2, 14)];
        assert_eq!(recently(&samples, 6, &now).0, 8);
    }

    #[test]
    fn of_very_many_destinations_less_than_a_minute_is_kept() {
        let mut samples = Samples::default();
        for round in 0..=10 {
            let workloads = (0..10_000).map(|port| {
                let (mut key, mut ledger) = first_tries(1, round);
                key.destination.port = port;
                for count in &mut ledger.counts[1..5] {
                    *count = round;
                }
                (key, ledger)
            });
            samples.take(at(round * 5), &workloads.collect::<Vec<_>>(), &[]);
        }
        assert_eq!(samples.kept(), MOST);
        assert_eq!(
            recently(&samples, 50, &[first_tries(1, 10)]),
            (6, Nanos::from_secs(30))
        );
    }
}
