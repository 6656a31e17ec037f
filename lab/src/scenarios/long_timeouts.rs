//! A service hangs, and its callers are patient: their pools fill with what is never answered.

use std::time::Duration;

use governor_tests::storm::report::Try;

use super::usual::{PORT, governed};
use crate::findings::{Claim, Key, Run, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "long-timeouts",
    title: "the service hangs; callers with pools of 50 wait 10 s and 30 s",
    seconds: |length| Times::of(length).end + 8.0,
    play,
};

const CAPACITY: f64 = 400.0;
const POOL: u32 = 50;
/// How much longer than a caller's own patience it takes until that is evidence: the pool was filled in
/// 1.3 s, twenty requests in a row go unanswered, the breaker opens, who waited for the pool is told.
const NOTICED: f64 = 4.0;

#[derive(Clone, Copy)]
struct Times {
    /// By each of the two workloads, per second: more than a pool holds, times their patience.
    offered: f64,
    hang: (f64, f64),
    end: f64,
    /// How long the callers wait for an answer, seconds.
    patience: [u64; 2],
}

impl Times {
    fn of(length: Length) -> Self {
        let fast = Self {
            offered: 120.0,
            hang: (2.0, 9.0),
            end: 20.0,
            patience: [1, 2],
        };
        let usual = Self {
            offered: 40.0,
            hang: (6.0, 50.0),
            end: 75.0,
            patience: [10, 30],
        };
        length.pick(fast, usual, usual)
    }

    /// While the service is down, and a caller of this patience can have noticed.
    fn down(&self, patience: u64) -> (f64, f64) {
        (self.hang.0 + patience as f64 + NOTICED, self.hang.1)
    }
}

/// A run; its callers one by one.
struct Told {
    taken: Taken,
    callers: [Taken; 2],
}

impl Told {
    /// Tries of a caller that began in a time.
    fn down(&self, caller: usize, (from, to): (f64, f64)) -> impl Iterator<Item = &Try> {
        let clock = self.taken.clock;
        let time = clock.at(from)..clock.at(to);
        let tries = self.callers[caller].tries.iter();
        tries.filter(move |each| time.contains(&each.t))
    }
}

/// How long they took, the wait for the pool included, until their caller knew: 99th percentile, seconds.
fn to_end<'a>(tries: impl Iterator<Item = &'a Try>) -> f64 {
    let mut took: Vec<u64> = tries.map(|each| each.micros).collect();
    took.sort_unstable();
    let rank = (took.len() as f64 * 0.99).ceil() as usize;
    let p99 = took.get(rank.saturating_sub(1)).copied();
    p99.map_or(f64::NAN, |micros| {
        Duration::from_micros(micros).as_secs_f64()
    })
}

/// Share of them that found no connection of the pool free for a second and more, percent.
fn exhausted<'a>(tries: impl Iterator<Item = &'a Try>) -> f64 {
    let (mut all, mut waited) = (0, 0);
    for each in tries {
        all += 1;
        waited += u32::from(each.waited >= 1_000_000);
    }
    100.0 * f64::from(waited) / f64::from(all)
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let with_policy = governed("");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without", times),
        || storm(play, Governor::With(&with_policy), "with", times),
    );
    let mut claims = Vec::new();
    let mut rows = Vec::new();
    let mut key = None;
    for (number, patience) in times.patience.into_iter().enumerate() {
        let down = times.down(patience);
        let of = |told: &Told| to_end(told.down(number, down));
        let back = |told: &Told| told.callers[number].back_after(times.hang.1);
        let (slow, fast) = (of(&without), of(&with));
        claims.extend([
            Claim::at_least(
                format!("without: tries that find the pool exhausted for a second and more, callers that wait {patience} s"),
                exhausted(without.down(number, down)),
                90.0,
                "%",
            ),
            Claim::at_least(
                format!("without: time to error, or to an answer after the hang, p99, callers that wait {patience} s"),
                slow,
                patience as f64 * 0.9,
                "s",
            ),
            Claim::at_most(
                format!(
                    "with: time to error while down, p99, callers that wait {patience} s, from {NOTICED} s after their \
                     first timeouts on"
                ),
                fast * 1e3,
                100.0,
                "ms",
            ),
            Claim::at_most(
                format!("with: until goodput of those that wait {patience} s is at 0.95 of offered, and stays"),
                back(&with),
                15.0,
                "s after the hang",
            ),
        ]);
        rows.push(vec![
            format!("wait {patience} s"),
            format!("{slow:.1} s"),
            format!("{:.1} ms", fast * 1e3),
            format!("{:.0} s", back(&without)),
            format!("{:.0} s", back(&with)),
        ]);
        key.get_or_insert(Key {
            what: format!(
                "time to error while down, p99, from {:.0} s after the hang began on",
                down.0 - times.hang.0
            ),
            without: format!("{slow:.1} s"),
            with: format!("{:.1} ms", fast * 1e3),
        });
    }
    // Its capacity is not the point.
    let run = |told: &Told| Run {
        capacity: Vec::new(),
        ..told.taken.run()
    };
    Found {
        story: format!(
            "Two workloads ask a service {} times a second each, over pools of {POOL} connections. It hangs from \
             {} to {} s: it accepts requests and answers none of them, ever. One workload waits {} s for an answer, the \
             other {} s. Whoever finds no connection of the pool free waits for one. Nobody tries again.",
            times.offered, times.hang.0, times.hang.1, times.patience[0], times.patience[1],
        ),
        claims,
        runs: vec![run(&without), run(&with)],
        tables: vec![Table::new(
            &[
                "callers",
                "time to error, without",
                "time to error, with",
                "back after, without",
                "back after, with",
            ],
            rows,
        )],
        key,
        notes: vec![format!(
            "An answer that is late is no failure before its caller gives up (long polls look the same): until the \
             first timeouts nothing is refused, and a pool fills as it does without the governor. Figures leave that \
             out: the first {:.0} s of the hang for callers that wait {} s, {:.0} s for those that wait {} s.",
            times.down(times.patience[0]).0 - times.hang.0,
            times.patience[0],
            times.down(times.patience[1]).0 - times.hang.0,
            times.patience[1],
        )],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, times: Times) -> Told {
    play.stage(governor, name, times.end, |stage| {
        let service = stage.service("service", PORT, &format!("--capacity {CAPACITY}"));
        stage.begin();
        let crowds = times.patience.map(|patience| {
            let load = format!(
                "--rate {} --for {}s --run-out 2s --answer-timeout {patience}s --connections pool --pool {POOL}",
                times.offered, times.end
            );
            stage.crowd(&format!("waits-{patience}s"), PORT, &load)
        });
        stage.until(times.hang.0);
        service.order("hang");
        stage.until(times.hang.1);
        service.order("serve");
        stage.mark(times.hang.0, times.hang.1, "hangs");
        stage.until(times.end);
        let slots = service.slots();
        let tries = crowds.map(|crowd| crowd.finish(ENDS_WITHIN).tries);
        let taken = |tries| Taken::down(name, stage, times.end, tries, slots.clone());
        Told {
            taken: taken(tries.concat()),
            callers: tries.map(taken),
        }
    })
}
