//! What was counted in the last minute, by destination. Counts since the first
//! call hide a storm of five minutes behind a quiet day. The ledgers stay the only
//! place where anything is counted: these are differences of copies of them.

use std::collections::{HashMap, VecDeque};

use governor_core::key::DestinationKey;
use governor_core::ledger::count;
use governor_core::limiter::OCTAVES;
use governor_core::units::Nanos;

use crate::kernel::{Sample, Snapshot};

/// What is longer ago is forgotten.
const KEPT: Nanos = Nanos::from_secs(60);
/// Numbers that are kept, 32 bytes each: 10 MB. A busy destination has some
/// twenty in a sample. Where there are more, less than a minute is known.
const MOST: usize = 300_000;
/// Counters of a workload, then latencies.
const NUMBERS: usize = count::ALL + OCTAVES * 4;

/// The last minute, sample by sample.
#[derive(Debug, Default)]
pub struct Samples {
    last: Option<Sample>,
    spans: VecDeque<Span>,
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
    /// Takes up what is counted by now.
    pub fn take(&mut self, now: Sample) {
        let at = now.at;
        if let Some(last) = &self.last {
            let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
            let counted = last.until(&now);
            let counted = counted.map(|(key, which, number)| (key, which, small(number)));
            self.spans.push_back(Span {
                from: last.at,
                counted: counted.collect(),
            });
        }
        self.last = Some(now);
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
        let spans = self.spans.iter().flat_map(|span| &span.counted);
        let before = spans.map(|(key, which, number)| (*key, *which, u64::from(*number)));
        let now = Sample::of(now);
        let since = last.until(&now);
        let mut of: HashMap<_, Counted> = HashMap::new();
        for (key, which, number) in before.chain(since) {
            of.entry(key).or_default().0[usize::from(which)] += number;
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

    /// As [`governor_core::ledger::DestinationLedger::latency`].
    pub fn latencies(&self) -> &[u64] {
        &self.0[count::ALL..]
    }
}

#[cfg(test)]
mod tests {
    use governor_core::key::WorkloadKey;
    use governor_core::ledger::WorkloadLedger;

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

    fn snapshot(seconds: u64, workloads: &[(WorkloadKey, WorkloadLedger)]) -> Snapshot {
        Snapshot {
            at: Nanos::from_secs(1_000 + seconds),
            workloads: workloads.to_vec(),
            ..Snapshot::default()
        }
    }

    fn take(samples: &mut Samples, seconds: u64, workloads: &[(WorkloadKey, WorkloadLedger)]) {
        samples.take(Sample::of(&snapshot(seconds, workloads)));
    }

    /// First tries at port 80 in the last minute, and for how long they were counted.
    fn recently(
        samples: &Samples,
        seconds: u64,
        workloads: &[(WorkloadKey, WorkloadLedger)],
    ) -> (u64, Nanos) {
        let recently = samples.recently(&snapshot(seconds, workloads));
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
        take(&mut samples, 0, &[first_tries(1, 1_000)]);
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
            take(&mut samples, second, &[first_tries(1, second)]);
        }
        let now = |second| recently(&samples, second, &[first_tries(1, second)]);
        assert_eq!(now(200), (60, Nanos::from_secs(60)));
        assert_eq!(now(204), (64, Nanos::from_secs(64)));
    }

    #[test]
    fn a_workload_whose_ledger_is_forgotten_takes_nothing_away_from_the_others() {
        let mut samples = Samples::default();
        take(&mut samples, 0, &[first_tries(1, 500), first_tries(2, 10)]);
        take(&mut samples, 5, &[first_tries(2, 13)]);
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
            take(&mut samples, round * 5, &workloads.collect::<Vec<_>>());
        }
        assert_eq!(samples.kept(), MOST);
        assert_eq!(
            recently(&samples, 50, &[first_tries(1, 10)]),
            (6, Nanos::from_secs(30))
        );
    }
}
