//! The figure that tells a scenario in one line, made of its runs.

use super::number::{number, percent};
use super::series::span;
use crate::findings::{Findings, Key, Run};

/// What is left after the trouble must be so long, seconds, to say something.
const LONG_ENOUGH: f64 = 3.0;

/// The scenario's own key figure, or one of its runs: goodput and load, without and with.
/// `None` where nothing was played.
pub fn key(found: &Findings) -> Option<Key> {
    if let Some(key) = &found.key {
        return Some(key.clone());
    }
    let of = |governed| {
        found
            .runs
            .iter()
            .find(|run| run.governed == governed)
            .map(figures)
    };
    let (without, with) = (of(false), of(true));
    if without.is_none() && with.is_none() {
        return None;
    }
    Some(Key {
        what: "goodput, of what is possible; load, of offered".to_owned(),
        without: without.unwrap_or_default(),
        with: with.unwrap_or_default(),
    })
}

/// `97 %, 1.08 x`: goodput after the trouble, load from its beginning on.
fn figures(run: &Run) -> String {
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

    let sum =
        |series: &[f64], from: f64| -> f64 { span(series, run.slot, from, length).iter().sum() };
    let goodput = sum(&run.goodput, end) / sum(&possible(run), end);
    let load = sum(&run.load, begin) / sum(&run.offered, begin);
    format!("{}, {} x", percent(goodput), number(load))
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
