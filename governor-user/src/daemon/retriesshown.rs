//! What is ordered about retries, as it is shown: percent, stage, held or not,
//! and what comes next.

use governor_core::order::Order;
use governor_core::units::{BasisPoints, Nanos};
use serde::{Deserialize, Serialize};

use super::eventlog::{beside_now, rfc3339};
use super::operators::time_of;
use super::orders::{retries_end, stages_of};
use super::restore::{USUAL_ABOVE, Watch, share};
use crate::status::Names;

/// Retries off, or returning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetriesShown {
    /// Percent admitted now; by the node-wide order, where that admits fewer.
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
    /// The order for the whole node, where it admits fewer than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruled: Option<Overruled>,
}

/// An order for one destination under a stricter one for the whole node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overruled {
    /// Percent that the order itself admits.
    pub percent: u32,
    /// Until when the node-wide one refuses: retries are off until then, or not all back.
    pub until: String,
}

/// One stage of a restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageShown {
    /// Its number, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// It is held while so many percentage points more attempts fail than when it began.
    pub hold_above: f64,
    /// Percent of attempts that failed when it began; absent where too few ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_at_start: Option<f64>,
    /// Percent of attempts that fail now; absent where too few end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<f64>,
    /// The workload of which the largest share fails; absent where too few of any one end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<WorstShown>,
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

/// A workload whose attempts fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorstShown {
    /// Its cgroup.
    pub workload: String,
    /// Percent of its attempts.
    pub failing: f64,
}

/// Until when an order refuses retries: they are off until then, or not all back.
pub fn refuses_until(order: &Order, now: Nanos) -> String {
    let until = match order.restoring(now) {
        None => Nanos(order.off_until),
        Some(_) => retries_end(order),
    };
    rfc3339(time_of(until))
}

impl RetriesShown {
    /// At `now`; `None` where nothing is left of it.
    pub fn new(
        order: &Order,
        watch: Option<&Watch>,
        names: &Names<'_>,
        now: Nanos,
    ) -> Option<Self> {
        let end = retries_end(order);
        if now >= end {
            return None;
        }
        let at = |nanos: u64| rfc3339(time_of(Nanos(nanos)));
        let restoring = order.restoring(now);
        let stages = stages_of(order);
        let next = restoring.map_or(0, |(number, _)| number + 1);
        let stage = restoring.map(|(number, _)| StageShown::new(order, number, watch, names));
        let held = stage
            .as_ref()
            .is_some_and(|stage| stage.held_since.is_some());
        Some(Self {
            percent: order.retries_percent(now),
            expires_at: at(end.0),
            next_percent: stages.get(next).map_or(100, |percent| u32::from(*percent)),
            next_at: (!held).then(|| at(order.off_until + next as u64 * order.stage_every)),
            stage,
            overruled: None,
        })
    }

    /// The same, where something is ordered for the whole node too.
    pub fn under(self, node: &Order, now: Nanos) -> Self {
        let admitted = node.retries_percent(now);
        if admitted >= self.percent {
            return self;
        }
        Self {
            overruled: Some(Overruled {
                percent: self.percent,
                until: refuses_until(node, now),
            }),
            percent: admitted,
            ..self
        }
    }

    /// In plain words.
    pub fn in_words(&self, scope: &str) -> String {
        let percent = self.percent;
        match &self.overruled {
            None => self.own_in_words(percent, scope),
            Some(Overruled {
                percent: own,
                until,
            }) => format!(
                "{percent} % of retries to {scope} are admitted: node-wide order until {} \
                 (`retry-governor retries on`); its own: {}",
                beside_now(until),
                self.own_in_words(*own, scope)
            ),
        }
    }

    /// What the order itself says.
    fn own_in_words(&self, percent: u32, scope: &str) -> String {
        let stage = self.stage.as_ref().map(StageShown::in_words);
        let stage = stage.map_or(String::new(), |stage| format!(" ({stage})"));
        let admitted = format!("{percent} % of retries to {scope} are admitted{stage}");
        let next_percent = self.next_percent;
        let end = beside_now(&self.expires_at);
        let stage = self.stage.as_ref();
        let back =
            stage.and_then(|stage| Some((stage.falls_back_to?, stage.falls_back_at.as_deref()?)));
        match (back, &self.next_at) {
            (Some((to, at)), _) => {
                format!(
                    "{admitted}, {to} % from {} unless fewer fail",
                    beside_now(at)
                )
            }
            (None, None) => {
                format!(
                    "{admitted}, {next_percent} % after fewer fail (`retry-governor retries on` ends it)"
                )
            }
            (None, Some(next)) if *next != self.expires_at => {
                let next = beside_now(next);
                format!("{admitted}, {next_percent} % from {next}, all again from {end}")
            }
            _ => format!("{admitted}, all again from {end}"),
        }
    }
}

