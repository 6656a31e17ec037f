//! What a run comes to, in a few figures, and the one line that tells a scenario.

use super::number::{number, percent};
use super::series::span;
use crate::findings::{Findings, Run};

/// What is left after the trouble must be so long, seconds, to say something.
const LONG_ENOUGH: f64 = 3.0;

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Load at the service from the trouble's beginning on, relative to what is offered.
    pub load: f64,
    /// Its worst second.
    pub worst: f64,
    /// Goodput after the trouble, relative to what is offered and the service can do.
    pub goodput: f64,
    /// From there on, seconds: 0, where the trouble does not end in time, is the whole run.
    pub after: f64,
    /// Attempts that the governor refused.
    pub denied: f64,
}

impl Figures {
    /// Of a run. Without any mark the trouble is the whole of it.
    pub fn of(run: &Run) -> Self {
        let length = run.offered.len() as f64 * run.slot;
        let begin = run
            .marks
            .iter()
            .map(|mark| mark.from)
            .fold(f64::INFINITY, f64::min);
        let begin = if begin < length { begin } else { 0.0 };
        let spans = run.marks.iter().filter(|mark| mark.to > mark.from);
        let end = spans.map(|mark| mark.to).fold(0.0, f64::max);
        let end = if end + LONG_ENOUGH <= length {
            end
        } else {
            0.0
        };

        let of = |series, from| span(series, run.slot, from, length);
        let sum = |series, from| total(of(series, from));
        let offered = of(&run.offered, begin);
        let second = ((1.0 / run.slot).round() as usize).max(1);
        let seconds = of(&run.load, begin).windows(second).map(total);
        let each_second = total(offered) / offered.len() as f64 * second as f64;
        Self {
            load: sum(&run.load, begin) / total(offered),
            worst: seconds.fold(f64::NAN, f64::max) / each_second,
            goodput: sum(&run.goodput, end) / sum(&possible(run), end),
            after: end,
            denied: sum(&run.denied, 0.0) * run.slot,
        }
    }
}

/// The sum of what is finite.
fn total(series: &[f64]) -> f64 {
    series.iter().filter(|it| it.is_finite()).sum()
}

/// No more than is offered, no more than the service can do.
fn possible(run: &Run) -> Vec<f64> {
    let capacity = run
        .capacity
        .iter()
        .copied()
        .chain(std::iter::repeat(f64::INFINITY));
    run.offered
        .iter()
        .zip(capacity)
        .map(|(offered, capacity)| offered.min(capacity))
        .collect()
}

/// The scenario's key figure, without → with: its own, or goodput and load of its first runs.
pub fn key(found: &Findings) -> String {
    if let Some(key) = &found.key {
        return format!("{}: {}", key.what, turned(&key.without, &key.with));
    }
    let of = |governed| {
        found
            .runs
            .iter()
            .find(|run| run.governed == governed)
            .map(Figures::of)
    };
    let (without, with) = (of(false), of(true));
    if without.is_none() && with.is_none() {
        return "-".to_owned();
    }
    let both = |words: fn(Figures) -> String| {
        let [without, with] = [without, with].map(|it| it.map(words).unwrap_or_default());
        turned(&without, &with)
    };
    format!(
        "goodput {} of what is possible, load {} offered",
        both(|it| percent(it.goodput)),
        both(|it| format!("{} x", number(it.load)))
    )
}

/// `4 x → 1.1 x`, or the one that is there.
fn turned(without: &str, with: &str) -> String {
    match (without, with) {
        ("", one) | (one, "") => one.to_owned(),
        (without, with) => format!("{without} → {with}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{blip, run};

    #[test]
    fn load_counts_from_the_trouble_on_and_goodput_after_it() {
        let found = blip();
        let without = Figures::of(&found.runs[0]);
        let expected = Figures {
            load: 4.0,
            worst: 4.0,
            goodput: 0.0,
            after: 15.0,
            denied: 0.0,
        };
        assert_eq!(without, expected);
        let with = Figures::of(&found.runs[1]);
        assert_eq!((with.worst, with.goodput, with.denied), (1.0, 1.0, 6_000.0));
    }

    #[test]
    fn a_run_of_zeros_has_unknown_shares() {
        let figures = Figures::of(&run("with", true));
        assert!(figures.load.is_nan() && figures.goodput.is_nan());
        assert_eq!(number(figures.load), "unknown");
    }

    #[test]
    fn overload_is_measured_by_what_the_service_can_do() {
        let mut over = run("with", true);
        over.offered.fill(1_200.0);
        over.capacity.fill(1_000.0);
        over.goodput.fill(950.0);
        assert!((Figures::of(&over).goodput - 0.95).abs() < 1e-9);
    }
}
