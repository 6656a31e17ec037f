//! Figures of a scene. All of them are computed from what was measured.

use std::collections::HashMap;

use super::record::{End, PerSecond, Sample, Scene, Seconds, Span, Try};

/// Goodput is back where this share of the calls succeeds,
const BACK: f64 = 0.9;
/// in every second of a time so long (as in the simulator).
const LASTING: Seconds = Seconds(5.0);
/// Moments at which that is looked for.
const STEP: Seconds = Seconds(0.1);
const SECOND: Seconds = Seconds(1.0);
/// How long after the stall goodput is judged.
const JUDGED: Seconds = Seconds(15.0);

/// The figures of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Requests that reached the service from the stall on.
    pub attempts: u64,
    /// The same, for each call that was begun.
    pub amplification: f64,
    /// Calls that succeeded, in the time after the stall.
    pub goodput: PerSecond,
    /// The same, of those begun then.
    pub goodput_share: f64,
    /// How long after the stall goodput was whole again; `None`: not in this scene.
    pub recovery: Option<Seconds>,
    /// How long a try takes that fails.
    pub failed_try: Option<Quantiles>,
    /// How long a call takes that fails with all its tries.
    pub failed_call: Option<Quantiles>,
    /// Requests that the service worked off for callers who had left.
    pub wasted: u64,
    /// Tries refused before the stall.
    pub refused_in_health: usize,
}

/// Of some durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// Half take no longer.
    pub p50: Seconds,
    /// One in a hundred takes longer.
    pub p99: Seconds,
}

impl Figures {
    /// Of a scene.
    pub fn of(scene: &Scene) -> Self {
        let back = scene.stall.to;
        let judged = Span {
            from: back,
            to: back + JUDGED,
        };
        let troubled = Span {
            from: scene.stall.from,
            to: Seconds(f64::INFINITY),
        };
        let attempts = last(scene, |sample| sample.arrived) - arrived(scene, troubled.from);
        let runs = scene.curls.good + scene.curls.failed;
        // The curl loops do not say when a run began: their share of the time is taken.
        let share = troubled_share(scene);
        let begun_in_trouble = begun(scene, troubled) as f64 + runs as f64 * share;
        let good = ended(scene, judged, End::Good) as f64;
        let failed = scene.tries.iter().filter(|each| each.end != End::Good);
        Self {
            attempts: attempts.round() as u64,
            amplification: ratio(attempts, begun_in_trouble),
            goodput: PerSecond(good / JUDGED.0),
            goodput_share: ratio(good, begun(scene, judged) as f64),
            recovery: recovery(scene),
            failed_try: quantiles(failed.map(|each| each.took)),
            failed_call: quantiles(failed_calls(scene).into_iter()),
            wasted: last(scene, |sample| sample.wasted) as u64,
            refused_in_health: scene
                .tries
                .iter()
                .filter(|each| each.end == End::Refused && each.ended() < scene.stall.from)
                .count(),
        }
    }
}

/// Requests that reached the service, in each `width` up to `until`.
pub fn load(scene: &Scene, width: Seconds, until: Seconds) -> Vec<PerSecond> {
    let in_span = |span: Span| arrived(scene, span.to) - arrived(scene, span.from);
    spans(width, until)
        .map(|span| PerSecond(in_span(span) / width.0))
        .collect()
}

/// Tries that ended so, in each `width` up to `until`.
pub fn ends(scene: &Scene, width: Seconds, until: Seconds, end: End) -> Vec<PerSecond> {
    let mut counts = vec![0.0; spans(width, until).count()];
    for each in scene.tries.iter().filter(|each| each.end == end) {
        let bin = (each.ended().0 / width.0) as usize;
        if let Some(count) = counts.get_mut(bin) {
            *count += 1.0;
        }
    }
    counts
        .into_iter()
        .map(|count| PerSecond(count / width.0))
        .collect()
}

