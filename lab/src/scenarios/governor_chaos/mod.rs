//! The governor itself is killed, restarted, given policies and filled up, in the middle of storms.

mod claims;
mod events;
mod measure;
mod probes;

use super::usual::{RETRIES, SERVICE};
use crate::findings::{Key, Scene};
use crate::measure::beside;
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

use claims::judge;
use events::{Events, policies};
use measure::Storm;
use probes::Probes;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "governor-chaos",
    title: "kill -9, restart, new policies and full maps in the middle of three storms",
    seconds: |length| storms(length).len() as f64 * (Times::of(length).end + 8.0),
    play,
};

/// Three workloads, each with a breaker of its own: they share probes and the budget.
const CALLERS: [&str; 3] = ["a", "b", "c"];
/// Of each.
const OFFERED: f64 = 80.0;
const CAPACITY: f64 = 300.0;
/// What it can do in the overload, as the order for it says.
const OVERLOADED: f64 = 150.0;
/// Since a governor was started.
const IN_FORCE: f64 = 2.0;
/// `openDuration.max x (1 + jitterPercent/100) + ramp`, and a second in which a lost probe is given up by its caller and
/// the breaker learns of it: so long something may be refused after a storm.
const LIVE: f64 = 5.0 * 1.5 + 1.0 + 1.0;

/// What happens when, in seconds.
#[derive(Clone, Copy)]
struct Times {
    storm: (f64, f64),
    /// `kill -9`, and the start of the next one.
    killed: (f64, f64),
    /// Other policy, broken policy, good one again.
    policies: [f64; 3],
    full: f64,
    /// Stopped as an operator does it, and started at once.
    restarted: f64,
    end: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let usual = Self {
            storm: (5.0, 27.0),
            killed: (9.0, 10.5),
            policies: [12.5, 14.5, 15.5],
            full: 16.5,
            restarted: 19.5,
            end: 40.0,
        };
        let fast = Self {
            storm: (1.0, 11.0),
            killed: (4.0, 5.0),
            policies: [6.5, 7.5, 8.0],
            full: 8.5,
            restarted: 11.0,
            end: 23.0,
        };
        length.pick(fast, usual, usual)
    }
}

/// A storm, by the order that makes it.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    words: &'static str,
    order: &'static str,
    over: &'static str,
    connections: &'static str,
    /// How long its callers wait for an answer.
    patience: &'static str,
    /// What the tries say of their operation.
    names: &'static str,
}

const STORMS: [Kind; 3] = [
    Kind {
        name: "stall",
        words: "a stall",
        order: "stall",
        over: "serve",
        connections: "fresh",
        // Before that nobody can know that a service stalls, and 2 s are all there are.
        patience: "500ms",
        names: "",
    },
    Kind {
        name: "overload",
        words: "an overload",
        order: "capacity 150",
        over: "capacity 300",
        connections: "fresh",
        patience: "1s",
        // A governor that was started into a full queue sees hardly anything succeed; without that, or names, it knows
        // no retry.
        names: "--idempotency-key",
    },
    Kind {
        name: "503s",
        words: "60 % of 503",
        order: "status 503 60",
        over: "serve",
        connections: "pool",
        patience: "1s",
        names: "",
    },
];

