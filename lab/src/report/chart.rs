//! The chart of a scenario: what its runs did, one panel below the other on one time axis.

use super::axis::Axis;
use super::markdown::{capital, verdict};
use super::marks::Shown;
use super::number::number;
use super::panel::{self, Band, Content, Curve, Panel};
use super::paper::{Anchor, GREY, Paper, Pen, WIDTH, Words, width, wrapped};
use super::series::{columns, slots_per_column, stretches};
use crate::findings::{Findings, Run, Verdict};

/// Red and blue are told apart by everyone; further runs differ by their dashes too.
const WITHOUT: [Pen; 5] = [
    pen("#d1495b", None),
    pen("#bf7a30", Some("8 3")),
    pen("#8c2f6b", Some("3 3")),
    pen("#b59a00", Some("10 3 2 3")),
    pen("#7a5230", Some("2 5")),
];
const WITH: [Pen; 4] = [
    pen("#2f81f7", None),
    pen("#0f9d8a", Some("8 3")),
    pen("#a371f7", Some("3 3")),
    pen("#bf8700", Some("10 3 2 3")),
];
const OFFERED: Pen = Pen {
    width: 1.2,
    ..pen(GREY, None)
};
const CAPACITY: &str = "5 4";
/// Letters of the title in a line.
const TITLE: usize = 82;
/// Length of a line in the legend.
const SAMPLE: f64 = 22.0;

const fn pen(color: &'static str, dash: Option<&'static str>) -> Pen {
    Pen {
        color,
        width: 2.2,
        opacity: 1.0,
        dash,
    }
}

/// The chart, as an SVG document. `None` where nothing was played.
pub fn chart(found: &Findings) -> Option<String> {
    let length = found.runs.iter().map(length).fold(0.0, f64::max);
    if length <= 0.0 {
        return None;
    }
    let runs = inked(&found.runs);
    let mut panels = panels(&runs);
    let room = panels.iter().map(Panel::room).fold(0.0, f64::max);
    let time = Axis {
        top: length,
        zero: panel::LEFT,
        end: WIDTH - room,
    };
    let marks = Shown::of(&found.runs, time);
    if let Some(first) = panels.first_mut() {
        first.above = marks.height();
    }

    let mut paper = Paper::new();
    let top = head(&mut paper, found, &runs);
    let tops: Vec<f64> = panels
        .iter()
        .scan(top, |next, panel| {
            Some(std::mem::replace(next, *next + panel.height()))
        })
        .collect();
    let inside: Vec<_> = panels
        .iter()
        .zip(&tops)
        .map(|(panel, y)| panel.inside(*y))
        .collect();
    let bottom = inside.last().map_or(top, |panel| panel.1);
    // Shades and lines are below everything, and so are drawn first.
    if let Some((first, _)) = inside.first() {
        marks.draw(&mut paper, first - marks.height(), &inside, time);
    }
    times(&mut paper, &inside, bottom, time);
    for (panel, y) in panels.iter().zip(tops) {
        panel.draw(&mut paper, y, time);
    }
    Some(paper.document(bottom + 28.0, &description(found)))
}

/// What it is, whether it holds, and which line is which. Says where the panels begin.
fn head(paper: &mut Paper, found: &Findings, runs: &[(&Run, Pen)]) -> f64 {
    let mut y = 6.0;
    for line in wrapped(&format!("{}: {}", found.name, found.title), TITLE) {
        y += 21.0;
        paper.words((panel::LEFT, y), Anchor::Start, Words::Title, GREY, &line);
    }
    y += 21.0;
    let mut x = panel::LEFT;
    for (run, pen) in runs {
        let name = match run.name.as_str() {
            plain @ ("without" | "with") => format!("{plain} the governor"),
            name => name.to_owned(),
        };
        let wide = SAMPLE + 6.0 + width(&name) + 18.0;
        if x > panel::LEFT && x + wide > WIDTH {
            (x, y) = (panel::LEFT, y + 17.0);
        }
        paper.line((x, y - 4.0), (x + SAMPLE, y - 4.0), *pen);
        let at = (x + SAMPLE + 6.0, y);
        paper.words(at, Anchor::Start, Words::Plain, pen.color, &name);
        x += wide;
    }
    y += 17.0;
    let at = (panel::LEFT, y);
    paper.words(
        at,
        Anchor::Start,
        Words::Plain,
        GREY,
        &capital(&verdict(found)),
    );
    y + 14.0
}

