//! What came to a service from workloads whose breaker for it was open, by the service's own log: probes, one at a time, and
//! one in each open period.

use std::ops::Range;

use governor_tests::service::Slot;
use governor_tests::storm::report::{Outcome, Try};

use super::super::usual::SERVICE;
use super::CALLERS;
use super::measure::{Storm, is_refused};
use crate::watch::Sample;

/// The service counts in slots of 50 ms, and a try is longer in its caller's books than at the service: what overlaps for
/// less did not meet there. Probes follow each other within a millisecond.
const BOOKED: u64 = 50_000;
/// `openDuration.base x (1 - jitterPercent/100)`: the shortest open period, after a probe that failed.
const SHORTEST: u64 = 500_000;

/// Requests that the service got of workloads whose breaker was open.
pub struct Probes {
    all: Vec<Probe>,
    /// Ends of tries that ended well: whoever opened before may probe at once.
    proofs: Vec<u64>,
    /// A breaker was open at all.
    was_open: bool,
}

struct Probe {
    caller: &'static str,
    /// The breaker was known to be open since then.
    open: u64,
    /// It came to the service: not before that.
    came: u64,
    /// Its caller had left, or its answer.
    left: u64,
}

impl Probes {
    /// Of a storm, all of it. A stop takes every breaker with it; in the next governor each counts from where it is
    /// open anew.
    pub fn of(storm: &Storm) -> Self {
        let mut all = Vec::new();
        let mut was_open = false;
        for caller in CALLERS {
            let spans = open(storm, caller);
            was_open |= !spans.is_empty();
            all.extend(arrived(storm, caller, &spans));
        }
        all.sort_by_key(|probe| probe.came);
        let well = storm.taken.tries.iter();
        let well = well.filter(|each| each.outcome == Outcome::Ok);
        let mut proofs: Vec<_> = well.map(|each| each.t + each.micros).collect();
        proofs.sort_unstable();
        Self {
            all,
            proofs,
            was_open,
        }
    }

    /// Whether a breaker was open: else there is nothing to judge.
    pub fn was_open(&self) -> bool {
        self.was_open
    }

    /// How many came in these seconds of the scene.
    pub fn within(&self, storm: &Storm, from: f64, to: f64) -> usize {
        let span = storm.span(from, to);
        let came = self.all.iter().filter(|each| span.contains(&each.came));
        came.count()
    }

    /// The most that were there at one moment, of all workloads.
    pub fn at_once(&self) -> usize {
        let mut moves: Vec<(u64, i64)> = Vec::new();
        for each in &self.all {
            let gone = each.left.saturating_sub(BOOKED).max(each.came);
            // One that ends when another begins was before it.
            moves.extend([(each.came, 1), (gone, -1)]);
        }
        moves.sort_unstable();
        let mut now = 0;
        let levels = moves.into_iter().map(|(_, by)| {
            now += by;
            now
        });
        levels.max().unwrap_or(0) as usize
    }

    /// The most of one workload in one open period.
    pub fn in_one_period(&self) -> usize {
        let most = CALLERS.map(|caller| self.periods(caller).into_iter().max());
        most.into_iter().flatten().max().unwrap_or(0)
    }

    /// How many came in each open period of a workload in which any came.
    fn periods(&self, caller: &str) -> Vec<usize> {
        let mut periods: Vec<usize> = Vec::new();
        let mut last: Option<&Probe> = None;
        for each in self.all.iter().filter(|each| each.caller == caller) {
            let same = last.is_some_and(|last| self.is_one_period(last, each));
            match periods.last_mut() {
                Some(count) if same => *count += 1,
                _ => periods.push(1),
            }
            last = Some(each);
        }
        periods
    }

    /// Whether no open period can lie between them, and nobody proved meanwhile that the service is alive.
    fn is_one_period(&self, one: &Probe, next: &Probe) -> bool {
        let proof = self.proofs.partition_point(|proof| *proof <= one.came);
        let proven = self.proofs.get(proof).is_some_and(|it| *it <= next.came);
        one.open == next.open && !proven && next.came + BOOKED < one.left + SHORTEST
    }

    /// They, in words: workload, beginning and end in seconds of the scene.
    pub fn told(&self, storm: &Storm) -> String {
        let start = storm.taken.clock.start;
        let seconds = |t: u64| (t - start) as f64 / 1e6;
        let probes = self.all.iter().map(|each| {
            let (from, to) = (seconds(each.came), seconds(each.left));
            format!("{from:.2}-{to:.2} s {}", each.caller)
        });
        probes.collect::<Vec<_>>().join(", ")
    }
}