fn storms(length: Length) -> &'static [Kind] {
    length.pick(&STORMS[..1], &STORMS, &STORMS)
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let mut claims = Vec::new();
    let mut runs = Vec::new();
    let mut notes = Vec::new();
    let mut scenes = Vec::new();
    let mut as_well = Vec::new();
    for kind in storms(play.length) {
        let name = kind.name;
        let (calm, chaos) = beside(
            || {
                storm(
                    play,
                    *kind,
                    times,
                    &format!("{name}, undisturbed"),
                    &Events::None,
                )
            },
            || storm(play, *kind, times, &format!("{name}, chaos"), &Events::All),
        );
        let ratio = claims::well(&calm, &chaos);
        // Of a stall nothing ends well.
        if ratio.is_finite() {
            as_well.push(format!("{name} {ratio:.2} x"));
        }
        let judged = judge(*kind, &calm, &chaos);
        scenes.push(Scene {
            name: name.to_owned(),
            title: format!(
                "kill -9, restart, new policies and full maps in the middle of {}",
                kind.words
            ),
            runs: runs.len()..runs.len() + 2,
            claims: claims.len()..claims.len() + judged.len(),
        });
        claims.extend(judged);
        notes.extend(chaos.met.said.iter().map(|said| format!("{name}: {said}")));
        let probes = Probes::of(&chaos);
        notes.push(match probes.was_open() {
            true => format!(
                "{name}, requests at the service while breakers were open, by its own log: {}.",
                probes.told(&chaos)
            ),
            false => format!(
                "{name}: no breaker was open in it, so no probe went that could be sent twice. That is judged where breakers \
                 open: always in the stall; in the overload, where the governor is started into a full queue."
            ),
        });
        runs.extend([calm.taken.run(), chaos.taken.run()]);
    }
    Found {
        story: format!(
            "Three workloads offer {OFFERED} a second each to a service that can do {CAPACITY}, wait 1 s (in the stall \
             500 ms) and try again after 50 ms, three times. From {} to {} s it stalls, can do 150 a second, or answers \
             60 % with 503. In it the governor is killed and started again {} s later, gets a policy with a tenth of the \
             budget, a broken one and the first again, has its maps filled by workloads that scan addresses, and is \
             stopped and started at once, which leaves nothing of what it knew.",
            times.storm.0,
            times.storm.1,
            times.killed.1 - times.killed.0,
        ),
        claims,
        runs,
        scenes,
        key: Some(Key {
            what: "operations that ended well until the stop, relative to an undisturbed governor"
                .to_owned(),
            without: String::new(),
            with: as_well.join(", "),
        }),
        notes: notes
            .into_iter()
            .chain([
                "The operations of the overload have names. Where nothing names them a governor that is started into a full \
                 queue takes retries for first tries until twenty different requests of a workload have ended well: 84 \
                 came through until the limit woke, where its budget would have allowed 43."
                    .to_owned(),
                "How long a daemon takes to start is the load and verification of its programs: on a machine that is \
                 busy with other things it says little of the governor."
                    .to_owned(),
                "503s with a latency that grows mean overload to the limiter: where the processor is short, as when the \
                 maps are filled, it refuses first tries."
                    .to_owned(),
            ])
            .collect(),
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, kind: Kind, times: Times, name: &str, events: &Events) -> Storm {
    let end = times.end;
    let policies = policies(SERVICE);
    play.stage(Governor::With(&policies.first), name, end, |stage| {
        let service = stage.service(SERVICE.0, SERVICE.1, &format!("--capacity {CAPACITY}"));
        let healthy = stage.service("healthy", events::HEALTHY, "--capacity 300");
        stage.begin();
        let load = format!(
            "--rate {OFFERED} --for {end}s {RETRIES} --answer-timeout {} --connections {} --pool 500 {}",
            kind.patience, kind.connections, kind.names
        );
        let crowds = CALLERS.map(|caller| stage.crowd(caller, SERVICE.1, &load));
        stage.until(times.storm.0);
        service.order(kind.order);
        let met = events.happen(stage, times, &policies);
        stage.until(times.storm.1);
        service.order(kind.over);
        let times = Times {
            storm: (times.storm.0, stage.now()),
            ..times
        };
        stage.mark(times.storm.0, times.storm.1, kind.name);
        stage.until(end);
        let slots = service.slots();
        drop(healthy);
        let tries = crowds.map(|crowd| crowd.finish(ENDS_WITHIN).tries);
        Storm::of(name, stage, times, tries, slots, met)
    })
}
