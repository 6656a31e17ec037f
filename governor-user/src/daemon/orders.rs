//! What operators may order: requests of the control socket, turned into
//! [`Order`]s. Pure: time is given, nothing is written.
//!
//! Every order has an end that the kernel checks by itself. `retries off` does
//! not end at once: it ends into a staged restore, because a fleet that gets
//! all its retries back in one moment is the storm that it was stopped for.

use governor_core::order::{Order, STAGES, Told, hold};
use governor_core::units::{BasisPoints, Nanos};
use serde::{Deserialize, Deserializer, Serialize};

use crate::policy::units::GoDuration;

/// Longest order: nobody remembers one of the day before yesterday.
pub const LONGEST: GoDuration = GoDuration::mins(24 * 60);
/// How long an order lasts that does not say.
pub const USUAL: GoDuration = GoDuration::mins(15);
/// Stages of a restore, percent.
pub const USUAL_STAGES: [u8; 4] = [10, 25, 50, 100];
/// Length of a stage.
pub const USUAL_STAGE: GoDuration = GoDuration::secs(60);

/// Why a restore is refused.
pub const NOTHING_TO_RESTORE: &str = "retries: nothing is ordered about them there, so there is nothing to restore (see `retry-governor retries status`)";

/// An order that can't be given: what and why, with the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Whether retries are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetriesState {
    /// As the policy says.
    Enabled,
    /// None.
    Disabled,
    /// A share of them, in stages.
    Restoring,
}

/// `PUT /v1/retries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retries {
    /// What is ordered.
    pub state: RetriesState,
    /// For one destination; absent: for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// For how long.
    #[serde(
        rename = "for",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "duration"
    )]
    pub lasting: Option<GoDuration>,
    /// How they come back, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<u8>>,
    /// How long each stage lasts.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "duration"
    )]
    pub every: Option<GoDuration>,
    /// A stage is held while so many percentage points more attempts fail than when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_above: Option<f64>,
}

/// `PUT /v1/shed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shed {
    /// Share of attempts to refuse; 0 ends it.
    pub percent: f64,
    /// For one destination; absent: for every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// For one workload (cgroup path); absent: for every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Only retries are shed.
    #[serde(default)]
    pub retries_only: bool,
    /// For how long.
    #[serde(
        rename = "for",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "duration"
    )]
    pub lasting: Option<GoDuration>,
}

/// How an operator holds a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// Everything is refused.
    Open,
    /// It refuses nothing.
    Closed,
    /// It works by itself.
    Auto,
}

/// `PUT /v1/breakers/{destination}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Breakers {
    /// What is ordered.
    pub state: Hold,
    /// For how long.
    #[serde(
        rename = "for",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "duration"
    )]
    pub lasting: Option<GoDuration>,
}

fn duration<'de, D: Deserializer<'de>>(value: D) -> Result<Option<GoDuration>, D::Error> {
    let text = Option::<String>::deserialize(value)?;
    text.map(|text| {
        text.parse().map_err(|why| {
            serde::de::Error::custom(format!(
                "{text:?} is not a duration: {why} (write it like 30s or 15m)"
            ))
        })
    })
    .transpose()
}

impl Retries {
    /// The order that results from `before`.
    pub fn apply(&self, before: Order, now: Nanos) -> Result<Order, Refused> {
        let until = match self.state {
            RetriesState::Enabled => return Ok(enabled(before)),
            RetriesState::Disabled => end(now, self.lasting.unwrap_or(USUAL))?,
            RetriesState::Restoring => {
                self.restorable(&before, now)?;
                now.0
            }
        };
        // A restore goes on with what was said before, an order of `off` says it anew.
        let said = (self.state == RetriesState::Restoring).then_some(&before);
        let every = self.every.map_or_else(
            || said.map_or(USUAL_STAGE.nanos(), |said| said.stage_every),
            GoDuration::nanos,
        );
        if !(GoDuration::secs(1).nanos()..=GoDuration::mins(60).nanos()).contains(&every) {
            let every = GoDuration::from_nanos(every);
            return Err(Refused(format!(
                "every: {every} is out of bounds: 1s to 1h"
            )));
        }
        let said_stages = said.map_or(USUAL_STAGES.as_slice(), stages_of);
        let stages = stages(self.stages.as_deref().unwrap_or(said_stages))?;
        let said_above = said.map_or(Told::NOTHING, |said| said.hold_above);
        Ok(Order {
            off_from: now.0,
            off_until: until,
            stage_every: every,
            stages,
            hold_above: hold_above(self.hold_above, said_above)?,
            began_with: Told::NOTHING,
            ..before
        })
    }

