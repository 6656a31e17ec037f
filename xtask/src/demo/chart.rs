//! The run as a picture: load and goodput over time, both scenes side by side on one
//! scale. Written by hand: a picture of two lines needs no library, and it is to look
//! well on white and on black, which plotting libraries do not offer: it has no
//! background, and its colours stand out from both.

use std::fmt::Write;

use super::{
    figures::{self, Figures},
    record::{End, PerSecond, Run, Scene, Seconds},
    text,
};

const COLUMN: Seconds = Seconds(0.5);
const SIZE: Size = Size {
    width: 880.0,
    height: 412.0,
};
const PLOT: Size = Size {
    width: 384.0,
    height: 220.0,
};
const TOP: f64 = 122.0;
const LEFT: [f64; 2] = [46.0, 480.0];
/// Room above the highest line, for the words in the plot.
const HEADROOM: f64 = 1.12;

// Orange and blue are told apart by everyone; the grey is readable on both grounds.
const LOAD: &str = "#e8710a";
const GOODPUT: &str = "#2f81f7";
const TEXT: &str = "#6e7781";

#[derive(Clone, Copy, Debug)]
struct Size {
    width: f64,
    height: f64,
}

/// The picture, as an SVG document.
pub fn chart(run: &Run) -> String {
    let scenes = [&run.without, &run.with].map(|scene| Lines::of(scene, run.plan.length()));
    let top = scenes.iter().map(Lines::top).fold(1.0, f64::max) * HEADROOM;
    let scale = Scale {
        length: run.plan.length(),
        top: PerSecond(top),
    };
    let mut svg = Svg::open(&describe(run));
    svg.text(
        At(LEFT[0], 24.0),
        Style::Title,
        &format!(
            "The service stalls for {:.0} s at {} of its capacity; its callers retry three times",
            run.plan.stall.0,
            text::percent(run.plan.offered.0 / run.plan.capacity.0)
        ),
    );
    let titles = ["Without the governor", "With the governor"];
    for (at, scene) in [&run.without, &run.with].into_iter().enumerate() {
        let panel = Panel {
            left: LEFT[at],
            scale,
        };
        panel.draw(&mut svg, titles[at], scene, &scenes[at], run);
    }
    legend(&mut svg);
    svg.close()
}

/// For those who do not see it.
fn describe(run: &Run) -> String {
    let words = |scene: &Scene| {
        let figures = Figures::of(scene);
        format!(
            "{} of the calls succeed in the 15 s after the stall, {}",
            text::percent(figures.goodput_share),
            recovery(&figures)
        )
    };
    format!(
        "Load and goodput over time. Without the governor: {}. With the governor: {}.",
        words(&run.without),
        words(&run.with)
    )
}

fn recovery(figures: &Figures) -> String {
    match figures.recovery {
        Some(after) => format!("whole again {:.1} s after it", after.0),
        None => "not whole again".to_owned(),
    }
}

/// The lines of a panel.
struct Lines {
    load: Vec<PerSecond>,
    good: Vec<PerSecond>,
}

impl Lines {
    fn of(scene: &Scene, length: Seconds) -> Self {
        Self {
            load: figures::load(scene, COLUMN, length),
            good: figures::ends(scene, COLUMN, length, End::Good),
        }
    }

    fn top(&self) -> f64 {
        let both = self.load.iter().chain(&self.good);
        both.map(|rate| rate.0).fold(0.0, f64::max)
    }
}

#[derive(Clone, Copy)]
struct Scale {
    length: Seconds,
    top: PerSecond,
}

/// A point of the picture: right, down.
#[derive(Clone, Copy)]
struct At(f64, f64);

struct Panel {
    left: f64,
    scale: Scale,
}

impl Panel {
    fn x(&self, t: Seconds) -> f64 {
        self.left + t.0 / self.scale.length.0 * PLOT.width
    }

    fn y(&self, rate: PerSecond) -> f64 {
        TOP + PLOT.height * (1.0 - rate.0 / self.scale.top.0)
    }