/// What the service got of a workload in these times, and when its callers had left again, as their log has it.
fn arrived(storm: &Storm, caller: &'static str, spans: &[Range<u64>]) -> Vec<Probe> {
    let tries = storm.of_caller(caller);
    let mut tries: Vec<_> = tries.filter(|each| !is_refused(each)).collect();
    tries.sort_by_key(|each| each.t);
    let mut tries = tries.into_iter().peekable();
    let mut probes = Vec::new();
    for slot in &storm.taken.slots {
        let is_in = |span: &&Range<u64>| span.start <= slot.t && slot.end() <= span.end;
        let span = spans.iter().find(is_in);
        // Some never come: they end on the way.
        while tries
            .next_if(|each| each.t + each.micros < slot.t)
            .is_some()
        {}
        for _ in 0..slot.arrived.get(caller).copied().unwrap_or(0) {
            let (came, left) = there(slot, tries.next_if(|each| each.t < slot.end()));
            probes.extend(span.map(|span| Probe {
                caller,
                open: span.start,
                came,
                left,
            }));
        }
    }
    probes
}

/// When a request came that is counted in a slot, and was over. One of which its caller knows nothing, or that it takes for
/// refused, is there for as long as a probe takes to fail in the stall.
fn there(slot: &Slot, sent: Option<&Try>) -> (u64, u64) {
    match sent {
        Some(each) => (each.t.max(slot.t), each.t + each.micros),
        None => (slot.t, slot.t + SHORTEST),
    }
}

/// When the workload's breaker was open for sure: from a sample that shows it until the workload's next success, which
/// alone closes a breaker, or until the governor was stopped. A success is known in the kernel before its caller has
/// read it.
fn open(storm: &Storm, caller: &str) -> Vec<Range<u64>> {
    let well = storm
        .of_caller(caller)
        .filter(|it| it.outcome == Outcome::Ok);
    let mut ends: Vec<u64> = well.map(|each| each.t + each.micros).collect();
    ends.extend(storm.stopped_at());
    ends.sort_unstable();
    let mut spans: Vec<Range<u64>> = Vec::new();
    let mut over = 0;
    for sample in &storm.taken.samples {
        if sample.t <= over || !is_open(sample, caller) {
            continue;
        }
        over = ends[ends.partition_point(|end| *end <= sample.t)..]
            .first()
            .copied()
            .unwrap_or(u64::MAX);
        spans.push(sample.t..over.saturating_sub(BOOKED));
    }
    spans
}

/// Whether a sample shows the workload's breaker for the service open, or half-open.
fn is_open(sample: &Sample, caller: &str) -> bool {
    let service = sample.destination(SERVICE.0);
    let endpoints = service.and_then(|it| it["endpoints"].as_array());
    let unit = format!("/{caller}.service");
    endpoints.into_iter().flatten().any(|endpoint| {
        let of_it = endpoint["workload"]
            .as_str()
            .is_some_and(|it| it.ends_with(&unit));
        of_it && endpoint["breaker"]["state"] != "Closed"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes of workloads: when they came and left, milliseconds; and when tries ended well.
    fn probes(all: &[(&'static str, u64, u64)], proofs: &[u64]) -> Probes {
        let probe = |&(caller, came, left): &(&'static str, u64, u64)| Probe {
            caller,
            open: 0,
            came: came * 1_000,
            left: left * 1_000,
        };
        Probes {
            all: all.iter().map(probe).collect(),
            proofs: proofs.iter().map(|proof| proof * 1_000).collect(),
            was_open: true,
        }
    }

    #[test]
    fn probes_that_follow_each_other_are_one_at_a_time_and_one_in_each_open_period() {
        let turns = probes(
            &[("a", 0, 500), ("b", 501, 1_001), ("a", 1_002, 1_502)],
            &[],
        );
        assert_eq!((turns.at_once(), turns.in_one_period()), (1, 1));
    }

    #[test]
    fn two_that_are_there_together_are_seen_of_whichever_workloads() {
        let doubled = probes(&[("a", 0, 500), ("b", 300, 800)], &[]);
        assert_eq!((doubled.at_once(), doubled.in_one_period()), (2, 1));
    }

    #[test]
    fn a_second_one_of_an_open_period_is_seen_unless_a_success_allowed_it() {
        let again = [("a", 0, 500), ("a", 700, 1_200)];
        assert_eq!(probes(&again, &[]).in_one_period(), 2);
        assert_eq!(probes(&again, &[600]).in_one_period(), 1);
    }
}
