//! The service stalls for a moment; its callers keep it down.

use super::stalled::Stalled;
use super::usual::{RETRIES, governed, percent};
use crate::findings::{Claim, Key};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::Governor;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "blip-5s",
    title: "a stall of 5 s at 80 % load, three retries without jitter",
    seconds: |length| STALL.1 + length.pick(15.0, 60.0, 60.0) + 6.0,
    play,
};

const CAPACITY: f64 = 500.0;
const OFFERED: f64 = 400.0;
const STALL: (f64, f64) = (10.0, 15.0);

fn play(play: &Play<'_>) -> Found {
    let after = play.length.pick(15.0, 60.0, 60.0);
    let end = (STALL.1 + after) as usize;
    let with_policy = governed("");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", after),
        || storm(play, Governor::With(&with_policy), "with", after),
    );
    let before = with
        .samples
        .iter()
        .rfind(|sample| sample.t < with.clock.at(STALL.0));
    let harm = before.map_or(f64::NAN, |sample| sample.total("deniedFirstTries") as f64);
    Found {
        story: format!(
            "A service that answers {CAPACITY} requests a second from one queue is asked for {OFFERED} a second. It \
             stalls for 5 s. Callers wait 1 s and try again after 50 ms, three times, on new connections."
        ),
        claims: vec![
            Claim::at_most(
                format!("without: goodput {after} s after the stall"),
                without.share(end - 5, end),
                0.5,
                "of offered",
            ),
            Claim::at_most(
                "with: until goodput is at 0.95 of offered, and stays",
                with.back_after(STALL.1),
                5.0,
                "s after the stall",
            ),
            Claim::at_least(
                format!("with: goodput {after} s after the stall"),
                with.share(end - 5, end),
                0.95,
                "of offered",
            ),
            Claim::at_most("with: first tries refused before the stall", harm, 0.0, ""),
        ],
        key: Some(Key {
            what: format!("goodput {after} s after the stall, of offered"),
            without: percent(without.share(end - 5, end)),
            with: percent(with.share(end - 5, end)),
        }),
        runs: vec![without.run(), with.run()],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, after: f64) -> Taken {
    let storm = Stalled {
        callers: RETRIES,
        capacity: CAPACITY,
        offered: OFFERED,
        stall: STALL,
        length: STALL.1 + after,
    };
    storm.play(play, governor, name)
}
