//! Some workloads of a node are broken; what they do is not to cost the others.

use std::collections::HashSet;

use governor_tests::storm::report::{Outcome, Try};

use super::usual::{PORT, RETRIES};
use crate::findings::{Claim, Key, Run, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "noisy-neighbour",
    title: "one workload with a wrong port, two with 50 % failures, twenty healthy ones",
    seconds: |length| length.pick(13.0, 40.0, 120.0) + 6.0,
    play,
};

/// Half of its answers are errors.
const BROKEN_PORT: u16 = 8081;
/// Nobody listens there.
const WRONG_PORT: u16 = 8082;
const HEALTHY: usize = 20;
/// Of each healthy workload, per second.
const RATE: f64 = 8.0;
/// Of each of the three others.
const NOISY_RATE: f64 = 40.0;
/// Of the answers to healthy ones are errors, percent: they need some retries themselves.
const UNWELL: u8 = 3;
/// All of it is one destination, with one budget.
const POLICY: &str = "{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {name: lab}, spec: {mode: Enforce, \
                      destinations: [{name: service, cidrs: [127.0.0.0/8], ports: [8080, 8081, 8082]}]}}\n";

/// A run, and what became of the operations of each workload.
struct Told {
    taken: Taken,
    /// Name, operations, and those that ended well.
    workloads: Vec<(String, usize, usize)>,
}

impl Told {
    /// Operations of healthy workloads that did not end well: of all, and of the one that lost most, percent.
    fn lost(&self) -> (f64, f64) {
        let healthy = || {
            self.workloads
                .iter()
                .filter(|(name, ..)| name.starts_with("healthy"))
        };
        let percent = |all: usize, well: usize| 100.0 * (all - well) as f64 / all as f64;
        let (all, well) = healthy().fold((0, 0), |sum, (_, all, well)| (sum.0 + all, sum.1 + well));
        let worst = healthy().map(|(_, all, well)| percent(*all, *well));
        (percent(all, well), worst.fold(0.0, f64::max))
    }
}

fn play(play: &Play<'_>) -> Found {
    let length = play.length.pick(13.0, 40.0, 120.0);
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", length),
        || storm(play, Governor::With(POLICY), "with", length),
    );
    let (lost, worst) = with.lost();
    let noisy = |told: &Told, name: &str| {
        let slots = &told.taken.slots;
        slots
            .iter()
            .filter_map(|slot| slot.arrived.get(name))
            .sum::<u64>()
    };
    let broken = |told: &Told| noisy(told, "broken-1") + noisy(told, "broken-2");
    let row = |name: &str| {
        vec![
            format!("requests of {name} at its service"),
            noisy(&without, name).to_string(),
            noisy(&with, name).to_string(),
        ]
    };
    let lost_row = vec![
        "operations of healthy workloads lost".to_owned(),
        format!("{:.2} %", without.lost().0),
        format!("{lost:.2} %"),
    ];
    let worst_row = vec![
        "by the healthy workload that lost most".to_owned(),
        format!("{:.2} %", without.lost().1),
        format!("{worst:.2} %"),
    ];
    // Their capacity is not the point.
    let run = |told: &Told| Run {
        capacity: Vec::new(),
        ..told.taken.run()
    };
    Found {
        story: format!(
            "{HEALTHY} workloads ask a service {RATE} times a second each; {UNWELL} % of its answers are 503. Two others \
             ask one {NOISY_RATE} times a second each of which half of the answers are 503, and one as often a port \
             where nobody listens. All of it is one destination of the policy. Callers try again three times, 50 ms \
             apart."
        ),
        claims: vec![
            Claim::at_most("with: operations of healthy workloads lost", lost, 1.0, "%"),
            Claim::at_most(
                "requests of the two that fail half of the time, with the governor compared with without",
                broken(&with) as f64 / broken(&without) as f64,
                0.8,
                "x",
            ),
        ],
        runs: vec![run(&without), run(&with)],
        tables: vec![Table::new(
            &["", "without", "with"],
            [lost_row, worst_row, row("broken-1"), row("broken-2")],
        )],
        key: Some(Key {
            what: "operations of healthy workloads lost, requests of broken ones".to_owned(),
            without: format!("{:.2} %, {}", without.lost().0, broken(&without)),
            with: format!("{lost:.2} %, {}", broken(&with)),
        }),
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, length: f64) -> Told {
    play.stage(governor, name, length, |stage| {
        let service = stage.service("service", PORT, "--capacity 2000");
        let broken = stage.service("broken-service", BROKEN_PORT, "--capacity 2000");
        service.order(&format!("status 503 {UNWELL}"));
        broken.order("status 503 50");
        stage.begin();
        let retry = format!("--for {length}s {RETRIES} --connections pool");
        let crowd = |name: String, port: u16, rate: f64| {
            let crowd = stage.crowd(&name, port, &format!("--rate {rate} {retry}"));
            (name, crowd)
        };
        let mut crowds: Vec<_> = (1..=HEALTHY)
            .map(|number| crowd(format!("healthy-{number}"), PORT, RATE))
            .collect();
        crowds.push(crowd("broken-1".to_owned(), BROKEN_PORT, NOISY_RATE));
        crowds.push(crowd("broken-2".to_owned(), BROKEN_PORT, NOISY_RATE));
        crowds.push(crowd("wrong-port".to_owned(), WRONG_PORT, NOISY_RATE));
        stage.until(length);
        let slots = [service.slots(), broken.slots()].concat();
        let mut tries = Vec::new();
        let mut workloads = Vec::new();
        for (name, crowd) in crowds {
            let own = crowd.finish(ENDS_WITHIN).tries;
            let (all, well) = ended(&own);
            workloads.push((name, all, well));
            tries.extend(own);
        }
        Told {
            taken: Taken::down(name, stage, length, tries, slots),
            workloads,
        }
    })
}

/// Operations, and those that ended well.
fn ended(tries: &[Try]) -> (usize, usize) {
    let all: HashSet<u64> = tries.iter().map(|each| each.op).collect();
    let well = tries.iter().filter(|each| each.outcome == Outcome::Ok);
    (all.len(), well.count())
}