    fn restorable(&self, before: &Order, now: Nanos) -> Result<(), Refused> {
        if self.lasting.is_some() {
            return Err(Refused(
                "for: a restore ends with its last stage (say how long one is with every)"
                    .to_owned(),
            ));
        }
        if now >= retries_end(before) {
            return Err(Refused(NOTHING_TO_RESTORE.to_owned()));
        }
        Ok(())
    }
}

fn enabled(before: Order) -> Order {
    Order {
        off_from: 0,
        off_until: 0,
        stage_every: 0,
        stages: [0; STAGES],
        hold_above: Told::NOTHING,
        began_with: Told::NOTHING,
        ..before
    }
}

impl Shed {
    /// The order that results from `before`.
    pub fn apply(&self, before: Order, now: Nanos) -> Result<Order, Refused> {
        let share = basis_points(self.percent)?;
        if share == 0 {
            return Ok(Order {
                shed_until: 0,
                shed_share: 0,
                shed_retries_only: 0,
                ..before
            });
        }
        let Some(lasting) = self.lasting else {
            return Err(Refused(
                "for: missing: shedding needs an end (add --for 10m)".to_owned(),
            ));
        };
        Ok(Order {
            shed_until: end(now, lasting)?,
            shed_share: share,
            shed_retries_only: u32::from(self.retries_only),
            ..before
        })
    }
}

impl Breakers {
    /// The order that results from `before`.
    pub fn apply(&self, before: Order, now: Nanos) -> Result<Order, Refused> {
        let hold = match self.state {
            Hold::Auto => {
                return Ok(Order {
                    hold: hold::NONE,
                    hold_until: 0,
                    ..before
                });
            }
            Hold::Open => hold::OPEN,
            Hold::Closed => hold::CLOSED,
        };
        let hold_until = end(now, self.lasting.unwrap_or(USUAL))?;
        Ok(Order {
            hold,
            hold_until,
            ..before
        })
    }
}

fn basis_points(percent: f64) -> Result<u32, Refused> {
    // NaN is not in the range either.
    if !(0.0..=100.0).contains(&percent) || (percent > 0.0 && percent < 0.01) {
        return Err(Refused(format!(
            "percent: {percent} is out of bounds: 0, or 0.01 to 100"
        )));
    }
    Ok((percent * 100.0).round() as u32)
}

fn hold_above(points: Option<f64>, otherwise: Told) -> Result<Told, Refused> {
    let Some(points) = points else {
        return Ok(otherwise);
    };
    if !(0.0..=100.0).contains(&points) {
        return Err(Refused(format!(
            "holdAbove: {points} is out of bounds: 0 to 100 percentage points"
        )));
    }
    Ok(Told::share(BasisPoints((points * 100.0).round() as u32)))
}

fn end(now: Nanos, lasting: GoDuration) -> Result<u64, Refused> {
    if lasting < GoDuration::secs(1) || lasting > LONGEST {
        return Err(Refused(format!(
            "for: {lasting} is out of bounds: 1s to 24h"
        )));
    }
    Ok(now.0 + lasting.nanos())
}

fn stages(percents: &[u8]) -> Result<[u8; STAGES], Refused> {
    let rising = percents.windows(2).all(|pair| pair[0] < pair[1]);
    let bounded = percents.iter().all(|percent| (1..=100).contains(percent));
    if percents.is_empty() || percents.len() > STAGES || !rising || !bounded {
        return Err(Refused(format!(
            "stages: {percents:?} is no restore: 1 to {STAGES} rising percents from 1 to 100 are wanted (10,25,50,100)"
        )));
    }
    let mut stages = [0; STAGES];
    stages[..percents.len()].copy_from_slice(percents);
    Ok(stages)
}

/// When nothing is left of an order: it can be forgotten.
pub fn ends(order: &Order) -> Nanos {
    let restored = retries_end(order).0;
    Nanos(order.shed_until.max(order.hold_until).max(restored))
}

/// When all retries are back and no stage can be fallen back from.
pub fn retries_end(order: &Order) -> Nanos {
    match order.off_from {
        0 => Nanos(0),
        _ => Nanos(order.off_until + stages_of(order).len() as u64 * order.stage_every),
    }
}

/// The stages of an order, percent.
pub fn stages_of(order: &Order) -> &[u8] {
    let end = order.stages.iter().position(|percent| *percent == 0);
    order.stages.get(..end.unwrap_or(STAGES)).unwrap_or(&[])
}

#[cfg(test)]
mod tests;
