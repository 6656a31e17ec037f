//! What reached a service whose breakers were open: probes, one at a time.

use std::ops::Range;

use governor_tests::storm::report::{Outcome, Try};

use super::super::usual::SERVICE;
use super::CALLERS;
use super::measure::{Storm, is_refused};
use crate::watch::Sample;

/// A try is longer in its caller's books than at the service: the caller notes its time before it connects, and after
/// it has closed. What overlaps for less than a slot of the service (50 ms) did not meet there: probes follow each other
/// within a millisecond.
const BOOKED: u64 = 50_000;

/// Tries of workloads while their breaker for the service was open.
pub struct Probes<'a>(Vec<&'a Try>);

impl<'a> Probes<'a> {
    /// Of a storm, all of it. A stop takes every breaker with it; in the next governor each counts from where it is
    /// open anew.
    pub fn of(storm: &'a Storm) -> Self {
        let of = |caller: &str| {
            let open = open(storm, caller);
            let tries = storm.of_caller(caller);
            tries.filter(move |each| {
                !is_refused(each) && open.iter().any(|span| span.contains(&each.t))
            })
        };
        let mut probes: Vec<_> = CALLERS.into_iter().flat_map(of).collect();
        probes.sort_by_key(|each| each.t);
        Self(probes)
    }

    /// How many began in these seconds of the scene.
    pub fn within(&self, storm: &Storm, from: f64, to: f64) -> usize {
        let span = storm.span(from, to);
        self.0.iter().filter(|each| span.contains(&each.t)).count()
    }

    /// The most that were on their way at one moment.
    pub fn at_once(&self) -> usize {
        let mut moves: Vec<(u64, i64)> = Vec::new();
        for each in &self.0 {
            let there = each.micros.saturating_sub(BOOKED);
            // One that ends when another begins was before it.
            moves.extend([(each.t, 1), (each.t + there, -1)]);
        }
        moves.sort_unstable();
        let mut now = 0;
        let levels = moves.into_iter().map(|(_, by)| {
            now += by;
            now
        });
        levels.max().unwrap_or(0) as usize
    }

    /// They, in words: workload, beginning and end in seconds of the scene.
    pub fn told(&self, storm: &Storm) -> String {
        let start = storm.taken.clock.start;
        let seconds = |t: u64| (t - start) as f64 / 1e6;
        let tries = self.0.iter().map(|each| {
            let (from, to) = (seconds(each.t), seconds(each.t + each.micros));
            format!("{from:.2}-{to:.2} s {}", storm.caller(each))
        });
        tries.collect::<Vec<_>>().join(", ")
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
