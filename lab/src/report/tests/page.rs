//! The page, and what it is made of.

use std::fs;

use super::*;

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
fn what_is_not_judged_neither_holds_nor_fails() {
    let mut late = blip();
    late.claims[1].unjudge();
    let report = markdown::report(&[late.clone()], &about());
    let head =
        "**No claim that was judged fails. 1 not judged: the machine was too slow (blip-5s).**";
    assert!(report.contains(head), "{report}");
    assert!(report.contains("| not judged (1 of 2) |"), "{report}");
    assert!(report.contains("0.95 of offered | not judged: the machine was too slow |"));
    assert!(!report.contains("FAIL"), "{report}");
    assert!(!late.hold());
    let svg = chart::chart(&late).expect("a chart");
    assert!(svg.contains("1 of 2 claims not judged: the machine was too slow"));

    let mut both = blip();
    both.claims[0].unjudge();
    let report = markdown::report(&[both, late], &about());
    let head = "**1 of 2 scenarios FAILS: blip-5s. 2 not judged: the machine was too slow (blip-5s, blip-5s).**";
    assert!(report.contains(head), "{report}");
}

#[test]
fn a_lab_that_was_stopped_says_what_was_played() {
    let stopped = About::this_run(Program::Lab, &[], 20, "usual");
    let report = markdown::report(&[blip()], &stopped);
    let head = "FAILS: blip-5s. Stopped after 1 of 20 scenarios.**";
    assert!(report.contains(head), "{report}");
}

#[test]
fn a_place_where_no_report_can_be_is_noticed_before() {
    let file = std::env::temp_dir().join(format!("storm-lab-file-{}", std::process::id()));
    fs::write(&file, "").expect("written");
    assert!(Directory::claim(&file.join("below")).is_err());
    fs::remove_file(&file).expect("removed");
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
    let directory = Directory::claim(&dir).expect("claimed");
    write(&directory, &[found], &about()).expect("written");
    let read = |name: &str| fs::read_to_string(dir.join(name)).expect(name);
    let json: serde_json::Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(json["scenarios"][0]["claims"][1]["verdict"], "fails");
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

#[test]
fn a_report_says_how_to_get_it_again() {
    let lab = markdown::report(&[blip()], &about());
    assert!(lab.contains("`cargo xtask lab blip-5s`"), "{lab}");
    let fast = About::this_run(Program::Lab, &["blip-5s"], 1, "fast");
    let fast = markdown::report(&[blip()], &fast);
    let again = "again: `sudo target/debug/storm-lab --fast blip-5s`";
    assert!(fast.contains(again), "{fast}");
    let peers = About::this_run(Program::Peers, &[], 4, "usual");
    let peers = markdown::report(&[blip()], &peers);
    assert!(
        peers.contains("again: `cargo xtask bench peers`"),
        "{peers}"
    );
    assert!(!peers.contains("xtask lab"));
}