/// The time axis: numbers below the last panel, and faint lines through all.
fn times(paper: &mut Paper, panels: &[(f64, f64)], bottom: f64, time: Axis) {
    let faint = Pen {
        opacity: 0.12,
        ..Pen::GRID
    };
    for tick in time.ticks(10) {
        let x = time.at(tick);
        for (top, bottom) in panels {
            paper.line((x, *top), (x, *bottom), faint);
        }
        let words = if tick == 0.0 {
            "0 s".to_owned()
        } else {
            number(tick)
        };
        let at = (x, bottom + 16.0);
        paper.words(at, Anchor::Middle, Words::Plain, GREY, &words);
    }
}

/// Seconds of a run: of its longest series.
fn length(run: &Run) -> f64 {
    let series = [
        &run.offered,
        &run.load,
        &run.goodput,
        &run.capacity,
        &run.denied,
        &run.breakers,
        &run.limit,
    ];
    let slots = series.into_iter().map(Vec::len).max();
    slots.unwrap_or(0) as f64 * run.slot
}

/// For those who do not see it.
fn description(found: &Findings) -> String {
    let claims = found.claims.iter().map(|claim| {
        let verdict = match claim.verdict {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::NotJudged => "not judged",
        };
        format!(
            "{}: {} (wanted: {}), {verdict}.",
            claim.what, claim.measured, claim.wanted
        )
    });
    let claims: Vec<_> = claims.collect();
    format!(
        "{}: load, goodput and what the governor did, over time. {}",
        found.title,
        claims.join(" ")
    )
}

/// Each run with its pen.
fn inked<'a>(runs: &'a [Run]) -> Vec<(&'a Run, Pen)> {
    let (mut without, mut with) = (WITHOUT.iter().cycle(), WITH.iter().cycle());
    let ink = |run: &'a Run| {
        let pen = if run.governed {
            with.next()
        } else {
            without.next()
        };
        Some((run, *pen?))
    };
    runs.iter().filter_map(ink).collect()
}

fn panels(runs: &[(&Run, Pen)]) -> Vec<Panel> {
    let governed: Vec<_> = runs
        .iter()
        .filter(|(run, _)| run.governed)
        .copied()
        .collect();
    let load = backdrop(runs)
        .into_iter()
        .chain(curves(runs, |run| &run.load))
        .collect();
    let goodput = curves(runs, |run| &run.goodput);
    let all = [
        plain(
            "Load: requests that reach the service, per second",
            170.0,
            load,
        ),
        plain(
            "Goodput: operations that end well, per second",
            120.0,
            goodput,
        ),
        denied(&governed),
        breakers(&governed),
        limit(&governed),
    ];
    all.into_iter().flatten().collect()
}

fn plain(heading: &str, height: f64, curves: Vec<Curve>) -> Option<Panel> {
    (!curves.is_empty()).then(|| Panel::new(heading, Content::Curves(height, curves)))
}

/// What the governor refused; a band that says so where that is nothing.
fn denied(governed: &[(&Run, Pen)]) -> Option<Panel> {
    const HEADING: &str = "Denied by the governor, per second";
    if governed
        .iter()
        .any(|(run, _)| run.denied.iter().any(|denied| *denied > 0.0))
    {
        return plain(HEADING, 80.0, curves(governed, |run| &run.denied));
    }
    let watched = governed.iter().filter(|(run, _)| !run.denied.is_empty());
    bands(
        HEADING,
        watched.map(|(run, pen)| band(run, *pen, Vec::new(), "nothing was denied")),
    )
}

