//! The fast subset of the lab: storms as short as they can be. What a claim wants is the same as in
//! the whole lab.

use governor_lab::progress::Progress;
use governor_lab::scenario::{Length, Scenario};

#[track_caller]
fn holds(name: &str) {
    let scenario = Scenario::named(name).expect("a scenario has this name");
    let plan = [(scenario.name, (scenario.seconds)(Length::Fast))];
    let progress = Progress::new(plan.into_iter());
    let found = progress.scenario(name, || scenario.run(Length::Fast, &progress));
    progress.say(&found);
    // Tests share their machine: a figure that is as wanted although the load was late is good enough here.
    let failed: Vec<_> = found.claims.iter().filter(|it| !it.within).collect();
    assert!(!found.claims.is_empty(), "{name} claims nothing");
    assert!(failed.is_empty(), "{name}: {failed:#?}");
}

#[test]
fn an_overloaded_service_keeps_its_goodput() {
    holds("overload");
}

#[test]
fn a_stall_is_over_when_it_is_over() {
    holds("blip-5s");
}

#[test]
fn governors_that_know_of_no_other_let_a_service_recover() {
    holds("many-nodes");
}
