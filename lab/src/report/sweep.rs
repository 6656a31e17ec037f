//! A sweep as a picture: one small panel for each measure, the chosen value marked.

use super::axis::{self, Axis};
use super::number::number;
use super::paper::{Anchor, GREY, Paper, Pen, WIDTH, Words, wrapped};
use crate::findings::Sweep;

const BLUE: &str = "#2f81f7";
/// Panels in a row.
const ROW: usize = 3;
const HEIGHT: f64 = 110.0;
/// Of what is around a panel besides its heading: its numbers.
const AROUND: f64 = 48.0;
const LEFT: f64 = 52.0;
/// Letters of a heading in a line, and the height of one.
const HEADING: usize = 29;
const LINE: f64 = 15.0;

/// The chart of a sweep. `None` where nothing was measured.
pub fn chart(sweep: &Sweep) -> Option<String> {
    let measures = measures(sweep);
    if measures.is_empty() {
        return None;
    }
    let mut paper = Paper::new();
    let title = match sweep.unit.as_str() {
        "" => sweep.key.clone(),
        unit => format!("{}, in {unit}", sweep.key),
    };
    paper.words((LEFT, 24.0), Anchor::Start, Words::Title, GREY, &title);
    let wide = WIDTH / ROW as f64;
    let lines = measures.iter().map(|name| wrapped(name, HEADING).len());
    let head = lines.max().unwrap_or(1) as f64 * LINE;
    let whole = HEIGHT + AROUND + head;
    for (at, name) in measures.iter().enumerate() {
        let corner = ((at % ROW) as f64 * wide, 40.0 + (at / ROW) as f64 * whole);
        let points: Vec<_> = sweep
            .points
            .iter()
            .map(|(value, _)| (*value, figure(sweep, *value, name)))
            .collect();
        for (at, line) in wrapped(name, HEADING).iter().enumerate() {
            let at = (corner.0 + LEFT, corner.1 + 12.0 + LINE * at as f64);
            paper.words(at, Anchor::Start, Words::Heading, GREY, line);
        }
        let corner = (corner.0, corner.1 + head + 8.0);
        panel(&mut paper, corner, wide, &points, sweep.chosen);
    }
    let rows = measures.len().div_ceil(ROW);
    let description = format!(
        "{}: what was measured for each value; chosen: {}",
        sweep.key,
        number(sweep.chosen)
    );
    Some(paper.document(46.0 + rows as f64 * whole, &description))
}

/// The names of the measures, in order.
pub fn measures(sweep: &Sweep) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in sweep.points.iter().flat_map(|point| &point.1) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// What was measured for a value, where it was.
pub fn figure(sweep: &Sweep, value: f64, measure: &str) -> Option<f64> {
    let point = sweep.points.iter().find(|point| point.0 == value)?;
    let found = point.1.iter().find(|(name, _)| name == measure)?;
    Some(found.1).filter(|figure| figure.is_finite())
}

/// One measure. Values of a sweep are often each twice the one before: they are put at even
/// distances, which their numbers say.
fn panel(
    paper: &mut Paper,
    (x, top): (f64, f64),
    wide: f64,
    points: &[(f64, Option<f64>)],
    chosen: f64,
) {
    let (left, right) = (x + LEFT, x + wide - 16.0);
    let axis = Axis {
        top: axis::top(points.iter().filter_map(|point| point.1)) * 1.1,
        zero: top + HEIGHT,
        end: top,
    };
    for tick in axis.ticks(4) {
        let y = axis.at(tick);
        paper.line((left, y), (right, y), Pen::GRID);
        paper.words(
            (left - 6.0, y + 4.0),
            Anchor::End,
            Words::Plain,
            GREY,
            &number(tick),
        );
    }
    let step = (right - left) / points.len() as f64;
    let middle = |at: usize| left + (at as f64 + 0.5) * step;
    let mut curve = Vec::new();
    for (at, (value, figure)) in points.iter().enumerate() {
        let (x, below) = (middle(at), (middle(at), axis.zero + 16.0));
        paper.words(below, Anchor::Middle, Words::Plain, GREY, &number(*value));
        if *value == chosen {
            paper.shade(
                (x - step / 2.0, top),
                (x + step / 2.0, axis.zero),
                GREY,
                0.16,
            );
            paper.words(
                (x, axis.zero + 30.0),
                Anchor::Middle,
                Words::Plain,
                BLUE,
                "chosen",
            );
        }
        if let Some(figure) = figure {
            let y = axis.at(*figure);
            curve.push((x, y));
            paper.shade((x - 3.0, y - 3.0), (x + 3.0, y + 3.0), BLUE, 1.0);
        }
    }
    let pen = Pen {
        color: BLUE,
        width: 2.0,
        opacity: 1.0,
        dash: None,
    };
    paper.curve(&curve, pen);
}
