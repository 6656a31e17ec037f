//! What charts are drawn on, in the look of docs/storm.svg: no background, and colours that
//! stand out from white and from black.
//!
//! The `svg` crate writes the elements. A charting crate would write worse ones: plotters and
//! charming paint a background and know neither labels at the ends of lines nor how to keep
//! words apart.

use svg::Document;
use svg::node::element::{Group, Line, Polyline, Rectangle, Text, Title};

/// Words, frames, whatever is the same with and without the governor.
pub const GREY: &str = "#6e7781";
/// Width of every chart.
pub const WIDTH: f64 = 900.0;
/// Size of the words.
const SIZE: f64 = 12.0;
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

/// How words look.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// The chart's title.
    Title,
    /// A panel's.
    Heading,
    /// The rest.
    Plain,
}

/// Which end of the words is where they are put.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// They begin there.
    Start,
    /// They are around it.
    Middle,
    /// They end there.
    End,
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub struct Pen {
    /// Its colour.
    pub color: &'static str,
    /// Its width.
    pub width: f64,
    /// Its opacity.
    pub opacity: f64,
    /// SVG's `stroke-dasharray`, where it is not solid.
    pub dash: Option<&'static str>,
}

impl Pen {
    /// Lines that only help to read.
    pub const GRID: Self = Self {
        color: GREY,
        width: 1.0,
        opacity: 0.22,
        dash: None,
    };
}

/// A picture while it is drawn.
#[derive(Debug)]
pub struct Paper {
    elements: Group,
}

impl Paper {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            elements: Group::new(),
        }
    }

    /// The document, so high; `description` is for those who do not see it.
    pub fn document(self, height: f64, description: &str) -> String {
        let height = height.ceil();
        let elements = self
            .elements
            .set("font-family", FONT)
            .set("font-size", SIZE);
        let document = Document::new()
            .set("viewBox", format!("0 0 {WIDTH} {height}"))
            .set("width", WIDTH)
            .set("height", height)
            .set("role", "img")
            .add(Title::new(description))
            .add(elements);
        format!("{document}\n")
    }

    /// Words, at the left end of their base line or as `anchor` says.
    pub fn words(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        look: Words,
        color: &str,
        words: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = Text::new(words)
            .set("x", short(x))
            .set("y", short(y))
            .set("fill", color)
            .set("text-anchor", anchor);
        let text = match look {
            Words::Title => text.set("font-size", 16).set("font-weight", "bold"),
            Words::Heading => text.set("font-size", 13).set("font-weight", "bold"),
            Words::Plain => text,
        };
        self.add(text);
    }

    /// A straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), pen: Pen) {
        let line = Line::new()
            .set("x1", short(x1))
            .set("y1", short(y1))
            .set("x2", short(x2))
            .set("y2", short(y2))
            .set("stroke", pen.color)
            .set("stroke-width", pen.width)
            .set("stroke-opacity", pen.opacity);
        self.add(match pen.dash {
            Some(dash) => line.set("stroke-dasharray", dash),
            None => line,
        });
    }

    /// A line through points, with gaps where there is none.
    pub fn curve(&mut self, points: &[(f64, f64)], pen: Pen) {
        let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
        for points in points.split(|point| !finite(point)) {
            match points {
                [] => {}
                // A line through one point is not seen.
                [(x, y)] => self.line((x - 1.0, *y), (x + 1.0, *y), Pen { dash: None, ..pen }),
                _ => self.polyline(points, pen),
            }
        }
    }

    fn polyline(&mut self, points: &[(f64, f64)], pen: Pen) {
        let pairs: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let curve = Polyline::new()
            .set("points", pairs.join(" "))
            .set("fill", "none")
            .set("stroke", pen.color)
            .set("stroke-width", pen.width)
            .set("stroke-opacity", pen.opacity)
            .set("stroke-linejoin", "round");
        self.add(match pen.dash {
            Some(dash) => curve.set("stroke-dasharray", dash),
            None => curve,
        });
    }

    /// A rectangle, filled.
    pub fn shade(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), color: &str, opacity: f64) {
        let shade = Rectangle::new()
            .set("x", short(x1))
            .set("y", short(y1))
            .set("width", short((x2 - x1).max(0.0)))
            .set("height", short((y2 - y1).max(0.0)))
            .set("fill", color)
            .set("fill-opacity", opacity);
        self.add(shade);
    }

    fn add(&mut self, element: impl Into<svg::node::element::Element>) {
        let elements = std::mem::replace(&mut self.elements, Group::new());
        self.elements = elements.add(element.into());
    }
}

/// A tenth of a pixel is enough.
fn short(at: f64) -> String {
    format!("{at:.1}")
}

/// About how wide words are: fonts differ, so rather too wide.
pub fn width(words: &str) -> f64 {
    words.chars().count() as f64 * SIZE * 0.6
}

/// Words in lines of at most so many letters.
pub fn wrapped(words: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Moves places apart until each is `apart` from the next, as little as that takes, within
/// `from..=to` as long as there is room.
pub fn apart(places: &[f64], apart: f64, from: f64, to: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places.to_vec();
    let mut least = from;
    for at in &order {
        moved[*at] = moved[*at].max(least);
        least = moved[*at] + apart;
    }
    let mut most = to.max(from + apart * places.len().saturating_sub(1) as f64);
    for at in order.iter().rev() {
        moved[*at] = moved[*at].min(most);
        most = moved[*at] - apart;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_moved_apart_and_stay_inside() {
        assert_eq!(apart(&[50.0, 10.0], 14.0, 0.0, 100.0), [50.0, 10.0]);
        assert_eq!(
            apart(&[10.0, 10.0, 12.0], 14.0, 0.0, 100.0),
            [10.0, 24.0, 38.0]
        );
        assert_eq!(apart(&[99.0, 100.0], 14.0, 0.0, 100.0), [86.0, 100.0]);
        assert_eq!(apart(&[5.0, 5.0], 14.0, 0.0, 10.0), [0.0, 14.0]);
        assert!(apart(&[], 14.0, 0.0, 10.0).is_empty());
    }

    #[test]
    fn long_words_are_wrapped() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert!(wrapped("", 8).is_empty());
    }
}
