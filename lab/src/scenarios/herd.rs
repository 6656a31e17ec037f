//! Ten thousand wait, fail at one moment, and try again at one moment.

use super::usual::{NO_BREAKER, PORT, governed, percent};
use crate::findings::{Claim, Key, Table};
use crate::measure::Taken;
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "herd",
    title: "10,000 clients fail at one moment and all retry at one moment",
    seconds: |length| {
        let herd = Herd::of(length);
        herd.runs as f64 * (herd.length() + 3.0)
    },
    play,
};

const CAPACITY: f64 = 1_000.0;
/// So many of the herd begin to wait each second: the slots of the failure and after are what is judged.
const GATHERS: f64 = 2_000.0;
/// The service is away for so long, seconds: shorter than the herd waits.
const AWAY: f64 = 0.5;
/// Others, who call all the time.
const OTHERS: f64 = 100.0;
/// What may come in 50 ms.
const PEAK: f64 = 0.06;

/// How large the herd is.
#[derive(Clone, Copy)]
struct Herd {
    clients: f64,
    /// Times it is let loose.
    runs: usize,
    /// Seconds that are judged, from the failure on.
    after: f64,
}

impl Herd {
    fn of(length: Length) -> Self {
        let (clients, runs, after) =
            length.pick((4_000.0, 2, 5.0), (10_000.0, 3, 10.0), (10_000.0, 3, 10.0));
        Self {
            clients,
            runs,
            after,
        }
    }

    /// All wait, and one second more.
    fn fails(self) -> f64 {
        self.clients / GATHERS + 1.0
    }

    fn length(self) -> f64 {
        self.fails() + self.after
    }
}

/// What one run of it was.
struct Ran {
    taken: Taken,
    herd: Herd,
    /// Of the herd, how many got their answer in the end.
    fed: usize,
    /// Its tries after the failure that came to the service.
    came: u64,
    /// Of the others, what share did in the last seconds.
    others: f64,
}

impl Ran {
    /// The greatest share of the herd that came in one slot of 50 ms, from the failure on.
    fn peak(&self) -> f64 {
        let fails = self.taken.clock.at(self.herd.fails());
        let after = self.taken.slots.iter().filter(|slot| slot.t >= fails);
        let most = after.map(|slot| slot.came()).max().unwrap_or_default();
        most as f64 / self.herd.clients
    }
}

fn play(play: &Play<'_>) -> Found {
    let herd = Herd::of(play.length);
    let all = governed("");
    let no_breaker = governed(NO_BREAKER);
    // One after the other: each takes most of the machine.
    let mut runs = vec![
        storm(play, Governor::Without, "without", herd),
        storm(play, Governor::With(&all), "with", herd),
    ];
    if herd.runs > runs.len() {
        let governor = Governor::With(&no_breaker);
        runs.push(storm(play, governor, "with, breaker off", herd));
    }
    let claims = runs.iter().map(|run| {
        let what = format!("{}: the fullest 50 ms from the failure on", run.taken.name);
        match run.taken.samples.is_empty() {
            true => Claim::at_least(what, run.peak(), PEAK, "of the herd"),
            false => Claim::at_most(what, run.peak(), PEAK, "of the herd"),
        }
    });
    let rows = runs.iter().map(|run| {
        vec![
            run.taken.name.clone(),
            percent(run.peak()),
            percent(run.others),
            percent(run.came as f64 / herd.clients),
            percent(run.fed as f64 / herd.clients),
        ]
    });
    Found {
        story: format!(
            "{} clients, each on a connection of its own, come over {} s and wait for a service that stalls. It \
             dies, all of them fail at one moment, and each tries again 1 s later, three times; the service is \
             back after {AWAY} s and answers {CAPACITY} a second. {OTHERS} calls a second of others, who wait 1 s \
             and do not retry, come all the time.",
            herd.clients,
            herd.clients / GATHERS,
        ),
        claims: claims.collect(),
        tables: vec![Table::new(
            &[
                "",
                "fullest 50 ms, of the herd",
                "others answered in the last 3 s",
                "retries that came, of the herd",
                "herd answered",
            ],
            rows,
        )],
        key: Some(Key {
            what: "the fullest 50 ms, of the herd".to_owned(),
            without: percent(runs[0].peak()),
            with: percent(runs[1].peak()),
        }),
        runs: runs.iter().map(|run| run.taken.run()).collect(),
        notes: vec![
            "What a herd asks for after a failure is retries, and those are paid from the budget: most of the \
             herd is told no at once. Without the governor it is served in the end where callers wait that \
             long, and everybody else waits behind it."
                .to_owned(),
            "That retries which are admitted leave spread over `pacing.maxDelay` where the device has `fq` is \
             checked in a virtual machine: `cargo xtask vmtest`, check `pacing`. Loopback has no queue."
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, herd: Herd) -> Ran {
    let (fails, length) = (herd.fails(), herd.length());
    play.stage(governor, name, length, |stage| {
        let service = stage.service("service", PORT, &format!("--capacity {CAPACITY}"));
        // It takes the order before the first of the herd comes.
        service.order("stall");
        stage.begin();
        let waiting = stage.crowd(
            "herd",
            PORT,
            &format!(
                "--rate {GATHERS} --arrivals even --for {}s --clients {} --connections fresh --answer-timeout 20s \
                 --retry naive --tries 4 --delay 1s --run-out 20s",
                herd.clients / GATHERS,
                herd.clients,
            ),
        );
        let others = stage.crowd(
            "others",
            PORT,
            &format!("--rate {OTHERS} --for {length}s --retry none --connections fresh"),
        );
        stage.until(fails);
        service.order("refuse");
        stage.until(fails + AWAY);
        service.order("serve");
        stage.mark(0.0, fails, "stalled");
        stage.mark(fails, fails + AWAY, "dead");
        stage.until(length);
        let slots = service.slots();
        let others = others.finish(ENDS_WITHIN).tries;
        let waited = waiting.finish(ENDS_WITHIN);
        let fed = waited.summary().succeeded;
        let mut taken = Taken::down(name, stage, length, others, slots);
        let end = length as usize;
        let share = taken.share(end - 3, end);
        let after = taken.slots.iter().filter(|slot| slot.t >= taken.clock.at(fails));
        let came = after.filter_map(|slot| slot.arrived.get("herd")).sum();
        taken.tries.extend(waited.tries);
        Ran {
            taken,
            herd,
            fed,
            came,
            others: share,
        }
    })
}
