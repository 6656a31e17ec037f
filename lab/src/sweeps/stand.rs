//! What the figures of a trial say of a default.

use super::trial::{Measure, Trial};
use crate::findings::{Claim, Sweep};

/// A trial with what was measured.
pub struct Tried {
    pub(super) trial: &'static Trial,
    /// For the report.
    pub sweep: Sweep,
}

/// What the figures say of a default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stand {
    /// No other value is much better in any measure.
    Plateau,
    /// What is much better in one measure is much worse in another.
    Trade,
    /// This value is much better in one and not much worse in any.
    Beaten(f64),
}

impl Tried {
    /// A figure of a value.
    fn figure(&self, value: f64, measure: usize) -> f64 {
        let point = self.sweep.points.iter().find(|point| point.0 == value);
        point.map_or(f64::NAN, |point| point.1[measure].1)
    }

    /// How much better than the default a value is in each measure, by what is allowed for it.
    fn gains(&self, value: f64) -> Vec<f64> {
        let measures = self.trial.measures().enumerate();
        let gain = |(at, measure): (usize, &Measure)| {
            let default = self.figure(self.trial.chosen, at);
            measure.wanted.gain(self.figure(value, at), default) / measure.wanted.within()
        };
        measures.map(gain).collect()
    }

    /// How the default stands among the values tried.
    pub fn stand(&self) -> Stand {
        let others = self.trial.values.iter().copied();
        let better: Vec<_> = others
            .map(|value| (value, self.gains(value)))
            .filter(|(_, gains)| gains.iter().any(|gain| *gain > 1.0))
            .collect();
        let beats = |(_, gains): &&(f64, Vec<f64>)| gains.iter().all(|gain| *gain >= -1.0);
        match better.iter().find(beats) {
            Some((value, _)) => Stand::Beaten(*value),
            None if better.is_empty() => Stand::Plateau,
            None => Stand::Trade,
        }
    }

    /// That no value that was tried is better than the default.
    pub fn claim(&self) -> Claim {
        let stand = self.stand();
        let said = match stand {
            Stand::Plateau => "on the plateau".to_owned(),
            Stand::Trade => "a trade".to_owned(),
            Stand::Beaten(value) => format!("BEATEN by {value}"),
        };
        let measures = self.trial.measures().count();
        let trades = self.trades();
        // A figure that is none is better or worse than nothing.
        let all = (0..measures).all(|at| self.figure(self.trial.chosen, at).is_finite());
        Claim::that(
            format!("{} = {}", self.trial.key, spelled(self.trial)),
            match trades.is_empty() {
                true => format!("{said} in {measures} measures"),
                false => format!("{said}: {}", trades.join("; ")),
            },
            "no value is much better in one measure and not much worse in another",
            measures > 0 && all && !matches!(stand, Stand::Beaten(_)),
        )
    }

    /// The nearest values on both sides that are much better in something: in what, and at which
    /// price.
    fn trades(&self) -> Vec<String> {
        let (chosen, values) = (self.trial.chosen, self.trial.values);
        let much_better = |value: &&f64| self.gains(**value).iter().any(|gain| *gain > 1.0);
        let mut below = values.iter().rev().filter(|value| **value < chosen);
        let mut above = values.iter().filter(|value| **value > chosen);
        let nearest = [below.find(much_better), above.find(much_better)];
        nearest
            .into_iter()
            .flatten()
            .map(|value| self.trade(*value))
            .collect()
    }

    fn trade(&self, value: f64) -> String {
        let gains = self.gains(value);
        let told = |(at, measure): (usize, &Measure)| {
            let (this, chosen) = (self.figure(value, at), self.figure(self.trial.chosen, at));
            format!("{}: {} for {}", measure.name, short(this), short(chosen))
        };
        let those = |wanted: fn(f64) -> bool| -> Vec<String> {
            let measures = self.trial.measures().enumerate();
            measures
                .filter(|(at, _)| wanted(gains[*at]))
                .map(told)
                .collect()
        };
        let (better, worse) = (those(|gain| gain > 1.0), those(|gain| gain < -1.0));
        let but = match worse.is_empty() {
            true => String::new(),
            false => format!(", but {}", worse.join(", ")),
        };
        format!("{value} has {}{but}", better.join(", "))
    }
}

fn spelled(trial: &Trial) -> String {
    format!("{} {}", trial.chosen, trial.unit)
        .trim_end()
        .to_owned()
}

fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Scene, Wanted, mean};
    use super::*;
    use crate::findings::Verdict;

    const TRIAL: Trial = Trial {
        key: "key",
        unit: "s",
        chosen: 2.0,
        values: &[1.0, 2.0, 3.0],
        set: |_, _| {},
        scenes: &[&Scene::of(
            |_| unreachable!("nothing is played"),
            &[
                mean("goodput", Wanted::More(0.1), |_| 0.0),
                mean("load", Wanted::Less(50.0), |_| 0.0),
            ],
        )],
    };

    /// Goodput and load of the three values.
    fn tried(figures: [(f64, f64); 3]) -> Tried {
        let of_seed = figures.map(|(goodput, load)| [goodput, load]);
        Tried {
            trial: &TRIAL,
            sweep: TRIAL.sweep(|value, _| vec![of_seed[value].as_slice()]),
        }
    }

    #[test]
    fn a_trade_is_told_with_what_it_gives_and_what_it_takes() {
        let trade = tried([(0.1, 90.0), (0.8, 200.0), (0.95, 280.0)]);
        assert_eq!(trade.stand(), Stand::Trade);
        let claim = trade.claim();
        assert_eq!(claim.verdict, Verdict::Holds);
        assert_eq!(
            claim.measured,
            "a trade: 1 has load: 90.0 for 200, but goodput: 0.100 for 0.800; \
             3 has goodput: 0.950 for 0.800, but load: 280 for 200"
        );
    }

    #[test]
    fn a_default_is_beaten_by_what_is_much_better_and_not_much_worse() {
        let beaten = tried([(0.8, 200.0), (0.8, 200.0), (0.95, 240.0)]);
        assert_eq!(beaten.stand(), Stand::Beaten(3.0));
        assert_eq!(beaten.claim().verdict, Verdict::Fails);
        let plateau = tried([(0.8, 200.0), (0.8, 200.0), (0.85, 190.0)]);
        assert_eq!(plateau.stand(), Stand::Plateau);
        assert_eq!(plateau.claim().verdict, Verdict::Holds);
    }
}
