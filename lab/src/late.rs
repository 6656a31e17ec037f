//! Loads that did not keep their time: by what they were nothing can be judged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor_tests::caller::Storm;
use governor_tests::place::Place;
use governor_tests::storm::report::{Pace, Report};

use crate::findings::Claim;

/// The loads of a scenario that were late, in words. Clones share them: runs are played side by side.
#[derive(Clone, Debug, Default)]
pub struct Late(Arc<Mutex<Vec<String>>>);

/// A load while it runs, which is asked for its pace when it ends.
#[derive(Debug)]
pub struct Load {
    storm: Storm,
    /// Of which run, and its name.
    who: String,
    late: Late,
}

impl Load {
    /// Starts a load of the storm client; `who` says whose and of which run.
    pub fn start(arguments: &str, place: &Place<'_>, who: String, late: &Late) -> Self {
        Self {
            storm: Storm::start(arguments, place),
            who,
            late: late.clone(),
        }
    }

    /// Waits for its end and tells what it did.
    #[track_caller]
    pub fn finish(self, limit: Duration) -> Report {
        let report = self.storm.finish(limit);
        if let Some(pace) = report.pace.filter(|pace| !pace.kept) {
            self.late.add(format!("{}: {}", self.who, words(pace)));
        }
        report
    }
}

impl Late {
    fn add(&self, words: String) {
        let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        late.push(words);
    }

    /// What is known of them by now.
    pub fn told(&self) -> Vec<String> {
        let late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        late.clone()
    }

    /// Takes its claims from a scenario whose loads were late: what was measured then is the machine.
    pub fn unjudge(&self, claims: &mut [Claim]) {
        if !self.told().is_empty() {
            claims.iter_mut().for_each(Claim::unjudge);
        }
    }
}

fn words(pace: Pace) -> String {
    let late = Duration::from_micros(pace.p99_late_micros).as_millis();
    match pace.own_faults {
        0 => format!("1 % of the operations began {late} ms late or later"),
        faults => format!("{faults} tries found no port, no descriptor or no memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_judged_by_a_load_that_was_late() {
        let holding = || vec![Claim::at_most("load", 1.0, 2.0, "x offered")];
        let late = Late::default();
        let mut claims = holding();
        late.unjudge(&mut claims);
        assert!(claims[0].holds);
        late.clone().add("with: caller was late".to_owned());
        late.unjudge(&mut claims);
        assert!(!claims[0].holds);
        assert_eq!(
            claims[0].measured,
            "1.000 x offered; not judged: the machine was too slow"
        );
    }

    #[test]
    fn a_late_load_says_how_late_or_what_it_lacked() {
        let late = Pace {
            kept: false,
            p99_late_micros: 120_000,
            max_late_micros: 150_000,
            herd_micros: 0,
            own_faults: 0,
            given_up: 0,
            most_open: 1,
        };
        assert_eq!(
            words(late),
            "1 % of the operations began 120 ms late or later"
        );
        let starved = Pace {
            own_faults: 7,
            ..late
        };
        assert_eq!(
            words(starved),
            "7 tries found no port, no descriptor or no memory"
        );
    }
}
