//! Some workloads of a node are broken; their retries are not to cost the others the service that all of them call.

use std::collections::HashSet;

use governor_tests::storm::report::{Outcome, Try};

use super::usual::{PORT, RETRIES};
use crate::findings::{Claim, Key, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "noisy-neighbour",
    title: "one workload with a wrong port, two with 50 % failures, twenty healthy ones",
    seconds: |length| length.pick(16.0, 40.0, 120.0) + 6.0,
    play,
};

/// Nobody listens there.
const WRONG_PORT: u16 = 8082;
const HEALTHY: usize = 20;
/// Of each healthy workload, per second.
const RATE: f64 = 8.0;
/// Of each of the three others.
const NOISY_RATE: f64 = 60.0;
/// What the service can do a second. First tries are 280, 85 % of it; with all retries it is 390.
const CAPACITY: u32 = 330;
/// Of all answers are errors, percent: healthy ones need some retries themselves.
const UNWELL: u8 = 3;
/// Of the requests of the two broken workloads the service fails, percent, after its work.
const BROKEN: u8 = 50;
/// All of it is one destination, with one budget.
const POLICY: &str = "{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {name: lab}, spec: {mode: Enforce, \
                      destinations: [{name: service, cidrs: [127.0.0.0/8], ports: [8080, 8082]}]}}\n";

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
    let length = play.length.pick(16.0, 40.0, 120.0);
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
            format!("requests of {name} at the service"),
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
    Found {
        story: format!(
            "{HEALTHY} workloads ask a service {RATE} times a second each, two others {NOISY_RATE} times, and one as often \
             a port where nobody listens. {UNWELL} % of the answers are 503; of the requests of those two the service \
             fails {BROKEN} %, after their work: their own fault, as a bad query is. The service can do {CAPACITY} a \
             second, {:.0} of it are asked for. All of it is one destination of the policy. Callers try again three \
             times, 50 ms apart.",
            HEALTHY as f64 * RATE + 2.0 * NOISY_RATE,
        ),
        claims: vec![
            Claim::at_least(
                "without: operations of healthy workloads lost",
                without.lost().0,
                20.0,
                "%",
            ),
            Claim::at_most("with: operations of healthy workloads lost", lost, 1.0, "%"),
            Claim::at_most(
                "requests of the two that fail half of the time, with the governor compared with without",
                broken(&with) as f64 / broken(&without) as f64,
                0.8,
                "x",
            ),
        ],
        runs: vec![without.taken.run(), with.taken.run()],
        tables: vec![Table::new(
            &["", "without", "with"],
            [lost_row, worst_row, row("broken-1"), row("broken-2")],
        )],
        key: Some(Key {
            what: "operations of healthy workloads lost, requests of broken ones".to_owned(),
            without: format!("{:.2} %, {}", without.lost().0, broken(&without)),
            with: format!("{lost:.2} %, {}", broken(&with)),
        }),
        notes: vec![
            "Each try is on a connection of its own. Where callers share a small pool of connections, that bounds what the \
             broken ones can send once the service is slow: with 50 each, in play, healthy ones lost nothing without the \
             governor either."
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, length: f64) -> Told {
    play.stage(governor, name, length, |stage| {
        let options = format!("--capacity {CAPACITY} --fails broken:{BROKEN}");
        let service = stage.service("service", PORT, &options);
        service.order(&format!("status 503 {UNWELL}"));
        stage.begin();
        let retry = format!("--for {length}s {RETRIES} --connections fresh");
        let crowd = |name: String, port: u16, rate: f64| {
            let crowd = stage.crowd(&name, port, &format!("--rate {rate} {retry}"));
            (name, crowd)
        };
        let mut crowds: Vec<_> = (1..=HEALTHY)
            .map(|number| crowd(format!("healthy-{number}"), PORT, RATE))
            .collect();
        crowds.push(crowd("broken-1".to_owned(), PORT, NOISY_RATE));
        crowds.push(crowd("broken-2".to_owned(), PORT, NOISY_RATE));
        crowds.push(crowd("wrong-port".to_owned(), WRONG_PORT, NOISY_RATE));
        stage.until(length);
        let slots = service.slots();
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