    fn draw(&self, svg: &mut Svg, title: &str, scene: &Scene, lines: &Lines, run: &Run) {
        let bottom = TOP + PLOT.height;
        let right = self.left + PLOT.width;
        let figures = Figures::of(scene);
        svg.text(At(self.left, 58.0), Style::Heading, title);
        let goodput = text::percent(figures.goodput_share);
        svg.text(
            At(self.left, 78.0),
            Style::Goodput,
            &format!("goodput after the stall {goodput}, {}", recovery(&figures)),
        );
        svg.text(
            At(self.left, 96.0),
            Style::Load,
            &format!(
                "from the stall on {:.1} tries a call reach the service",
                figures.amplification
            ),
        );

        let (from, to) = (self.x(scene.stall.from), self.x(scene.stall.to));
        svg.shade(At(from, TOP), At(to, bottom));
        svg.text(At((from + to) / 2.0, TOP + 16.0), Style::Middle, "stall");

        let step = tick(self.scale.top.0, 5);
        for tick in ticks(step, self.scale.top.0) {
            let y = self.y(PerSecond(tick));
            svg.line(At(self.left, y), At(right, y), Stroke::Grid);
            svg.text(At(self.left - 8.0, y + 4.0), Style::End, &tick.to_string());
        }
        for tick in ticks(tick(self.scale.length.0, 7), self.scale.length.0) {
            let label = match tick {
                0.0 => "0 s".to_owned(),
                tick => tick.to_string(),
            };
            svg.text(
                At(self.x(Seconds(tick)), bottom + 18.0),
                Style::Middle,
                &label,
            );
        }

        let (load, good) = (self.points(&lines.load), self.points(&lines.good));
        let ground: Vec<At> = good.iter().map(|At(x, _)| At(*x, bottom)).collect();
        svg.band(&good, &ground, GOODPUT);
        // What of the load was of use to nobody.
        svg.band(&load, &good, LOAD);
        svg.polyline(&load, LOAD);
        svg.polyline(&good, GOODPUT);
        let y = self.y(run.plan.capacity);
        svg.line(At(self.left, y), At(right, y), Stroke::Capacity);
    }

    /// Through the middles of the columns.
    fn points(&self, rates: &[PerSecond]) -> Vec<At> {
        let middle = |column: usize| Seconds(COLUMN.0 * (column as f64 + 0.5));
        rates
            .iter()
            .enumerate()
            .map(|(column, rate)| At(self.x(middle(column)), self.y(*rate)))
            .collect()
    }
}

fn legend(svg: &mut Svg) {
    let y = SIZE.height - 18.0;
    let mut x = LEFT[0];
    let entries = [
        (Stroke::Load, "load: tries that reach the service", 262.0),
        (Stroke::Goodput, "goodput: calls that succeed", 220.0),
        (Stroke::Capacity, "the service's capacity", 185.0),
    ];
    for (stroke, words, width) in entries {
        svg.line(At(x, y - 4.0), At(x + 24.0, y - 4.0), stroke);
        svg.text(At(x + 32.0, y), Style::Plain, words);
        x += width;
    }
    svg.text(At(LEFT[1] + PLOT.width, y), Style::End, "per second");
}

/// A round distance between ticks, so that there are at most `most`.
fn tick(top: f64, most: u32) -> f64 {
    let rough = top / f64::from(most);
    let unit = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|round| round * unit)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

fn ticks(step: f64, top: f64) -> impl Iterator<Item = f64> {
    let count = (top / step).floor() as u32;
    (0..=count).map(move |at| f64::from(at) * step)
}

#[derive(Clone, Copy)]
enum Style {
    Title,
    Heading,
    Goodput,
    Load,
    Plain,
    Middle,
    End,
}

#[derive(Clone, Copy)]
enum Stroke {
    Grid,
    Capacity,
    Load,
    Goodput,
}

/// A document that is written.
struct Svg(String);

