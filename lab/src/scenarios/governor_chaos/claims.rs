//! What every storm must show, and what only one of them can.

use super::events::Restart;
use super::measure::Storm;
use super::probes::Probes;
use super::{IN_FORCE, Kind, LIVE, OVERLOADED};
use crate::findings::Claim;

/// The most that the service may get in a second, relative to first tries: as in blip-90s.
const LOAD: f64 = 1.35;
/// Of what ends well where nothing happens to the governor. Chance alone moves the ratio by some percent: four plays
/// of the overload gave 0.97, 1.00, 1.01 and 1.08.
const AS_WELL: f64 = 0.95;

/// The claims of one storm.
pub fn judge(kind: Kind, calm: &Storm, chaos: &Storm) -> Vec<Claim> {
    let mut claims = every(kind, chaos);
    claims.extend(match kind.name {
        "stall" => stall(kind, chaos),
        "overload" => overload(kind, calm, chaos),
        _ => errors(kind, calm, chaos),
    });
    claims
}

fn every(Kind { name, .. }: Kind, chaos: &Storm) -> Vec<Claim> {
    let probes = Probes::of(chaos);
    let [tight, usual] = chaos.reloads();
    let took = |restart: Option<Restart>| restart.map_or(f64::NAN, Restart::took);
    let most = |what: &str, figure: f64, most: f64, unit: &str| {
        Claim::at_most(format!("{name}, chaos: {what}"), figure, most, unit)
    };
    let least = |what: &str, figure: f64| {
        Claim::at_least(format!("{name}, chaos: {what}"), figure, 1.0, "")
    };
    let mut claims = vec![
        most(
            &format!(
                "first tries that did not end well before the storm, and {LIVE} s after it (refused: {})",
                chaos.late()
            ),
            chaos.lost_in_peace(),
            0.0,
            "",
        ),
        most(
            "worst second at the service of the whole scene, but for a stop until 2 s after the next start",
            chaos.worst_load(),
            LOAD,
            "x offered",
        ),
        most(
            "fullest window of the budget, new policies and restarts included",
            chaos.fullest_window(),
            1.0,
            "x allowed",
        ),
        most(
            "until a daemon that was killed is back",
            took(chaos.met.killed),
            IN_FORCE,
            "s",
        ),
        least(
            "refused while none was there",
            chaos.refused_by_nobody() as f64,
        ),
        most("until a tighter policy is in force", tight, IN_FORCE, "s"),
        most(
            "until the first one is again, after a broken one",
            usual,
            IN_FORCE,
            "s",
        ),
        most(
            "times that what the governor counts fell, until it was stopped",
            chaos.forgot() as f64,
            0.0,
            "",
        ),
        least(
            "attempts that passed unjudged when the maps were full",
            chaos.met.unjudged as f64,
        ),
        most(
            "lost by a workload that is new when they are",
            chaos.met.newcomer_lost as f64,
            0.0,
            "operations",
        ),
    ];
    // Where none was open no probe went: a note says so.
    if probes.was_open() {
        claims.extend([
            most(
                "most requests at the service at once of workloads whose breaker is open, by its own log, before the restart \
                 and after it",
                probes.at_once() as f64,
                1.0,
                "",
            ),
            most(
                "the most of one workload in one open period, by the same log",
                probes.in_one_period() as f64,
                1.0,
                "",
            ),
        ]);
    }
    if let Some(stopped) = chaos.met.stopped {
        claims.push(most(
            "until one that was stopped is back",
            stopped.took(),
            IN_FORCE,
            "s",
        ));
        // An overload must first fill a queue before there is something to refuse.
        if name != "overload" {
            claims.push(most(
                "until it refuses",
                chaos.refuses_after(),
                IN_FORCE,
                "s",
            ));
        }
    }
    claims
}

/// Nothing ends well in it: breakers.
fn stall(Kind { name, .. }: Kind, chaos: &Storm) -> Vec<Claim> {
    let probes = Probes::of(chaos);
    let (begin, end) = chaos.times.storm;
    let mut claims = vec![
        Claim::at_most(
            format!(
                "{name}, chaos: samples in which a breaker was closed, from when all were open until the stop"
            ),
            chaos.not_all_open() as f64,
            0.0,
            "",
        ),
        Claim::at_least(
            format!("{name}, chaos: probes until the stop"),
            probes.within(chaos, begin, chaos.undisturbed_until()) as f64,
            2.0,
            "",
        ),
    ];
    if let Some(stopped) = chaos.met.stopped {
        claims.push(Claim::at_least(
            format!("{name}, chaos: probes since the restart"),
            probes.within(chaos, stopped.started, end) as f64,
            2.0,
            "",
        ));
    }
    claims
}

/// A queue: the limit.
fn overload(Kind { name, .. }: Kind, calm: &Storm, chaos: &Storm) -> Vec<Claim> {
    let mut claims = vec![as_well(name, calm, chaos)];
    if chaos.met.stopped.is_some() {
        let [first, again] = chaos.back(OVERLOADED);
        claims.push(Claim::at_most(
            format!(
                "{name}, chaos: from the restart until goodput is at nine tenths of what the service can do, later than \
                 in the beginning (there {first:.1} s after the storm, here {again:.1} s)"
            ),
            again - first,
            IN_FORCE,
            "s",
        ));
    }
    claims
}

/// Errors without silence: the budget.
fn errors(Kind { name, .. }: Kind, calm: &Storm, chaos: &Storm) -> Vec<Claim> {
    let refused = chaos.refused_in_it();
    let mut claims = vec![
        as_well(name, calm, chaos),
        Claim::at_most(
            format!(
                "{name}, chaos: first tries refused in the storm (undisturbed: {}; {})",
                calm.refused_in_it().len(),
                chaos.why(&refused)
            ),
            refused.len() as f64,
            0.0,
            "",
        ),
    ];
    let tight = chaos.tight();
    let retries = |storm: &Storm| tight.map_or(f64::NAN, |tight| storm.retries(tight) as f64);
    let length = tight.map_or(f64::NAN, |(from, to)| to - from);
    claims.extend([
        Claim::at_most(
            format!(
                "{name}, chaos: retries that came through under the tighter policy: more than it allows was spent before, \
                 and that is not forgotten (undisturbed: {})",
                retries(calm)
            ),
            retries(chaos),
            0.0,
            "",
        ),
        Claim::at_least(
            format!("{name}, chaos: so long that was, past a broken policy"),
            length,
            2.0,
            "s",
        ),
    ]);
    claims
}

/// What was done to the governor cost nobody anything.
fn as_well(name: &str, calm: &Storm, chaos: &Storm) -> Claim {
    Claim::at_least(
        format!(
            "{name}: operations that ended well until the stop, relative to an undisturbed governor"
        ),
        well(calm, chaos),
        AS_WELL,
        "x",
    )
}

/// Operations that ended well until the stop, relative to an undisturbed governor; NaN where none ends well.
pub fn well(calm: &Storm, chaos: &Storm) -> f64 {
    let until = chaos.undisturbed_until();
    chaos.well(until) / calm.well(until)
}