/// Tries that ended so within a span.
pub fn ended(scene: &Scene, span: Span, end: End) -> usize {
    let ended = |each: &&Try| each.end == end && span.holds(each.ended());
    scene.tries.iter().filter(ended).count()
}

/// Requests that had reached the service at `t`: between two samples in proportion.
pub fn arrived(scene: &Scene, t: Seconds) -> f64 {
    let after = scene.samples.partition_point(|sample| sample.t <= t);
    let before = after.checked_sub(1).and_then(|at| scene.samples.get(at));
    match (before, scene.samples.get(after)) {
        (Some(a), Some(b)) => {
            let way = (t - a.t).0 / (b.t - a.t).0;
            a.arrived as f64 + (b.arrived - a.arrived) as f64 * way
        }
        (Some(last), None) => last.arrived as f64,
        (None, _) => 0.0,
    }
}

fn last(scene: &Scene, of: impl Fn(&Sample) -> u64) -> f64 {
    scene.samples.last().map_or(0.0, |sample| of(sample) as f64)
}

/// Calls begun within a span.
fn begun(scene: &Scene, span: Span) -> usize {
    let first = |each: &&Try| each.number == 1 && span.holds(each.began);
    scene.tries.iter().filter(first).count()
}

/// The part of the load's time that comes after the stall's beginning.
fn troubled_share(scene: &Scene) -> f64 {
    let first_tries = scene.tries.iter().filter(|each| each.number == 1);
    let length = first_tries.map(|each| each.began.0).fold(0.0, f64::max);
    ratio(length - scene.stall.from.0, length)
}

/// The first moment after the stall from which on goodput is whole, and stays so.
fn recovery(scene: &Scene) -> Option<Seconds> {
    let end = scene
        .tries
        .iter()
        .filter(|each| each.number == 1)
        .map(|each| each.began)
        .fold(Seconds(0.0), |a, b| if a < b { b } else { a });
    let steps = |length: Seconds| (length.0 / STEP.0).round() as usize;
    let whole = |step: usize| {
        let from = scene.stall.to + Seconds(STEP.0 * step as f64);
        let second = Span {
            from,
            to: from + SECOND,
        };
        ended(scene, second, End::Good) as f64 >= BACK * begun(scene, second) as f64
    };
    let most = (end - scene.stall.to - LASTING - SECOND).0;
    let tried = steps(Seconds(most.max(0.0)));
    let lasting = steps(LASTING);
    (0..tried)
        .find(|step| (*step..=step + lasting).all(whole))
        .map(|step| Seconds(STEP.0 * step as f64))
}

/// How long each call took that never was answered.
fn failed_calls(scene: &Scene) -> Vec<Seconds> {
    let mut calls: HashMap<u64, (Seconds, Seconds, End)> = HashMap::new();
    for each in &scene.tries {
        let (began, ended, end) =
            calls
                .entry(each.call)
                .or_insert((each.began, each.ended(), each.end));
        if each.began < *began {
            *began = each.began;
        }
        if each.ended() >= *ended {
            (*ended, *end) = (each.ended(), each.end);
        }
    }
    calls
        .into_values()
        .filter(|(_, _, end)| *end != End::Good)
        .map(|(began, ended, _)| ended - began)
        .collect()
}

fn quantiles(durations: impl Iterator<Item = Seconds>) -> Option<Quantiles> {
    let mut sorted: Vec<Seconds> = durations.collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| {
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    };
    Some(Quantiles {
        p50: at(0.50)?,
        p99: at(0.99)?,
    })
}

