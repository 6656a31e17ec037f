//! What a report must be whatever was measured.

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
    About::this_run("usual")
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

#[test]
fn the_chart_of_a_blip_says_what_happens() {
    let svg = chart::chart(&blip()).expect("a chart");
    let words = words_of(&svg);
    for said in [
        "blip-5s: a stall of 5 s at 80 % load",
        "1 of 2 claims FAILS",
        "without the governor",
        "with the governor",
        "stalled",
        "Load: requests that reach the service, per second",
        "Goodput: operations that end well, per second",
        "Denied by the governor, per second",
        "Breaker: coloured while it is open or probing",
        "without 1,600/s",
        "with 400/s",
        "offered 400/s",
        "capacity 500/s",
        "0 s",
    ] {
        assert!(
            words.iter().any(|word| word == said),
            "{said} is not in {words:?}"
        );
    }
    assert_eq!(words.iter().filter(|word| *word == "stalled").count(), 1);
    assert_apart(&svg);
}

#[test]
fn the_limit_is_shown_where_the_limiter_was_awake() {
    let mut found = blip();
    let heading = "Limit of attempts in flight, while the limiter is awake";
    let shows = |found: &Findings| {
        let svg = chart::chart(found).expect("a chart");
        assert_apart(&svg);
        words_of(&svg).iter().any(|word| word == heading)
    };
    assert!(!shows(&found));
    found.runs[1].limit[20..30].fill(4.0);
    found.runs[1].limit[40] = 2.0;
    assert!(shows(&found));
    // A wide scale has room too.
    for limit in [10_000.0, 400_000.0, 3_500_000.0, 4.3e9, 1.8e19] {
        found.runs[1].limit[41] = limit;
        assert!(shows(&found));
    }
}

#[test]
fn a_chart_is_well_formed_whatever_was_measured() {
    let zeros = || vec![run("without", false), run("with", true)];
    let mut gaps = zeros();
    gaps[1].load = vec![f64::NAN, f64::INFINITY, 5.0];
    gaps[1].goodput = vec![f64::NAN; 4];
    gaps[0].denied = Vec::new();
    gaps[1].capacity = Vec::new();
    gaps[1].breakers = vec![0.0, 3.0, 1.0];
    gaps[1].marks = blip().runs[1].marks.clone();
    let mut short = vec![run("<with> & \"without\"", true)];
    short[0].load = vec![1.0];
    let many: Vec<_> = (0..9)
        .map(|at| run(&format!("with, setting {at}"), at > 1))
        .collect();
    for runs in [
        zeros(),
        gaps,
        short,
        vec![run("without", false)],
        vec![run("with", true)],
        many,
    ] {
        let svg = chart::chart(&found(runs)).expect("a chart");
        words_of(&svg);
        assert_apart(&svg);
    }
}

#[test]
fn words_do_not_touch_where_lines_end_at_one_height() {
    let names = ["without", "with", "with, breaker off", "with, limiter off"];
    let runs = names
        .iter()
        .map(|name| run(name, *name != "without"))
        .collect();
    let mut found = found(runs);
    found.title = "a long title that says a lot of what happens in this scenario ".repeat(3);
    for (at, run) in found.runs.iter_mut().enumerate() {
        for (from, label) in [(2.0, "killed"), (3.0, "restarted cold"), (50.0, "served")] {
            let label = format!("{label} {at}");
            run.marks.push(Mark {
                from,
                to: from + 1.0,
                label,
            });
        }
    }
    assert_apart(&chart::chart(&found).expect("a chart"));
}

#[test]
fn each_storm_of_several_has_a_picture_with_its_own_claims() {
    let mut found = blip();
    let scene = |at: usize, name: &str| Scene {
        name: name.to_owned(),
        title: format!("a storm of {name}s"),
        runs: at..at + 1,
        claims: at..at + 1,
    };
    found.scenes = vec![scene(0, "stall"), scene(1, "error")];
    let pictures = found.pictures();
    let words: Vec<_> = pictures
        .iter()
        .map(|picture| words_of(&chart::chart(picture).expect("a chart")))
        .collect();
    let says = |at: usize, what: &str| words[at].iter().any(|word: &String| word == what);
    assert!(says(0, "blip-5s-stall: a storm of stalls"), "{words:?}");
    assert!(says(0, "without the governor") && !says(0, "with the governor"));
    assert!(says(0, "Every claim holds (1 of 1)"));
    assert!(says(1, "1 of 1 claims FAILS"));
    let page = markdown::report(&[found], &about());
    assert!(page.contains("](blip-5s-stall.svg)"), "{page}");
    assert!(page.contains("](blip-5s-error.svg)"));
}

#[test]
fn what_was_not_played_has_no_chart() {
    assert_eq!(chart::chart(&found(Vec::new())), None);
    let mut empty = run("with", true);
    for series in [
        &mut empty.offered,
        &mut empty.load,
        &mut empty.goodput,
        &mut empty.capacity,
        &mut empty.denied,
        &mut empty.breakers,
        &mut empty.limit,
    ] {
        series.clear();
    }
    assert_eq!(chart::chart(&found(vec![empty])), None);
}

