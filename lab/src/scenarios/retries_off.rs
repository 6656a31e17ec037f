//! An operator turns retries off in the middle of a storm, and lets them return in stages.

use governor_tests::service::Service;

use super::usual::{PORT, RETRIES, governed};
use crate::findings::{Claim, Key};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor, Stage};
use crate::watch::Sample;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "retries-off",
    title: "a storm runs, an operator turns retries off, then restores them in stages",
    seconds: |_| LENGTH + 6.0,
    play,
};

const CAPACITY: f64 = 400.0;
/// Four tries of each are more than the service can do.
const OFFERED: f64 = 160.0;
const STALL: (f64, f64) = (5.0, 8.0);
/// The storm has lasted when the order is given.
const OFF: f64 = 12.0;
/// What waits in the queue is worked off by then: 240 a second.
const RESTORE: f64 = 28.0;
/// Length of a stage.
const EVERY: f64 = 5.0;
/// Half of the answers are errors from here to there: in the second stage.
const TROUBLE: (f64, f64) = (34.5, 44.0);
const LENGTH: f64 = 75.0;
/// Nothing but orders refuses: what is shown is theirs.
const ORDERS_ALONE: &str = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}, \
                            retryConstraint: {mode: Disabled}, retry: {attempts: 10}, pacing: {jitter: None}";

fn play(play: &Play<'_>) -> Found {
    let orders_alone = governed(ORDERS_ALONE);
    let (without, (with, held)) = beside(
        || storm(play, Governor::Without, "without", |_, _| ()).0,
        || storm(play, Governor::With(&orders_alone), "with", incident),
    );
    let offered = with.offered();
    let load = with.load();
    let (off, restore, end) = (OFF as usize, RESTORE as usize, LENGTH as usize);
    let per_second = |from: usize, to: usize| {
        (from..to)
            .map(|second| load.0[second] / offered.mean(second.saturating_sub(1), second + 1))
            .fold(0.0, f64::max)
    };
    Found {
        story: format!(
            "A service that answers {CAPACITY} requests a second is asked for {OFFERED} a second and has stalled for \
             3 s: the storm goes on by itself. At {OFF} s `retries off` is given, at {RESTORE} s `retries restore` \
             with stages of {EVERY} s. From {} to {} s half of the answers are errors. No other rule refuses here.",
            TROUBLE.0, TROUBLE.1,
        ),
        claims: vec![
            Claim::at_least(
                "with: the storm goes on by itself before the order: load",
                load.mean(off - 4, off) / offered.mean(off - 4, off),
                2.0,
                "x first tries",
            ),
            Claim::at_most(
                "with: worst second from 1 s after `retries off` to `restore`: load",
                per_second(off + 1, restore),
                1.05,
                "x first tries",
            ),
            Claim::at_least(
                "with: goodput before `restore`",
                with.share(restore - 3, restore),
                0.95,
                "of offered",
            ),
            Claim::at_most(
                "with: worst second while retries return, half of the answers being errors for a while: load",
                per_second(restore, end),
                1.5,
                "x first tries",
            ),
            Claim::that(
                "with: a stage is held while failures are high",
                &held.during,
                "held, or a stage back",
                held.is_held,
            ),
            Claim::at_least(
                "with: goodput at the end, all retries admitted",
                with.share(end - 5, end),
                0.95,
                "of offered",
            ),
            Claim::that(
                "with: retries at the end",
                &held.after,
                "Enabled, 100 %",
                held.is_over,
            ),
            Claim::at_most(
                "without: goodput at the end",
                without.share(end - 5, end),
                0.5,
                "of offered",
            ),
        ],
        key: Some(Key {
            what: "load when retries are off, of first tries".to_owned(),
            without: format!(
                "{:.1} x",
                without.load().mean(off + 1, restore) / without.offered().mean(off + 1, restore)
            ),
            with: format!(
                "{:.2} x",
                load.mean(off + 1, restore) / offered.mean(off + 1, restore)
            ),
        }),
        runs: vec![without.run(), with.run()],
        ..Found::default()
    }
}

/// What became of the restore.
#[derive(Default)]
struct Held {
    during: String,
    is_held: bool,
    after: String,
    is_over: bool,
}

fn retries(stage: &Stage<'_>) -> (String, u64) {
    let sample = stage.status();
    sample.as_ref().map(told).unwrap_or_default()
}

/// State and percent of retries that are admitted.
fn told(sample: &Sample) -> (String, u64) {
    let retries = &sample.status["retries"];
    let state = retries["state"].as_str().unwrap_or("unknown").to_owned();
    (state, retries["percent"].as_u64().unwrap_or(u64::MAX))
}

/// Marks each stage of the restore where it began, as `status` had it.
fn mark_stages(stage: &Stage<'_>) {
    let samples = stage.samples();
    let percents = samples.iter().map(|sample| (sample.t, told(sample).1));
    let mut last = 100;
    for (t, percent) in percents {
        let at = t.saturating_sub(stage.start()) as f64 / 1e6;
        match (last, percent) {
            // `retries off`, which is marked.
            (_, 0) => {}
            (0, first) => stage.mark(at, at, &format!("restore: {first} %")),
            (last, next) if next != last => stage.mark(at, at, &format!("{next} %")),
            _ => {}
        }
        last = percent;
    }
}

fn storm<T>(
    play: &Play<'_>,
    governor: Governor<'_>,
    name: &str,
    incident: impl FnOnce(&Stage<'_>, &Service) -> T,
) -> (Taken, T) {
    play.stage(governor, name, LENGTH, |stage| {
        let service = stage.service("service", PORT, &format!("--capacity {CAPACITY}"));
        stage.begin();
        let load = format!(
            "--rate {OFFERED} --arrivals even --for {LENGTH}s {RETRIES} --connections fresh"
        );
        let crowd = stage.crowd("caller", PORT, &load);
        stage.until(STALL.0);
        service.order("stall");
        stage.mark(STALL.0, STALL.1, "stalled");
        stage.until(STALL.1);
        service.order("serve");
        let met = incident(stage, &service);
        stage.until(LENGTH);
        let slots = service.slots();
        let tries = crowd.finish(ENDS_WITHIN).tries;
        (Taken::down(name, stage, LENGTH, tries, slots), met)
    })
}

/// What the operator does, and what `status` says of it.
fn incident(stage: &Stage<'_>, service: &Service) -> Held {
    stage.until(OFF);
    stage.order("retries off --yes --for 10m");
    stage.mark(OFF, RESTORE, "retries off");
    stage.until(RESTORE);
    stage.order(&format!(
        "retries restore --stages 10,25,50,100 --every {EVERY}s"
    ));
    stage.until(TROUBLE.0);
    let (_, before) = retries(stage);
    service.order("status 500 50");
    stage.until(TROUBLE.1);
    let (state, during) = retries(stage);
    service.order("serve");
    stage.mark(TROUBLE.0, TROUBLE.1, "half are errors");
    // Two stages are left, and what was held.
    stage.until(LENGTH - 1.0);
    let (after, all) = retries(stage);
    mark_stages(stage);
    Held {
        during: format!(
            "{before} % before, {during} % and {state} after {} s of it",
            TROUBLE.1 - TROUBLE.0
        ),
        is_held: state == "Restoring" && during <= before,
        after: format!("{after}, {all} %"),
        is_over: after == "Enabled" && all == 100,
    }
}
