//! The service dies and comes back cold, into the storm of those who waited for it.

use super::usual::{PORT, RETRIES, governed, percent};
use crate::findings::{Claim, Key};
use crate::measure::{Clock, Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "cold-restart",
    title: "the service is restarted cold, at 20 % of its capacity, into the storm",
    seconds: |_| LENGTH + 6.0,
    play,
};

const CAPACITY: f64 = 500.0;
const OFFERED: f64 = 400.0;
/// Dead, and started anew.
const DEAD: (f64, f64) = (10.0, 15.0);
const LENGTH: f64 = 60.0;
/// Its own answer to a queue it can not work off: it is killed and started again.
const RESTARTS: [f64; 2] = [30.0, 45.0];

fn play(play: &Play<'_>) -> Found {
    let with_policy = governed("");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", &RESTARTS),
        || storm(play, Governor::With(&with_policy), "with", &[]),
    );
    let end = LENGTH as usize;
    let least = RESTARTS.iter().chain([&LENGTH]).map(|restart| {
        let before = *restart as usize;
        without.share(before - 3, before)
    });
    Found {
        story: format!(
            "A service that answers {CAPACITY} requests a second is asked for {OFFERED} a second. It dies, and is \
             started 5 s later with 20 % of its capacity, which grows to all of it within 10 s of work. Callers \
             wait 1 s and try again after 50 ms, three times. Without the governor it is restarted two times more."
        ),
        claims: vec![
            Claim::at_most(
                "without: the best goodput it reached before each restart and at the end",
                least.fold(0.0, f64::max),
                0.5,
                "of offered",
            ),
            Claim::at_most(
                "with: until goodput is at 0.95 of offered, and stays",
                with.back_after(DEAD.1),
                30.0,
                "s after the restart",
            ),
            Claim::at_most(
                "with: longest time with more load than the service, as cold as it is, can do",
                overloaded(&with),
                2.0,
                "s",
            ),
            Claim::at_least(
                "with: goodput at the end",
                with.share(end - 5, end),
                0.95,
                "of offered",
            ),
        ],
        key: Some(Key {
            what: "goodput at the end, of offered".to_owned(),
            without: percent(without.share(end - 5, end)),
            with: percent(with.share(end - 5, end)),
        }),
        runs: vec![without.run(), with.run()],
        ..Found::default()
    }
}

/// The longest time, seconds, for which more came than the service could do, from its restart on: the mean of half a
/// second, at each slot of the service.
fn overloaded(taken: &Taken) -> f64 {
    const SLOT: f64 = 0.05;
    const MEAN: usize = 10;
    let clock = Clock {
        start: taken.clock.at(DEAD.1),
        length: LENGTH - DEAD.1,
    };
    let load = clock.load(SLOT, &taken.slots).0;
    let capacity = clock.capacity(SLOT, &taken.slots);
    let over = load
        .windows(MEAN)
        .zip(capacity.windows(MEAN))
        .map(|(load, capacity)| load.iter().sum::<f64>() / SLOT > capacity.iter().sum());
    let mut longest = 0;
    let mut lasts = 0;
    for over in over {
        lasts = if over { lasts + 1 } else { 0 };
        longest = longest.max(lasts);
    }
    f64::from(longest) * SLOT
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, restarts: &[f64]) -> Taken {
    play.stage(governor, name, LENGTH, |stage| {
        let warm = format!("--capacity {CAPACITY}");
        let cold = format!("--capacity {CAPACITY} --cold 20 --warm 10s");
        let mut service = stage.service("service", PORT, &warm);
        let mut slots = Vec::new();
        stage.begin();
        let load = format!("--rate {OFFERED} --for {LENGTH}s {RETRIES} --connections fresh");
        let crowd = stage.crowd("caller", PORT, &load);
        stage.until(DEAD.0);
        slots.extend(service.slots());
        drop(service);
        stage.mark(DEAD.0, DEAD.1, "dead");
        stage.until(DEAD.1);
        service = stage.service("service", PORT, &cold);
        for restart in restarts {
            stage.until(*restart);
            slots.extend(service.slots());
            drop(service);
            service = stage.service("service", PORT, &cold);
            stage.mark(*restart, *restart, "restarted");
        }
        stage.until(LENGTH);
        slots.extend(service.slots());
        let tries = crowd.finish(ENDS_WITHIN).tries;
        Taken::down(name, stage, LENGTH, tries, slots)
    })
}