fn spans(width: Seconds, until: Seconds) -> impl Iterator<Item = Span> {
    let count = (until.0 / width.0).floor() as usize;
    (0..count).map(move |bin| Span {
        from: Seconds(width.0 * bin as f64),
        to: Seconds(width.0 * (bin + 1) as f64),
    })
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::demo::record::Curls;

    /// Ten calls a second from 0 to 30 s; those of the stall (5 to 10 s) fail after a
    /// second, those after it until `back`, too; two tries each.
    pub fn scene(back: Seconds) -> Scene {
        let stall = Span {
            from: Seconds(5.0),
            to: Seconds(10.0),
        };
        let mut tries = Vec::new();
        for call in 0..300_u32 {
            let began = Seconds(f64::from(call) / 10.0 + 0.05);
            let broken = stall.from <= began && began < back;
            let (took, end) = match broken {
                true => (Seconds(1.0), End::Failed),
                false => (Seconds(0.01), End::Good),
            };
            for number in 1..=if broken { 2 } else { 1 } {
                tries.push(Try {
                    began: began + Seconds(1.1 * f64::from(number - 1)),
                    took,
                    call: u64::from(call),
                    number,
                    end,
                });
            }
        }
        let samples = (0..=320_u32).map(|tenth| {
            let t = Seconds(f64::from(tenth) / 10.0);
            Sample {
                t,
                arrived: tries.iter().filter(|each| each.began <= t).count() as u64,
                wasted: 0,
                waiting: 0,
            }
        });
        Scene {
            stall,
            samples: samples.collect(),
            tries,
            curls: Curls::default(),
            governor: None,
        }
    }

    #[test]
    fn a_service_that_comes_back_at_once_is_back_after_no_time() {
        let figures = Figures::of(&scene(Seconds(10.0)));
        assert_eq!(figures.recovery, Some(Seconds(0.0)));
        assert!((figures.goodput_share - 1.0).abs() < 0.02, "{figures:?}");
        assert!((figures.goodput.0 - 10.0).abs() < 0.2, "{figures:?}");
        // 250 calls from the stall on, 50 of them with a second try.
        assert_eq!(figures.attempts, 300);
        assert!((figures.amplification - 1.2).abs() < 0.01, "{figures:?}");
    }

    #[test]
    fn a_later_recovery_is_told_to_the_tenth_of_a_second() {
        let recovery = Figures::of(&scene(Seconds(13.0))).recovery;
        // Nine of ten in the second that begins then.
        let expected = Seconds(2.9);
        assert!(
            recovery.is_some_and(|it| (it.0 - expected.0).abs() < 0.11),
            "{recovery:?}"
        );
    }

    #[test]
    fn a_service_that_stays_down_does_not_recover() {
        let figures = Figures::of(&scene(Seconds(100.0)));
        assert_eq!(figures.recovery, None);
        assert_eq!(figures.goodput_share, 0.0);
        assert!((figures.amplification - 2.0).abs() < 0.01, "{figures:?}");
    }

    #[test]
    fn a_failed_call_lasts_from_its_first_try_to_the_end_of_its_last() {
        let figures = Figures::of(&scene(Seconds(10.0)));
        let (of_try, of_call) = (figures.failed_try.unwrap(), figures.failed_call.unwrap());
        assert!((of_try.p99.0 - 1.0).abs() < 1e-6);
        assert!((of_call.p50.0 - 2.1).abs() < 1e-6);
    }

    #[test]
    fn nothing_failed_has_no_duration() {
        let mut healthy = scene(Seconds(0.0));
        healthy.tries.retain(|each| each.end == End::Good);
        assert_eq!(Figures::of(&healthy).failed_try, None);
        assert_eq!(Figures::of(&healthy).failed_call, None);
    }

    #[test]
    fn the_series_hold_every_request_once() {
        let scene = scene(Seconds(10.0));
        let width = Seconds(0.5);
        let total: f64 = load(&scene, width, Seconds(32.0))
            .iter()
            .map(|rate| rate.0 * width.0)
            .sum();
        assert!((total - scene.tries.len() as f64).abs() < 1e-6);
        let good: f64 = ends(&scene, width, Seconds(32.0), End::Good)
            .iter()
            .map(|rate| rate.0 * width.0)
            .sum();
        assert!((good - 250.0).abs() < 1e-6);
    }
}
