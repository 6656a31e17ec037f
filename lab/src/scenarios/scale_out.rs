//! In the middle of a storm its service gets twice the capacity; the database behind it does not.

use std::time::Duration;

use super::usual::SERVICE;
use crate::findings::{Claim, Key};
use crate::measure::{Series, Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{Governor, policy};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "scale-out",
    title: "capacity is doubled during the storm, behind it a shared database of fixed capacity",
    seconds: |length| Times::of(length).end + 8.0,
    play,
};

const DATABASE: (&str, u16) = ("database", 8090);
/// No more: without the governor the database has every file open that it may (20,000) a few seconds
/// after the end.
const OFFERED: f64 = 200.0;
/// Of the service: as usual, with half of it lost, and scaled out to twice of what it was.
const USUAL: f64 = 250.0;
const HALF: f64 = 125.0;
const TWICE: f64 = 500.0;
/// Of the database, for the service and for others.
const SHARED: f64 = 300.0;
const OTHERS: f64 = 35.0;

/// What happens when, in seconds.
#[derive(Clone, Copy)]
struct Times {
    lost: f64,
    doubled: f64,
    end: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let (lost, doubled, end) =
            length.pick((3.0, 7.0, 14.0), (8.0, 20.0, 35.0), (8.0, 20.0, 35.0));
        Self { lost, doubled, end }
    }
}

/// A run, and what others asked of the database in it.
struct Shared {
    taken: Taken,
    others: Others,
}

struct Others {
    offered: Series,
    goodput: Series,
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let with_policy = policy(&[SERVICE, DATABASE], "");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", times),
        || storm(play, Governor::With(&with_policy), "with", times),
    );
    let (doubled, end) = (times.doubled as usize, times.end as usize);
    let normal = OFFERED + OTHERS;
    let worst = |shared: &Shared| shared.taken.load().peak(doubled, end) / normal;
    let others = |shared: &Shared| {
        let Others { offered, goodput } = &shared.others;
        goodput.sum(doubled, end) / offered.sum(doubled, end)
    };
    Found {
        story: format!(
            "A service that answers {USUAL} requests a second is asked for {OFFERED} a second; for each it asks a \
             database, which others ask {OTHERS} times a second and which can do {SHARED}. At {} s half of the \
             service is lost, at {} s it is scaled out to {TWICE} a second. Callers and service wait 1 s and try \
             again after 50 ms, three times. Requests come at equal distances: what a second has more than normal, \
             the storm has made.",
            times.lost, times.doubled,
        ),
        claims: vec![
            Claim::at_least(
                "without: worst second at the database after it",
                worst(&without),
                1.5,
                "x normal",
            ),
            Claim::at_most(
                "without: goodput of others at the database",
                others(&without),
                0.5,
                "of offered",
            ),
            Claim::at_most(
                "with: worst second at the database after it",
                worst(&with),
                1.2,
                "x normal",
            ),
            Claim::at_least(
                "with: goodput of others at the database",
                others(&with),
                0.95,
                "of offered",
            ),
            Claim::at_least(
                "with: goodput of the service at the end",
                with.taken.share(end - 5, end),
                0.95,
                "of offered",
            ),
        ],
        key: Some(Key {
            what: "worst second at the database".to_owned(),
            without: format!("{:.1} x normal", worst(&without)),
            with: format!("{:.2} x", worst(&with)),
        }),
        runs: vec![without.taken.run(), with.taken.run()],
        notes: vec!["Load and capacity in the chart are the database's.".to_owned()],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, times: Times) -> Shared {
    let Times { lost, doubled, end } = times;
    play.stage(governor, name, end, |stage| {
        let database = stage.service(DATABASE.0, DATABASE.1, &format!("--capacity {SHARED}"));
        let options = format!(
            "--capacity {USUAL} --name service --backend 127.0.0.1:{} --tries 4 --delay 50ms",
            DATABASE.1
        );
        let service = stage.service(SERVICE.0, SERVICE.1, &options);
        stage.begin();
        let load = |rate: f64, tries: u32| {
            format!(
                "--rate {rate} --arrivals even --for {end}s --retry naive --tries {tries} --delay 50ms \
                 --connections fresh"
            )
        };
        let callers = stage.crowd("caller", SERVICE.1, &load(OFFERED, 4));
        let others = stage.crowd("reports", DATABASE.1, &load(OTHERS, 1));
        stage.until(lost);
        service.order(&format!("capacity {HALF}"));
        stage.mark(lost, doubled, "half is lost");
        stage.until(doubled);
        service.order(&format!("capacity {TWICE}"));
        stage.mark(doubled, doubled, "scaled out");
        stage.until(end);
        let slots = database.slots();
        let tries = callers.finish(Duration::from_secs(20)).tries;
        let taken = Taken::down(name, stage, end, tries, slots);
        let others = others.finish(Duration::from_secs(20)).tries;
        let others = Others {
            offered: taken.clock.offered(1.0, &others),
            goodput: taken.clock.goodput(1.0, &others),
        };
        Shared { taken, others }
    })
}
