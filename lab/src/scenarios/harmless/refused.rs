//! First tries that were refused: by their callers' logs, and by the governor's own count.

use governor_tests::storm::report::{Outcome, Try};

use super::day::{HANG, HANGS_AT};
use super::loads::Away;
use super::none;
use super::verdict::{Day, TROUBLED, sum};
use crate::findings::Claim;
use crate::watch::Sample;

/// `openDuration.max x (1 + jitterPercent/100) + ramp`: so long something may be refused after a hang (I4).
const LIVE: f64 = 8.5;
/// Where the servers always listen: nobody but the governor refuses.
const LISTENS: &str = "polls-and-calls";
/// A caller may give up at the moment at which it is refused: then the governor alone counts it.
const RACES: u64 = 3;

/// A first try whose answer was the governor's, or whose connect was refused: by the governor, where the server listens.
/// A caller cannot tell one refused connect from another.
fn is_refused(each: &Try) -> bool {
    each.attempt == 1 && (each.denied || each.outcome == Outcome::Refused)
}

/// How many of these.
fn refused<'a>(tries: impl IntoIterator<Item = &'a Try>) -> u64 {
    let refused = tries.into_iter().filter(|each| is_refused(each));
    refused.count() as u64
}

/// That it is none.
fn no(what: String, figure: f64) -> Claim {
    Claim::at_most(what, figure, 0.0, "")
}

/// How many where nothing fails, by their callers' logs.
pub fn in_peace(day: &Day) -> u64 {
    by_load(day).iter().map(|(_, refused, _)| refused).sum()
}

/// What must be so there.
pub fn judge_peace(day: &Day) -> Vec<Claim> {
    let loads = by_load(day);
    let first: u64 = loads.iter().map(|(_, _, first)| first).sum();
    let some = loads.iter().filter(|(_, refused, _)| *refused > 0);
    let some = some.map(|(name, refused, first)| format!("{refused} of {first} of {name}"));
    vec![
        Claim::at_least(
            "first tries where nothing fails, by their callers' logs",
            first as f64,
            500.0,
            "",
        ),
        none(
            "first tries refused there, by their callers' logs",
            some.collect(),
        ),
        none(
            "the same by the governor's count",
            day.found(|it| &it["deniedFirstTries"]),
        ),
    ]
}

/// Loads that are well, first tries that were refused, and all of them. Clients that are not the lab's log operations, of
/// one try each: whatever failed of them counts as refused.
fn by_load(day: &Day) -> Vec<(&str, u64, u64)> {
    let loads = day.well_loads().map(|(name, tries)| {
        let first = tries.iter().filter(|each| each.attempt == 1);
        (name, refused(tries), first.count() as u64)
    });
    let others = day.others.iter();
    let others = others.map(|(name, it)| (name.as_str(), it.failed as u64, it.ended as u64));
    loads.chain(others).collect()
}

/// What must be so where something fails.
pub fn judge_trouble(day: &Day) -> Vec<Claim> {
    let mut claims = vec![
        no(
            "servers restarted one by one: first tries refused while theirs listened, by their callers' logs".to_owned(),
            by_listeners(day) as f64,
        ),
        no(
            "the same by the governor's count, and while they did not listen".to_owned(),
            counted(day.last.as_ref(), "deployed"),
        ),
    ];
    let clock = day.taken.clock;
    let from = clock.at(HANGS_AT * clock.length + HANG + LIVE);
    // A fast day is over before.
    if let Some(then) = day.taken.samples.iter().find(|it| it.t >= from) {
        let late = day.tries_at(LISTENS).filter(|each| each.t >= from);
        claims.extend([
            no(
                format!(
                    "long polls and calls that hang: first tries refused there from {LIVE} s after it on, by their callers' \
                     logs"
                ),
                refused(late) as f64,
            ),
            no(
                "the same by the governor's count".to_owned(),
                counted(day.last.as_ref(), LISTENS) - counted(Some(then), LISTENS),
            ),
        ]);
    }
    claims.push(agree(day));
    claims
}

/// First tries that were refused at servers that were not being restarted.
fn by_listeners(day: &Day) -> u64 {
    let clock = day.taken.clock;
    let listens = |server: usize, each: &Try| {
        let mut away = day.away.iter().filter(|it| it.server == server);
        // One that began before the server went may be refused by it.
        !away.any(|Away { from, to, .. }| {
            each.t + each.micros >= clock.at(*from) && each.t < clock.at(*to)
        })
    };
    let each = (0..).zip(day.deployed());
    each.map(|(server, tries)| refused(tries.iter().filter(|it| listens(server, it))))
        .sum()
}

/// That the governor counts what callers saw, at each destination where something fails: where the server listens, the
/// same; where it may refuse as well, no more.
fn agree(day: &Day) -> Claim {
    let pairs = TROUBLED.map(|name| {
        let (seen, count) = (
            refused(day.tries_at(name)),
            counted(day.last.as_ref(), name) as u64,
        );
        let apart = match name {
            LISTENS => seen.abs_diff(count),
            _ => count.saturating_sub(seen),
        };
        (name, seen, count, apart)
    });
    let told = pairs.map(|(name, seen, count, _)| format!("{name} {count} of {seen}"));
    Claim::that(
        "first tries refused where something fails: by the governor's count, of all that the callers' logs have",
        told.join(", "),
        format!(
            "no more than those; at {LISTENS}, where servers always listen, all of them; {RACES} apart at most"
        ),
        pairs.iter().all(|(.., apart)| *apart <= RACES),
    )
}

/// First tries that the governor refused at a destination, as it counts them; NaN where it says nothing of it.
fn counted(sample: Option<&Sample>, destination: &str) -> f64 {
    let entry = sample.and_then(|it| it.destination(destination));
    entry.map_or(f64::NAN, |it| sum(&it["deniedFirstTries"]) as f64)
}
