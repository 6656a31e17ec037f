//! What a report must be whatever was measured.

mod charts;
mod page;

use super::*;
use crate::findings::{Claim, Key, Mark, Run, Scene};
use roxmltree::{Document, Node};

/// A run of 60 s of nothing but zeros.
pub fn run(name: &str, governed: bool) -> Run {
    let zeros = || vec![0.0; 120];
    Run {
        name: name.to_owned(),
        governed,
        slot: 0.5,
        offered: zeros(),
        load: zeros(),
        goodput: zeros(),
        capacity: zeros(),
        denied: zeros(),
        breakers: zeros(),
        limit: vec![f64::NAN; 120],
        marks: Vec::new(),
    }
}

/// Findings of these runs.
pub fn found(runs: Vec<Run>) -> Findings {
    Findings {
        tables: Vec::new(),
        name: "blip-5s".to_owned(),
        title: "a stall of 5 s at 80 % load".to_owned(),
        story: "Callers try three times.".to_owned(),
        claims: vec![
            Claim::at_most("with: time to recover", 1.5, 5.0, "s"),
            Claim::at_least("with: goodput", 0.5, 0.95, "of offered"),
        ],
        runs,
        scenes: Vec::new(),
        key: None,
        sweeps: Vec::new(),
        notes: vec!["Scaled down.".to_owned()],
        took: 75.0,
    }
}

/// A stall between 10 s and 15 s that only the governed service leaves.
pub fn blip() -> Findings {
    let (mut without, mut with) = (run("without", false), run("with", true));
    for at in 0..120 {
        let (stalled, after) = ((20..30).contains(&at), at >= 30);
        for run in [&mut without, &mut with] {
            run.offered[at] = 400.0;
            run.capacity[at] = 500.0;
        }
        without.load[at] = if at < 20 { 400.0 } else { 1_600.0 };
        without.goodput[at] = if at < 20 { 400.0 } else { 0.0 };
        with.load[at] = if stalled { 20.0 } else { 400.0 };
        with.goodput[at] = if stalled { 0.0 } else { 400.0 };
        with.denied[at] = if stalled { 1_200.0 } else { 0.0 };
        with.breakers[at] = if stalled || (after && at < 32) {
            1.0
        } else {
            0.0
        };
    }
    for run in [&mut without, &mut with] {
        run.marks.push(Mark {
            from: 10.0,
            to: 15.0,
            label: "stalled".to_owned(),
        });
    }
    found(vec![without, with])
}

fn sweep() -> Sweep {
    let measures = |goodput: f64, load: f64| {
        vec![
            ("goodput, of offered".to_owned(), goodput),
            ("load, x offered".to_owned(), load),
        ]
    };
    Sweep {
        key: "retryConstraint.budget.percent".to_owned(),
        unit: "%".to_owned(),
        chosen: 10.0,
        points: vec![
            (5.0, measures(0.95, 1.05)),
            (10.0, measures(0.97, 1.1)),
            (20.0, measures(0.9, 1.2)),
        ],
    }
}

fn about() -> About {
    About::this_run(Program::Lab, &[], 1, "usual")
}

/// Parses it as XML, and looks that every number of it is one and that all of it is on the paper.
#[track_caller]
fn words_of(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap_or_else(|why| panic!("{why}: {svg}"));
    let size = |name: &str| -> f64 {
        let value = document.root_element().attribute(name).expect("a size");
        value.parse().expect("a number")
    };
    let (width, height) = (size("width"), size("height"));
    for node in document.descendants().filter(Node::is_element) {
        for attribute in node.attributes() {
            let value = attribute.value();
            assert!(
                !value.contains("NaN") && !value.contains("inf"),
                "{attribute:?}"
            );
            let most = match attribute.name() {
                "x" | "x1" | "x2" => width,
                "y" | "y1" | "y2" => height,
                _ => continue,
            };
            let at: f64 = value.parse().expect("a number");
            assert!((0.0..=most).contains(&at), "{attribute:?} of {most}");
        }
    }
    assert!(!svg.contains("NaN"));
    document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text().map(|text| text.trim().to_owned()))
        .collect()
}

/// That no two words of a picture touch, by the width that they are taken to have.
#[track_caller]
fn assert_apart(svg: &str) {
    let document = Document::parse(svg).expect("well-formed");
    let boxes: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| {
            let number = |name| node.attribute(name).and_then(|it| it.parse::<f64>().ok());
            let (x, y) = (number("x").expect("x"), number("y").expect("y"));
            let words = node.text().unwrap_or_default().trim();
            let size = number("font-size").unwrap_or(12.0);
            let wide = paper::width(words) * size / 12.0;
            let left = match node.attribute("text-anchor") {
                Some("middle") => x - wide / 2.0,
                Some("end") => x - wide,
                _ => x,
            };
            assert!(
                left + wide <= paper::WIDTH + 1.0,
                "beyond the paper: {words}"
            );
            assert!(left >= 0.0, "cut: {words}");
            (left, left + wide, y - size * 0.8, y + size * 0.2, words)
        })
        .collect();
    for (at, one) in boxes.iter().enumerate() {
        for other in &boxes[at + 1..] {
            let touch = one.0 < other.1 && other.0 < one.1 && one.2 < other.3 && other.2 < one.3;
            assert!(!touch, "{one:?} and {other:?}");
        }
    }
}
