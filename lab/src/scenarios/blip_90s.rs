//! The innermost of three layers stalls, and every layer above it tries again.

use std::time::Duration;

use super::layers::{CALLED, Calls, Layers, Names};
use crate::findings::{Claim, Key};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{Governor, policy};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "blip-90s",
    title: "the innermost of three layers stalls, each layer tries 1 + 3 times",
    seconds: |length| Times::of(length).end + 8.0,
    play,
};

/// At 80 % load. The storm is 64 times of what is offered, and a login has 20,000 open files.
const OFFERED: f64 = 16.0;
const CAPACITY: f64 = 20.0;
const TRIES: u32 = 4;

/// What happens when, in seconds.
#[derive(Clone, Copy)]
struct Times {
    stall: (f64, f64),
    end: f64,
    patience: Duration,
}

impl Times {
    fn of(length: Length) -> Self {
        let (calm, lasts, after) =
            length.pick((2.0, 5.0, 9.0), (10.0, 20.0, 16.0), (10.0, 90.0, 16.0));
        Self {
            stall: (calm, calm + lasts),
            end: calm + lasts + after,
            patience: length.pick(
                Duration::from_millis(300),
                Duration::from_secs(1),
                Duration::from_secs(1),
            ),
        }
    }

    fn lasts(self) -> f64 {
        self.stall.1 - self.stall.0
    }
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let with_policy = policy(&CALLED, "");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", times),
        || storm(play, Governor::With(&with_policy), "with", times),
    );
    let (from, to) = (times.stall.0 as usize, times.stall.1 as usize);
    let last = to - (times.lasts() / 4.0) as usize;
    // They are tries of what was offered in the ten seconds before.
    let late = |taken: &Taken| taken.load().mean(last, to) / taken.offered().mean(from, to);
    let mean = |taken: &Taken| taken.load().sum(from, to) / taken.offered().sum(from, to);
    let lasts = times.lasts();
    let mut notes = vec![
        "A stalled leaf takes requests and answers none of them. Every operation of the edge becomes 64 attempts at \
         the leaf once each layer is through its tries, about 10 s after the first of them."
            .to_owned(),
    ];
    if lasts < 90.0 {
        notes.push(format!(
            "The stall is scaled down from 90 s to {lasts} s. `cargo xtask lab --full blip-90s` plays 90 s in two \
             minutes; what that gave last is in docs/lab.md."
        ));
    }
    Found {
        story: format!(
            "The edge asks mid-1 {OFFERED} times a second, which asks mid-2, which asks the leaf, which can do \
             {CAPACITY} a second. The leaf stalls for {lasts} s. Each layer waits {} ms and tries again after 50 ms, \
             three times.",
            times.patience.as_millis(),
        ),
        claims: vec![
            Claim::at_least(
                "without: last quarter of the stall at the leaf",
                late(&without),
                50.0,
                "x what the edge offers",
            ),
            Claim::at_most(
                "with: mean over the stall at the leaf",
                mean(&with),
                1.35,
                "x what the edge offers",
            ),
            Claim::at_most(
                "with: until goodput is at 0.95 of offered, and stays",
                with.back_after(times.stall.1),
                10.0,
                "s after the stall",
            ),
        ],
        key: Some(Key {
            what: "attempts at the leaf for each operation of the edge, last quarter of the stall"
                .to_owned(),
            without: format!("{:.0}", late(&without)),
            with: format!("{:.1}", late(&with)),
        }),
        runs: vec![without.run(), with.run()],
        notes,
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, times: Times) -> Taken {
    let calls = Calls {
        tries: TRIES,
        patience: times.patience,
        names: Names::None,
    };
    play.stage(governor, name, times.end, |stage| {
        let layers = Layers::start(stage, calls, CAPACITY);
        stage.begin();
        let load = Layers::load(stage, calls, OFFERED, times.end);
        stage.until(times.stall.0);
        layers.leaf.order("hang");
        stage.until(times.stall.1);
        layers.leaf.order("serve");
        stage.mark(times.stall.0, times.stall.1, "leaf stalled");
        stage.until(times.end);
        let (tries, slots) = layers.finish(load);
        Taken::down(name, stage, times.end, tries, slots)
    })
}
