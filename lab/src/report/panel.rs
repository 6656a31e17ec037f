//! A panel of a chart: lines over time, each named at its end, or bands.

use super::axis::{self, Axis};
use super::number::{number, scale};
use super::paper::{self, Anchor, GREY, Paper, Pen, Words};
use super::series;

/// Room for an axis' numbers.
pub const LEFT: f64 = 64.0;
/// Room above a panel for its heading.
const HEAD: f64 = 22.0;
/// Room between panels.
pub const GAP: f64 = 18.0;
/// From the end of a line to its name.
const LEAD: f64 = 14.0;
/// Names are so far apart.
const NAME: f64 = 15.0;
/// Height of a band, and room between two.
const BAND: (f64, f64) = (16.0, 6.0);

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows, with the unit.
    pub heading: String,
    /// Room between heading and content.
    pub above: f64,
    /// What is in it.
    pub content: Content,
}

/// What is in a panel.
#[derive(Clone, Debug)]
pub enum Content {
    /// Lines, on an axis so high, or as high as their names need.
    Curves(f64, Vec<Curve>),
    /// Bands, one below the other.
    Bands(Vec<Band>),
}

/// A line.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is called at its end.
    pub name: String,
    /// Seconds and values; gaps are NaN.
    pub points: Vec<(f64, f64)>,
    /// How it looks.
    pub pen: Pen,
}

/// Stretches of time with a value: the higher, the stronger the colour.
#[derive(Clone, Debug)]
pub struct Band {
    /// What it is called at its end.
    pub name: String,
    /// From, to, value.
    pub stretches: Vec<(f64, f64, f64)>,
    /// Its colour.
    pub color: &'static str,
    /// What it says where there is no stretch.
    pub nothing: &'static str,
}

impl Curve {
    /// The name with the rate that the line ends at: the mean of its last tenth.
    pub fn named(name: &str, points: Vec<(f64, f64)>, pen: Pen) -> Self {
        let last = &points[points.len() - points.len().div_ceil(10)..];
        let last: Vec<f64> = last.iter().map(|point| point.1).collect();
        let rate = |mean: f64| if mean >= 10.0 { mean.round() } else { mean };
        let name = match series::mean(&last) {
            Some(mean) => format!("{name} {}/s", number(rate(mean))),
            None => name.to_owned(),
        };
        Self { name, points, pen }
    }
}

impl Panel {
    /// With nothing between heading and content.
    pub fn new(heading: impl Into<String>, content: Content) -> Self {
        Self {
            heading: heading.into(),
            above: 0.0,
            content,
        }
    }

    /// How much of the paper it takes, with the room below it.
    pub fn height(&self) -> f64 {
        let (top, bottom) = self.inside(0.0);
        bottom - top + HEAD + self.above + GAP
    }

    /// Where its content begins and ends if it is drawn below `y`.
    pub fn inside(&self, y: f64) -> (f64, f64) {
        let top = y + HEAD + self.above;
        let height = match &self.content {
            // Every name must find its place.
            Content::Curves(height, curves) => height.max(curves.len() as f64 * NAME),
            Content::Bands(bands) => bands.len() as f64 * (BAND.0 + BAND.1) - BAND.1,
        };
        (top, top + height)
    }

    /// Room that the names at its right end need.
    pub fn room(&self) -> f64 {
        let names: Vec<&str> = match &self.content {
            Content::Curves(_, curves) => curves.iter().map(|it| it.name.as_str()).collect(),
            Content::Bands(bands) => bands.iter().map(|it| it.name.as_str()).collect(),
        };
        let widest = names.into_iter().map(paper::width).fold(60.0, f64::max);
        widest + LEAD + 4.0
    }

    /// Draws it below `y`, on this time axis.
    pub fn draw(&self, paper: &mut Paper, y: f64, time: Axis) {
        let at = (LEFT, y + 13.0);
        paper.words(at, Anchor::Start, Words::Heading, GREY, &self.heading);
        let (top, bottom) = self.inside(y);
        match &self.content {
            Content::Curves(_, curves) => lines(paper, (top, bottom), time, curves),
            Content::Bands(list) => bands(paper, top, time, list),
        }
    }
}

fn lines(paper: &mut Paper, (top, bottom): (f64, f64), time: Axis, curves: &[Curve]) {
    let points = curves.iter().flat_map(|curve| &curve.points);
    let axis = Axis {
        top: axis::top(points.map(|point| point.1)) * 1.05,
        zero: bottom,
        end: top,
    };
    for tick in axis.ticks(if bottom - top > 100.0 { 5 } else { 3 }) {
        let y = axis.at(tick);
        paper.line((LEFT, y), (time.end, y), Pen::GRID);
        let at = (LEFT - 8.0, y + 4.0);
        paper.words(at, Anchor::End, Words::Plain, GREY, &scale(tick));
    }
    for curve in curves {
        let place = |(t, value): &(f64, f64)| (time.at(*t), axis.at(*value));
        let points: Vec<_> = curve.points.iter().map(place).collect();
        paper.curve(&points, curve.pen);
    }
    names(paper, time.end, axis, curves);
}

/// The names of the lines, at their ends.
fn names(paper: &mut Paper, right: f64, axis: Axis, curves: &[Curve]) {
    let ended = |curve: &Curve| {
        let last = curve.points.iter().rfind(|point| point.1.is_finite());
        last.map_or(axis.zero, |point| axis.at(point.1))
    };
    let ends: Vec<f64> = curves.iter().map(ended).collect();
    let places = paper::apart(&ends, NAME, axis.end, axis.zero);
    for ((curve, end), place) in curves.iter().zip(ends).zip(places) {
        let lead = Pen {
            width: 1.0,
            opacity: 0.6,
            dash: None,
            ..curve.pen
        };
        paper.line((right + 1.0, end), (right + LEAD - 3.0, place), lead);
        let at = (right + LEAD, place + 4.0);
        paper.words(
            at,
            Anchor::Start,
            Words::Plain,
            curve.pen.color,
            &curve.name,
        );
    }
}

fn bands(paper: &mut Paper, top: f64, time: Axis, bands: &[Band]) {
    let stretches = bands.iter().flat_map(|band| &band.stretches);
    let most = axis::top(stretches.map(|stretch| stretch.2));
    let mut top = top;
    for band in bands {
        let bottom = top + BAND.0;
        paper.shade((time.zero, top), (time.end, bottom), GREY, 0.12);
        for (from, to, value) in &band.stretches {
            let (from, to) = ((time.at(*from), top), (time.at(*to), bottom));
            paper.shade(from, to, band.color, 0.3 + 0.6 * value / most);
        }
        if band.stretches.is_empty() {
            let middle = ((time.zero + time.end) / 2.0, top + 12.0);
            paper.words(middle, Anchor::Middle, Words::Plain, GREY, band.nothing);
        }
        let at = (time.end + LEAD, top + 12.0);
        paper.words(at, Anchor::Start, Words::Plain, band.color, &band.name);
        top = bottom + BAND.1;
    }
}
