//! The fast subset of the lab: storms as short as they can be. What a claim wants is the same as in
//! the whole lab.

use governor_lab::findings::Findings;
use governor_lab::progress::Progress;
use governor_lab::scenario::{Length, Scenario};

/// Where the machine was too slow for a load, nothing was shown: it is played again, so often.
const AGAIN: usize = 2;

fn play(scenario: &Scenario) -> Findings {
    let plan = [(scenario.name, (scenario.seconds)(Length::Fast))];
    let progress = Progress::new(plan.into_iter());
    let found = progress.scenario(scenario.name, || scenario.run(Length::Fast, &progress));
    progress.say(&found);
    found
}

#[track_caller]
fn holds(name: &str) {
    let scenario = Scenario::named(name).expect("a scenario has this name");
    let mut found = play(scenario);
    for _ in 0..AGAIN {
        if !found.is_judged() {
            found = play(scenario);
        }
    }
    let failed: Vec<_> = found.claims.iter().filter(|claim| !claim.holds).collect();
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
