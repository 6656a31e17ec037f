//! What is ordered about retries, as it is shown: percent, stage, held or not,
//! and what comes next.

use governor_core::order::Order;
use governor_core::units::{BasisPoints, Nanos};
use serde::{Deserialize, Serialize};

use super::eventlog::rfc3339;
use super::operators::time_of;
use super::orders::{retries_end, stages_of};
use super::restore::{USUAL_ABOVE, Watch, share};

/// Retries off, or returning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetriesShown {
    /// Percent admitted now.
    pub percent: u32,
    /// When all are admitted again and the order ends, if no stage is held any more.
    pub expires_at: String,
    /// Percent admitted next.
    pub next_percent: u32,
    /// When; absent while the stage is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// The stage of the restore; absent while retries are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageShown>,
}

/// One stage of a restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageShown {
    /// Its number, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// It is held while so many percent more attempts fail than when it began.
    pub hold_above: f64,
    /// Percent of attempts that failed when it began; absent where too few ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_at_start: Option<f64>,
    /// Percent of attempts that fail now; absent where too few end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<f64>,
    /// Since when it is held; absent: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<String>,
    /// When it falls back, if as many fail until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub falls_back_at: Option<String>,
    /// Percent admitted after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub falls_back_to: Option<u32>,
}

impl RetriesShown {
    /// At `now`; `None` where nothing is left of it.
    pub fn new(order: &Order, watch: Option<&Watch>, now: Nanos) -> Option<Self> {
        let end = retries_end(order);
        if now >= end {
            return None;
        }
        let at = |nanos: u64| rfc3339(time_of(Nanos(nanos)));
        let restoring = order.restoring(now);
        let stages = stages_of(order);
        let next = restoring.map_or(0, |(number, _)| number + 1);
        let stage = restoring.map(|(number, _)| StageShown::new(order, number, watch));
        let held = stage
            .as_ref()
            .is_some_and(|stage| stage.held_since.is_some());
        Some(Self {
            percent: order.retries_percent(now),
            expires_at: at(end.0),
            next_percent: stages.get(next).map_or(100, |percent| u32::from(*percent)),
            next_at: (!held).then(|| at(order.off_until + next as u64 * order.stage_every)),
            stage,
        })
    }

    /// In plain words.
    pub fn in_words(&self, scope: &str) -> String {
        let Self {
            percent,
            expires_at,
            next_percent,
            ..
        } = self;
        let stage = self.stage.as_ref().map(StageShown::in_words);
        let stage = stage.map_or(String::new(), |stage| format!(" ({stage})"));
        let admitted = format!("{percent} % of retries to {scope} are admitted{stage}");
        let back = self
            .stage
            .as_ref()
            .and_then(|stage| Some((stage.falls_back_to?, stage.falls_back_at.as_deref()?)));
        match (back, &self.next_at) {
            (Some((to, at)), _) => format!("{admitted}, {to} % from {at} unless fewer fail"),
            (None, Some(next)) if next != expires_at => {
                format!("{admitted}, {next_percent} % from {next}, all again from {expires_at}")
            }
            _ => format!("{admitted}, all again from {expires_at}"),
        }
    }
}

impl StageShown {
    fn new(order: &Order, number: usize, watch: Option<&Watch>) -> Self {
        let points = |share: BasisPoints| f64::from(share.0) / 100.0;
        let at = |at: Nanos| rfc3339(time_of(at));
        let stages = stages_of(order);
        let held = watch.and_then(Watch::held);
        let back = stages.get(number.saturating_sub(1));
        Self {
            number: number + 1,
            of: stages.len(),
            hold_above: points(order.hold_above.get().unwrap_or(USUAL_ABOVE)),
            failing_at_start: order.began_with.get().map(points),
            failing: watch.and_then(Watch::failing).map(points),
            held_since: held.map(at),
            falls_back_at: held.map(|since| at(Nanos(since.0 + order.stage_every))),
            falls_back_to: held.and(back).map(|percent| u32::from(*percent)),
        }
    }

    fn in_words(&self) -> String {
        let stage = format!("stage {} of {}", self.number, self.of);
        let Some(since) = &self.held_since else {
            return stage;
        };
        let points = |percent: f64| share(BasisPoints((percent * 100.0).round() as u32));
        match (self.failing, self.failing_at_start) {
            (Some(now), Some(before)) => format!(
                "{stage}, held since {since}: {} of attempts fail, {} when it began",
                points(now),
                points(before)
            ),
            _ => format!("{stage}, held since {since}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::operators::NOTHING;
    use crate::daemon::restore::{Ended, look};
    use crate::kernel::now;
    use governor_core::order::Told;

    fn seconds(seconds: u64) -> u64 {
        seconds * 1_000_000_000
    }

    fn ordered(now: Nanos) -> Order {
        Order {
            off_from: now.0,
            off_until: now.0 + seconds(60),
            stage_every: seconds(30),
            stages: [10, 50, 100, 0, 0, 0, 0, 0],
            began_with: Told::share(BasisPoints(1_200)),
            ..NOTHING
        }
    }

    fn shown(at: u64) -> Option<(u32, u32, Option<usize>)> {
        let now = now();
        let shown = RetriesShown::new(&ordered(now), None, Nanos(now.0 + seconds(at)))?;
        Some((
            shown.percent,
            shown.next_percent,
            shown.stage.map(|stage| stage.number),
        ))
    }

    #[test]
    fn retries_are_shown_from_off_through_each_stage_until_the_last_is_over() {
        assert_eq!(shown(1), Some((0, 10, None)));
        assert_eq!(shown(61), Some((10, 50, Some(1))));
        assert_eq!(shown(91), Some((50, 100, Some(2))));
        assert_eq!(shown(121), Some((100, 100, Some(3))));
        assert_eq!(shown(151), None);
    }

    #[test]
    fn a_held_stage_says_why_and_what_it_falls_back_to() {
        let now = now();
        let order = ordered(now);
        let at = Nanos(now.0 + seconds(95));
        let mut watch = None;
        let (order, _) = look(&order, &mut watch, |_| Ended::default(), at);
        let bad = |_| Ended {
            well: 69,
            badly: 31,
        };
        let (order, _) = look(&order, &mut watch, bad, Nanos(at.0 + 1));
        let shown = RetriesShown::new(&order, watch.as_ref(), Nanos(at.0 + 2)).unwrap();
        assert_eq!(shown.next_at, None);
        let words = shown.in_words("destination auth");
        for part in [
            "50 % of retries to destination auth are admitted (stage 2 of 3, held since 2",
            ": 31 % of attempts fail, 12 % when it began), 10 % from 2",
            " unless fewer fail",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn what_comes_next_is_said_in_words() {
        let now = now();
        let words = |at| {
            let shown = RetriesShown::new(&ordered(now), None, Nanos(now.0 + seconds(at)));
            shown.unwrap().in_words("every destination")
        };
        assert!(
            words(1).starts_with("0 % of retries to every destination are admitted, 10 % from 2")
        );
        assert!(
            words(91).contains("(stage 2 of 3), 100 % from 2"),
            "{}",
            words(91)
        );
        assert!(
            words(121).contains("(stage 3 of 3), all again from 2"),
            "{}",
            words(121)
        );
    }
}
