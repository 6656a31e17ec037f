//! The chart of a scenario: what its runs did, one panel below the other on one time axis.

use super::axis::Axis;
use super::markdown::verdict;
use super::marks::Shown;
use super::number::number;
use super::panel::{self, Band, Content, Curve, Panel};
use super::paper::{Anchor, GREY, Paper, Pen, WIDTH, Words, wrapped};
use super::series::{columns, slots_per_column, stretches};
use crate::findings::{Findings, Run};

/// Red and blue are told apart by everyone; further runs differ by their dashes too.
const WITHOUT: [Pen; 2] = [pen("#d1495b", None), pen("#bf7a30", Some("8 3"))];
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
    let panels = panels(&inked(&found.runs));
    let room = panels.iter().map(Panel::room).fold(0.0, f64::max);
    let time = Axis {
        top: length,
        zero: panel::LEFT,
        end: WIDTH - room,
    };

    let mut paper = Paper::new();
    let mut y = 6.0;
    for line in wrapped(&format!("{}: {}", found.name, found.title), TITLE) {
        y += 21.0;
        paper.words((panel::LEFT, y), Anchor::Start, Words::Title, GREY, &line);
    }
    y += 20.0;
    paper.words(
        (panel::LEFT, y),
        Anchor::Start,
        Words::Plain,
        GREY,
        &verdict(found),
    );
    y += 14.0;

    // Shades and lines are below everything, and so are drawn first.
    let marks = Shown::of(&found.runs, time);
    let top = y + marks.height();
    let bottom = top + panels.iter().map(Panel::height).sum::<f64>() - panel::GAP;
    marks.draw(&mut paper, y, bottom, time);
    for tick in time.ticks(10) {
        let x = time.at(tick);
        let faint = Pen {
            opacity: 0.12,
            ..Pen::GRID
        };
        paper.line((x, top + panel::HEAD), (x, bottom), faint);
        let words = if tick == 0.0 {
            "0 s".to_owned()
        } else {
            number(tick)
        };
        paper.words(
            (x, bottom + 16.0),
            Anchor::Middle,
            Words::Plain,
            GREY,
            &words,
        );
    }
    let mut y = top;
    for panel in &panels {
        panel.draw(&mut paper, y, time);
        y += panel.height();
    }
    Some(paper.document(bottom + 28.0, &description(found)))
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
    ];
    let slots = series.into_iter().map(Vec::len).max();
    slots.unwrap_or(0) as f64 * run.slot
}

/// For those who do not see it.
fn description(found: &Findings) -> String {
    let claims = found.claims.iter().map(|claim| {
        let holds = if claim.holds { "holds" } else { "fails" };
        format!(
            "{}: {} (wanted: {}), {holds}.",
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
    let load: Vec<_> = backdrop(runs)
        .into_iter()
        .chain(curves(runs, |run| &run.load))
        .collect();
    let governed: Vec<_> = runs
        .iter()
        .filter(|(run, _)| run.governed)
        .copied()
        .collect();
    let curves = [
        (
            "Load: requests that reach the service, per second",
            170.0,
            load,
        ),
        (
            "Goodput: operations that end well, per second",
            120.0,
            curves(runs, |run| &run.goodput),
        ),
        (
            "Denied by the governor, per second",
            80.0,
            curves(&governed, |run| &run.denied),
        ),
    ];
    let shown = curves
        .into_iter()
        .filter(|(_, _, curves)| !curves.is_empty());
    let mut panels: Vec<_> = shown
        .map(|(heading, height, curves)| Panel {
            heading: heading.to_owned(),
            content: Content::Curves(height, curves),
        })
        .collect();
    panels.extend(breakers(&governed));
    panels
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
    let watched: Vec<_> = governed
        .iter()
        .filter(|(run, _)| !run.breakers.is_empty())
        .collect();
    let most = watched
        .iter()
        .flat_map(|(run, _)| run.breakers.iter().copied())
        .fold(0.0, f64::max);
    let bands = watched.iter().map(|(run, pen)| Band {
        name: run.name.clone(),
        stretches: stretches(&run.breakers, run.slot),
        color: pen.color,
        nothing: "closed all the time",
    });
    let bands: Vec<_> = bands.collect();
    let heading = if most > 1.0 {
        format!(
            "Breakers that are not closed (at most {} at once: darkest)",
            number(most)
        )
    } else {
        "Breaker: not closed where the band is dark".to_owned()
    };
    (!bands.is_empty()).then_some(Panel {
        heading,
        content: Content::Bands(bands),
    })
}
