//! Charts of scenarios.

use super::*;

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