/// A series of each run that has it.
fn curves(runs: &[(&Run, Pen)], series: impl Fn(&Run) -> &Vec<f64>) -> Vec<Curve> {
    let shown = runs.iter().filter(|(run, _)| !series(run).is_empty());
    shown
        .map(|(run, pen)| Curve::named(&run.name, points(run, series(run)), *pen))
        .collect()
}

fn points(run: &Run, series: &[f64]) -> Vec<(f64, f64)> {
    columns(series, run.slot, slots_per_column(series.len()))
}

/// What is offered and what the service can do: once, where it is the same in all runs.
fn backdrop(runs: &[(&Run, Pen)]) -> Vec<Curve> {
    let offered = runs.iter().find(|(run, _)| !run.offered.is_empty());
    let offered =
        offered.map(|(run, _)| Curve::named("offered", points(run, &run.offered), OFFERED));
    let able: Vec<_> = runs
        .iter()
        .filter(|(run, _)| !run.capacity.is_empty())
        .collect();
    let same = able
        .windows(2)
        .all(|pair| alike(&pair[0].0.capacity, &pair[1].0.capacity));
    let capacity = able
        .iter()
        .take(if same { 1 } else { able.len() })
        .map(|(run, pen)| {
            let name = if same {
                "capacity".to_owned()
            } else {
                format!("capacity, {}", run.name)
            };
            let color = if same { GREY } else { pen.color };
            let pen = Pen {
                width: 1.5,
                ..self::pen(color, Some(CAPACITY))
            };
            Curve::named(&name, points(run, &run.capacity), pen)
        });
    offered.into_iter().chain(capacity).collect()
}

/// Whether two series differ by less than a tenth of their top in all but a few slots.
fn alike(one: &[f64], other: &[f64]) -> bool {
    let top = super::axis::top(one.iter().chain(other).copied());
    let pairs = || one.iter().zip(other);
    let apart = pairs()
        .filter(|(one, other)| (*one - *other).abs() > top / 10.0)
        .count();
    apart * 20 <= pairs().count()
}

/// When breakers were not closed.
fn breakers(governed: &[(&Run, Pen)]) -> Option<Panel> {
    let watched = || governed.iter().filter(|(run, _)| !run.breakers.is_empty());
    let open = watched().flat_map(|(run, _)| run.breakers.iter().copied());
    let heading = match open.fold(0.0, f64::max) {
        most if most > 1.0 => format!(
            "Breakers open or probing (strongest colour: {})",
            number(most)
        ),
        _ => "Breaker: coloured while it is open or probing".to_owned(),
    };
    let band = |(run, pen): &(&Run, Pen)| {
        band(
            run,
            *pen,
            stretches(&run.breakers, run.slot),
            "closed all the time",
        )
    };
    bands(&heading, watched().map(band))
}

/// What the limiter allowed, where it was ever awake.
fn limit(governed: &[(&Run, Pen)]) -> Option<Panel> {
    let awake = |run: &Run| run.limit.iter().any(|limit| limit.is_finite());
    let shown = governed.iter().filter(|(run, _)| awake(run));
    let curves = shown.map(|(run, pen)| Curve {
        name: run.name.clone(),
        points: points(run, &run.limit),
        pen: *pen,
    });
    let heading = "Limit of attempts in flight, while the limiter is awake";
    plain(heading, 70.0, curves.collect())
}

fn bands(heading: &str, bands: impl Iterator<Item = Band>) -> Option<Panel> {
    let bands: Vec<_> = bands.collect();
    (!bands.is_empty()).then(|| Panel::new(heading, Content::Bands(bands)))
}

fn band(run: &Run, pen: Pen, stretches: Vec<(f64, f64, f64)>, nothing: &'static str) -> Band {
    Band {
        name: run.name.clone(),
        stretches,
        color: pen.color,
        nothing,
    }
}
