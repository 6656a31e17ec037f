//! Ten thousand wait, fail at one moment, and try again at one moment.

use super::usual::{NO_BREAKER, PORT, after, governed, percent};
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
/// From its return until others are answered again, seconds: as in blip-5s.
const BACK: f64 = 5.0;
/// Of the others' calls, answered where nothing stands in their way; and without the governor, behind the herd.
const SERVED: f64 = 0.95;
const STARVED: f64 = 0.5;

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
            length.pick((4_000.0, 2, 13.0), (10_000.0, 3, 13.0), (10_000.0, 3, 13.0));
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

    /// The service is back.
    fn back(self) -> f64 {
        self.fails() + AWAY
    }

    fn length(self) -> f64 {
        self.fails() + self.after
    }
}

/// The run in which nothing but limit and budget refuse.
const UNBROKEN: &str = "with, breaker off";
/// Seconds in a row, of which it is said that others were answered.
const LASTING: usize = 3;
/// Tries of the herd after the return, a second apart; the first comes half a second after it.
const TRIES: usize = 3;

/// What one run of it was.
struct Ran {
    taken: Taken,
    herd: Herd,
    /// Of the herd, how many got their answer in the end.
    fed: usize,
    /// Its tries after the failure that came to the service.
    came: u64,
    others: Others,
}

/// Those who call all the time.
struct Others {
    /// What share of them was answered while the herd tried again: three times, a second apart.
    meanwhile: f64,
    /// The same without the first of these seconds, in which the limit grows from what the stall left of it.
    grown: f64,
    /// The same in the last seconds.
    last: f64,
    /// Seconds from the return until they were answered again; NaN: never.
    back: f64,
}

impl Others {
    /// From what they did.
    fn of(taken: &Taken, herd: Herd) -> Self {
        let (back, end) = (herd.back().ceil() as usize, herd.length() as usize);
        let first = taken
            .goodput()
            .reaches(SERVED, &taken.offered(), back, LASTING);
        Self {
            meanwhile: taken.share(back, back + TRIES),
            grown: taken.share(back + 1, back + TRIES),
            last: taken.share(end - LASTING, end),
            back: first.map_or(f64::NAN, |second| second as f64 - herd.back()),
        }
    }
}

impl Ran {
    /// The greatest share of the herd that came in one slot of 50 ms, from the failure on.
    fn peak(&self) -> f64 {
        let fails = self.taken.clock.at(self.herd.fails());
        let after = self.taken.slots.iter().filter(|slot| slot.t >= fails);
        let most = after.map(|slot| slot.came()).max().unwrap_or_default();
        most as f64 / self.herd.clients
    }

    /// What it must show.
    fn claims(&self) -> Vec<Claim> {
        let name = &self.taken.name;
        let peak = format!("{name}: the fullest 50 ms from the failure on");
        if self.taken.samples.is_empty() {
            return vec![
                Claim::at_least(peak, self.peak(), PEAK, "of the herd"),
                Claim::at_most(
                    format!(
                        "{name}: others answered while the herd tries again, and waits before them"
                    ),
                    self.others.meanwhile,
                    STARVED,
                    "of offered",
                ),
            ];
        }
        let mut claims = vec![
            Claim::at_most(peak, self.peak(), PEAK, "of the herd"),
            Claim::at_most(
                format!("{name}: until others are answered again, since the service is back"),
                self.others.back,
                BACK,
                "s",
            ),
            Claim::at_least(
                format!("{name}: others answered in the last {LASTING} s"),
                self.others.last,
                SERVED,
                "of offered",
            ),
        ];
        // A breaker may have to look first whether the service is back.
        if name == UNBROKEN {
            claims.push(Claim::at_least(
                format!(
                    "{name}: others answered while the herd tries again, from 1.5 s after the return on"
                ),
                self.others.grown,
                SERVED,
                "of offered",
            ));
        }
        claims
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
        runs.push(storm(play, governor, UNBROKEN, herd));
    }
    let claims = runs.iter().flat_map(Ran::claims);
    let rows = runs.iter().map(|run| {
        vec![
            run.taken.name.clone(),
            percent(run.peak()),
            percent(run.others.meanwhile),
            percent(run.others.last),
            after(run.others.back),
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
                "others answered while the herd tries again",
                "in the last 3 s",
                "again, after the return",
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
            "A breaker must look first whether the service is back, and a limit grows from what the stall left of it: in the first \
             second and a half some of the others are refused."
                .to_owned(),
            "The herd is one process: where the machine is slow its 30,000 tries take longer than their waits, and some come later \
             than `retry.evidenceWindow` (10 s) after the failure. Those pass as first tries."
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
        let others = Others::of(&taken, herd);
        let after = taken.slots.iter().filter(|slot| slot.t >= taken.clock.at(fails));
        let came = after.filter_map(|slot| slot.arrived.get("herd")).sum();
        taken.tries.extend(waited.tries);
        Ran {
            taken,
            herd,
            fed,
            came,
            others,
        }
    })
}