impl StageShown {
    fn new(order: &Order, number: usize, watch: Option<&Watch>, names: &Names<'_>) -> Self {
        let points = |share: BasisPoints| f64::from(share.0) / 100.0;
        let at = |at: Nanos| rfc3339(time_of(at));
        let stages = stages_of(order);
        let failing = watch.and_then(Watch::failing);
        let worst = failing.and_then(|failing| failing.worst);
        let back_at = watch.and_then(|watch| watch.falls_back(order));
        let back_to = stages.get(number.saturating_sub(1));
        Self {
            number: number + 1,
            of: stages.len(),
            hold_above: points(order.hold_above.get().unwrap_or(USUAL_ABOVE)),
            failing_at_start: order.began_with.get().map(points),
            failing: failing.map(|failing| points(failing.share)),
            worst: worst.map(|(workload, share)| WorstShown {
                workload: names.workload(workload),
                failing: points(share),
            }),
            held_since: watch.and_then(Watch::held).map(|held| at(held.since)),
            falls_back_at: back_at.map(at),
            falls_back_to: back_at.and(back_to).map(|percent| u32::from(*percent)),
        }
    }

    fn in_words(&self) -> String {
        let stage = format!("stage {} of {}", self.number, self.of);
        let Some(since) = &self.held_since else {
            return stage;
        };
        let held = format!("{stage}, held since {}", beside_now(since));
        let points = |percent: f64| share(BasisPoints((percent * 100.0).round() as u32));
        let Some(failing) = self.failing.map(points) else {
            return held;
        };
        let compared = match (&self.falls_back_at, self.failing_at_start) {
            (None, _) => ", more than half".to_owned(),
            (Some(_), Some(before)) => format!(", {} when it began", points(before)),
            (Some(_), None) => String::new(),
        };
        let worst = self.worst.as_ref().map_or(String::new(), |worst| {
            format!("; worst: {}, {}", worst.workload, points(worst.failing))
        });
        format!("{held}: {failing} of attempts fail{compared}{worst}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::operators::NOTHING;
    use crate::daemon::restore::{Ended, Failing, OfOne, look};
    use crate::kernel::now;
    use governor_core::order::Told;

    /// Nothing has a name.
    fn show(order: &Order, watch: Option<&Watch>, at: Nanos) -> Option<RetriesShown> {
        let names = Names {
            groups: &Default::default(),
            workloads: &[(42, "/a.service".to_owned())].into(),
            policies: &[],
            caveats: &Default::default(),
        };
        RetriesShown::new(order, watch, &names, at)
    }

    /// What is shown when so many percent fail from soon after `at` seconds on.
    fn held(order: &Order, at: u64, percent: u64) -> RetriesShown {
        let at = Nanos(order.off_from + seconds(at));
        let mut watch = None;
        let (order, _) = look(order, &mut watch, |_| None, at);
        let recently = Ended {
            well: 100 - percent,
            badly: percent,
        };
        let one = OfOne {
            workload: 42,
            recently,
            lately: recently,
        };
        let bad = |_| Failing::of(vec![one]);
        let (order, _) = look(&order, &mut watch, bad, Nanos(at.0 + 1));
        show(&order, watch.as_ref(), Nanos(at.0 + 2)).unwrap()
    }

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
        let shown = show(&ordered(now), None, Nanos(now.0 + seconds(at)))?;
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
        let shown = held(&ordered(now()), 95, 31);
        assert_eq!(shown.next_at, None);
        let words = shown.in_words("destination auth");
        for part in [
            "50 % of retries to destination auth are admitted (stage 2 of 3, held since 2",
            ": 31 % of attempts fail, 12 % when it began; worst: /a.service, 31 %), 10 % from 2",
            " unless fewer fail",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn a_stage_held_because_most_fail_says_so_and_the_way_out() {
        let mut order = ordered(now());
        order.began_with = Told::share(BasisPoints(10_000));
        let shown = held(&order, 95, 100);
        let stage = shown.stage.as_ref().unwrap();
        assert_eq!((&stage.falls_back_at, stage.falls_back_to), (&None, None));
        let words = shown.in_words("destination auth");
        for part in [
            ": 100 % of attempts fail, more than half; worst: /a.service, 100 %), 100 % after fewer fail",
            "(`retry-governor retries on` ends it)",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn under_a_stricter_node_wide_order_what_that_admits_is_shown() {
        let now = now();
        let at = Nanos(now.0 + seconds(125));
        let shown = || show(&ordered(now), None, at).unwrap();
        assert_eq!(shown().percent, 100);
        let off = Order {
            off_until: at.0 + seconds(600),
            ..ordered(now)
        };
        let under = shown().under(&off, at);
        assert_eq!(under.percent, 0);
        let words = under.in_words("destination auth");
        for part in [
            "0 % of retries to destination auth are admitted: node-wide order until 2",
            ") (`retry-governor retries on`); its own: 100 % of retries to",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        let over = Order { off_from: 0, ..off };
        assert_eq!(shown().under(&over, at), shown());
    }

    #[test]
    fn what_comes_next_is_said_in_words() {
        let now = now();
        let words = |at| {
            let shown = show(&ordered(now), None, Nanos(now.0 + seconds(at)));
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
