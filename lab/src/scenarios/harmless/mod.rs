//! An hour of healthy traffic of all kinds in three minutes: nothing is refused.
//!
//! | file | holds |
//! |---|---|
//! | [`loads`] | who calls whom, each load a workload of its own |
//! | [`day`] | what happens meanwhile: bursts, deploys, new addresses, shifts |
//! | [`verdict`] | what became of it |
//! | [`refused`] | who was refused, by the callers' logs and by the governor's count |
//! | `peers.py` | protocols that look like failures: streams, silent receivers, last words, hedges |

mod day;
mod loads;
mod refused;
mod verdict;

use crate::findings::{Claim, Key};
use crate::measure::beside;
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::Governor;

use loads::Loads;
use verdict::Day;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "harmless",
    title: "an hour of mixed healthy traffic in three minutes: no first try is refused",
    seconds: |length| seconds(length) + 20.0,
    play,
};

fn seconds(length: Length) -> f64 {
    length.pick(12.0, 180.0, 180.0)
}

fn play(play: &Play<'_>) -> Found {
    let policy = loads::policy();
    let (without, with) = beside(
        || spend(play, Governor::Without, "without"),
        || spend(play, Governor::With(&policy), "with"),
    );
    let mut claims = with.healthy(&without);
    claims.extend(with.troubled(&without));
    Found {
        story: format!(
            "Twenty workloads call services that are well, for {} s: {}. The policy is the default one, for all \
             destinations, in Enforce mode. Beside them something does fail that a simpler law makes worse \
             (docs/law.md): a hang of 1.5 s under long polls, one of three backends that refuses and one \
             that hangs, one of two and two of three that refuse, a third of 1,000 tries a second refused, servers that are \
             restarted one by one.",
            seconds(play.length),
            loads::NAMED,
        ),
        claims,
        runs: vec![without.taken.run_of("web"), with.taken.run_of("web")],
        key: Some(Key {
            what: "first tries refused where nothing fails, by their callers' logs".to_owned(),
            without: refused::in_peace(&without).to_string(),
            with: refused::in_peace(&with).to_string(),
        }),
        notes: vec![
            "The chart is that of one workload with bursts and a tenfold growth, and of what it calls.".to_owned(),
            with.told(),
            "Storm clients log each try: which of its operation it was, and how it ended. A first try is refused where the \
             answer was the governor's, or the connect was refused although the server listens. curl, Python, Go, Node and Java, \
             and what speaks in peers.py, log operations of one try each: whatever failed of them counts as refused. (Java's \
             client connects a second time by itself: what that would hide, the governor's count shows.)"
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn spend(play: &Play<'_>, governor: Governor<'_>, name: &str) -> Day {
    let length = seconds(play.length);
    play.stage(governor, name, length, |stage| {
        let services = loads::Services::start(stage);
        stage.begin();
        let mut loads = Loads::start(stage, play.length, length);
        day::passes(stage, &services, &mut loads, length);
        stage.until(length);
        Day::of(name, stage, length, &services, loads)
    })
}

/// That nothing of a list is there: what is there is named.
fn none(what: impl Into<String>, found: Vec<String>) -> Claim {
    let holds = found.is_empty();
    let measured = if holds {
        "0".to_owned()
    } else {
        found.join(", ")
    };
    Claim::that(what, measured, "0", holds)
}
