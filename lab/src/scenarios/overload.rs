//! More is offered than the service can do, and callers retry at once.

use super::usual::{NO_BREAKER, PORT, governed};
use crate::findings::{Claim, Key};
use crate::measure::Taken;
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "overload",
    title: "1.2 times of what the service can do, callers retry at once",
    seconds: |length| 3.0 * (Times::of(length).end + 4.0),
    play,
};

const CAPACITY: f64 = 1_000.0;
const OFFERED: f64 = 1_200.0;

#[derive(Clone, Copy)]
struct Times {
    /// From then on goodput is judged. After 5.5 s the queue is longer than callers wait, and for 1.5 s what the service
    /// does is for callers who have left, until that is worked off: a hole that counts where the storm lasts a minute.
    /// 15 s are too short to judge it: it would be a tenth of them.
    judged: usize,
    end: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let fast = Self {
            judged: 10,
            end: 15.0,
        };
        let whole = Self {
            judged: 2,
            end: 60.0,
        };
        length.pick(fast, whole, whole)
    }
}

/// The worst second at the service after the second one, relative to what was offered.
fn worst(taken: &Taken) -> f64 {
    let end = taken.clock.length as usize;
    taken.load().peak(2, end) / taken.offered().mean(2, end)
}

/// Goodput relative to capacity.
fn goodput(taken: &Taken, from: usize) -> f64 {
    taken.goodput().mean(from, taken.clock.length as usize) / CAPACITY
}

fn play(play: &Play<'_>) -> Found {
    let Times { judged, end } = Times::of(play.length);
    let all = governed("");
    let no_breaker = governed(NO_BREAKER);
    // One after the other: each takes most of the machine.
    let without = storm(play, Governor::Without, "without", end);
    let with = storm(play, Governor::With(&all), "with", end);
    let off = storm(play, Governor::With(&no_breaker), "with, breaker off", end);
    let mut claims = vec![
        Claim::at_least(
            "without: the worst second at the service",
            worst(&without),
            2.0,
            "x offered",
        ),
        Claim::at_most(
            format!("without: goodput from {judged} s on"),
            goodput(&without, judged),
            0.5,
            "of capacity",
        ),
    ];
    for taken in [&with, &off] {
        let name = &taken.name;
        claims.extend([
            Claim::at_most(
                format!("{name}: the worst second at the service after the second one"),
                worst(taken),
                1.15,
                "x offered",
            ),
            Claim::at_least(
                format!("{name}: goodput from {judged} s on"),
                goodput(taken, judged),
                0.95,
                "of capacity",
            ),
        ]);
    }
    let told = |taken: &Taken| {
        let (goodput, worst) = (100.0 * goodput(taken, judged), worst(taken));
        format!("{goodput:.0} % of capacity, {worst:.1} x")
    };
    let key = Key {
        what: format!("goodput from {judged} s on, load in the worst second"),
        without: told(&without),
        with: told(&with),
    };
    Found {
        story: format!(
            "A service that answers {CAPACITY} requests a second from one queue is asked for {OFFERED} a second, \
             each on a connection of its own. Callers wait 1 s and try again at once, three times."
        ),
        claims,
        key: Some(key),
        runs: [without, with, off].iter().map(Taken::run).collect(),
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, length: f64) -> Taken {
    play.stage(governor, name, length, |stage| {
        let service = stage.service("service", PORT, &format!("--capacity {CAPACITY}"));
        stage.begin();
        let load = format!(
            "--rate {OFFERED} --for {length}s --retry naive --tries 4 --delay 0ms --connections fresh"
        );
        let crowd = stage.crowd("caller", PORT, &load);
        stage.until(length);
        let slots = service.slots();
        let tries = crowd.finish(ENDS_WITHIN).tries;
        Taken::down(name, stage, length, tries, slots)
    })
}