impl Svg {
    fn open(description: &str) -> Self {
        let Size { width, height } = SIZE;
        let mut svg = Self(String::new());
        svg.push(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\" \
             font-size=\"12\">"
        ));
        svg.push(format_args!("<title>{}</title>", escaped(description)));
        svg
    }

    fn close(mut self) -> String {
        self.push(format_args!("</svg>"));
        self.0
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, At(x, y): At, style: Style, words: &str) {
        let look = match style {
            Style::Title => format!("fill=\"{TEXT}\" font-size=\"15\""),
            Style::Heading => format!("fill=\"{TEXT}\" font-size=\"15\" font-weight=\"bold\""),
            Style::Goodput => format!("fill=\"{GOODPUT}\" font-size=\"13\""),
            Style::Load => format!("fill=\"{LOAD}\" font-size=\"13\""),
            Style::Plain => format!("fill=\"{TEXT}\""),
            Style::Middle => format!("fill=\"{TEXT}\" text-anchor=\"middle\""),
            Style::End => format!("fill=\"{TEXT}\" text-anchor=\"end\""),
        };
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" {look}>{}</text>",
            escaped(words)
        ));
    }

    fn line(&mut self, At(x1, y1): At, At(x2, y2): At, stroke: Stroke) {
        let look = match stroke {
            Stroke::Grid => format!("stroke=\"{TEXT}\" stroke-opacity=\"0.25\""),
            Stroke::Capacity => {
                format!("stroke=\"{TEXT}\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"")
            }
            Stroke::Load => format!("stroke=\"{LOAD}\" stroke-width=\"2.5\""),
            Stroke::Goodput => format!("stroke=\"{GOODPUT}\" stroke-width=\"2.5\""),
        };
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {look}/>"
        ));
    }

    fn shade(&mut self, At(x1, y1): At, At(x2, y2): At) {
        self.push(format_args!(
            "<rect x=\"{x1:.1}\" y=\"{y1:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill=\"{TEXT}\" fill-opacity=\"0.16\"/>",
            x2 - x1,
            y2 - y1
        ));
    }

    fn polyline(&mut self, points: &[At], color: &str) {
        self.push(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\" \
             stroke-linejoin=\"round\"/>",
            joined(points)
        ));
    }

    /// Between two lines.
    fn band(&mut self, upper: &[At], lower: &[At], color: &str) {
        let outline: Vec<At> = upper.iter().chain(lower.iter().rev()).copied().collect();
        self.push(format_args!(
            "<polygon points=\"{}\" fill=\"{color}\" fill-opacity=\"0.2\"/>",
            joined(&outline)
        ));
    }
}

fn joined(points: &[At]) -> String {
    let pairs: Vec<String> = points
        .iter()
        .map(|At(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    pairs.join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{figures::tests::scene, record::Plan};

    fn svg(without: Seconds, with: Seconds) -> String {
        chart(&Run {
            plan: Plan::STORM,
            without: scene(without),
            with: scene(with),
        })
    }

    /// Every element is closed in its turn, every attribute quoted, nothing is not a number.
    #[track_caller]
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some((text, after)) = rest.split_once('<') {
            assert!(!text.contains(['>', '"']), "text: {text}");
            let (tag, after) = after.split_once('>').expect("a tag ends");
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes: {tag}");
            match (tag.strip_prefix('/'), tag.strip_suffix('/')) {
                (Some(name), _) => assert_eq!(open.pop(), Some(name)),
                (None, Some(_)) => {}
                (None, None) => open.extend(tag.split_whitespace().next()),
            }
            rest = after;
        }
        assert!(open.is_empty(), "left open: {open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn the_picture_is_well_formed_whatever_was_measured() {
        assert_well_formed(&svg(Seconds(100.0), Seconds(10.0)));
        let mut empty = scene(Seconds(10.0));
        empty.tries.clear();
        empty.samples.clear();
        assert_well_formed(&chart(&Run {
            plan: Plan::STORM,
            without: empty.clone(),
            with: empty,
        }));
    }

    #[test]
    fn it_says_what_was_measured() {
        let svg = svg(Seconds(100.0), Seconds(10.0));
        assert!(svg.contains("goodput after the stall 0 %, not whole again"));
        assert!(svg.contains("goodput after the stall 100 %, whole again 0.0 s after it"));
    }

    #[test]
    fn words_can_not_break_the_picture() {
        assert_eq!(escaped("a<b & c"), "a&lt;b &amp; c");
    }

    #[test]
    fn ticks_are_round_numbers() {
        let step = tick(740.0, 5);
        assert_eq!(step, 200.0);
        assert_eq!(
            ticks(step, 740.0).collect::<Vec<_>>(),
            [0.0, 200.0, 400.0, 600.0]
        );
        assert_eq!(tick(29.0, 7), 5.0);
    }
}