#[test]
fn capacity_is_shown_of_each_run_where_it_differs() {
    let mut found = blip();
    found.runs[1].capacity[40..].fill(100.0);
    let words = words_of(&chart::chart(&found).expect("a chart"));
    assert!(
        words.iter().any(|word| word == "capacity, without 500/s"),
        "{words:?}"
    );
    assert!(
        words.iter().any(|word| word == "capacity, with 100/s"),
        "{words:?}"
    );
}

#[test]
fn claims_that_fail_are_told_in_words() {
    let report = markdown::report(&[blip()], &about());
    assert!(
        report.contains("**1 of 1 scenarios FAILS: blip-5s.**"),
        "{report}"
    );
    assert!(report.contains("| **NO** (1 of 2) |"), "{report}");
    assert!(
        report.contains(
            "| with: goodput | 0.500 of offered | at least 0.95 of offered | **FAILS** |"
        )
    );
    assert!(report.contains("| with: time to recover | 1.500 s | at most 5 s | holds |"));

    let mut good = blip();
    good.claims.pop();
    let report = markdown::report(&[good.clone(), good], &about());
    assert!(
        report.contains("**Every claim holds in all 2 scenarios.**"),
        "{report}"
    );
    assert!(!report.contains("FAIL"), "{report}");
}

#[test]
fn the_key_figure_is_made_of_the_runs_where_there_is_none() {
    let report = markdown::report(&[blip()], &about());
    let figures = "| goodput 0 % → 100 % of what is possible, load 4 x → 0.91 x offered |";
    assert!(report.contains(figures), "{report}");
    assert!(
        report.contains("| without | 4 x offered | 4 x offered | 0 % of what is possible | - |")
    );
    assert!(
        report.contains(
            "| with | 0.91 x offered | 1 x offered | 100 % of what is possible | 6,000 |"
        )
    );

    let mut own = blip();
    own.key = Some(Key {
        what: "first tries refused".to_owned(),
        without: String::new(),
        with: "0".to_owned(),
    });
    let report = markdown::report(&[own, found(Vec::new())], &about());
    assert!(report.contains("| first tries refused: 0 |"), "{report}");
    assert!(report.contains("| - |"), "{report}");
}

#[test]
fn every_row_of_a_table_has_as_many_cells_as_its_head() {
    let mut odd = blip();
    odd.title = "a | b\nc".to_owned();
    odd.claims[0].what = "x | y".to_owned();
    odd.sweeps = vec![sweep()];
    let report = markdown::report(&[odd, found(Vec::new())], &about());
    let mut cells = None;
    for line in report.lines() {
        if !line.starts_with('|') {
            cells = None;
            continue;
        }
        let here = line.replace("\\|", "").matches('|').count();
        assert_eq!(*cells.get_or_insert(here), here, "{line}");
    }
}

#[test]
fn a_sweep_is_a_table_and_a_chart_with_the_chosen_value() {
    let mut with_sweep = blip();
    with_sweep.sweeps = vec![sweep()];
    let report = markdown::report(&[with_sweep], &about());
    assert!(
        report.contains("### `retryConstraint.budget.percent`: 10 %"),
        "{report}"
    );
    assert!(
        report.contains("| **10 % (chosen)** | **0.97** | **1.1** |"),
        "{report}"
    );
    let svg = sweep::chart(&sweep()).expect("a chart");
    let words = words_of(&svg);
    assert_eq!(words.iter().filter(|word| *word == "chosen").count(), 2);
    assert_apart(&svg);
    // A heading is never cut, however long.
    let mut long = sweep();
    for (_, measured) in &mut long.points {
        let name = "until goodput is back after 60 s of outage, 50 nodes, worst seed, of what is possible, s";
        measured.extend([("x".to_owned(), 1.0), (name.to_owned(), 2.0)]);
    }
    let svg = sweep::chart(&long).expect("a chart");
    assert!(
        words_of(&svg)
            .iter()
            .any(|line| line.ends_with("possible, s"))
    );
    assert_apart(&svg);
}

#[test]
fn a_sweep_with_gaps_is_well_formed() {
    let mut gaps = sweep();
    gaps.points[0].1[0].1 = f64::NAN;
    gaps.points[1].1.clear();
    gaps.points.push((0.0, vec![("other".to_owned(), 0.0)]));
    words_of(&sweep::chart(&gaps).expect("a chart"));
    gaps.points.clear();
    assert_eq!(sweep::chart(&gaps), None);
}

#[test]
fn the_report_is_written_whole() {
    let dir = std::env::temp_dir().join(format!("storm-lab-report-{}", std::process::id()));
    let mut found = blip();
    found.sweeps = vec![sweep()];
    found.runs[0].load[3] = f64::NAN;
    write(&dir, &[found], &about()).expect("written");
    let read = |name: &str| fs::read_to_string(dir.join(name)).expect(name);
    let json: serde_json::Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(json["scenarios"][0]["claims"][1]["holds"], false);
    assert_eq!(json["about"]["length"], "usual");
    assert_eq!(json["holds"], false);
    // Every picture that the page shows is there.
    let page = read("report.md");
    let pictures: Vec<_> = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    let pictures: Vec<_> = pictures
        .iter()
        .filter(|name| name.ends_with(".svg"))
        .collect();
    assert_eq!(
        pictures,
        [
            &"blip-5s.svg",
            &"blip-5s-sweep-retryConstraint-budget-percent.svg"
        ]
    );
    for picture in pictures {
        words_of(&read(picture));
    }
    fs::remove_dir_all(&dir).expect("removed");
}
