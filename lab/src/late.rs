//! Loads that did not keep their time: by what they were nothing can be judged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor_tests::caller::Storm;
use governor_tests::place::Place;
use governor_tests::storm::report::{Pace, Report};

use crate::findings::{Claim, Scene};
use crate::scenario::Found;

/// What the loads of a scenario told of their pace. Clones share it: runs are played side by side.
#[derive(Clone, Debug, Default)]
pub struct Late(Arc<Mutex<Vec<Told>>>);

/// A load that has ended.
#[derive(Clone, Debug)]
struct Told {
    run: String,
    workload: String,
    operations: usize,
    pace: Pace,
}

/// A run whose loads were late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Which.
    pub run: String,
    /// Whose load, and how late, in words.
    pub words: String,
}

/// A hundredth of fewer operations is none: such loads are judged together with those of their run.
const FEW: usize = 100;

/// A load while it runs, which is asked for its pace when it ends.
#[derive(Debug)]
pub struct Load {
    storm: Storm,
    run: String,
    workload: String,
    late: Late,
}

impl Load {
    /// Starts a load of the storm client: a workload's, in a run of this name.
    pub fn start(
        arguments: &str,
        place: &Place<'_>,
        (run, workload): (&str, &str),
        late: &Late,
    ) -> Self {
        Self {
            storm: Storm::start(arguments, place),
            run: run.to_owned(),
            workload: workload.to_owned(),
            late: late.clone(),
        }
    }

    /// Waits for its end and tells what it did.
    #[track_caller]
    pub fn finish(self, limit: Duration) -> Report {
        let report = self.storm.finish(limit);
        if let Some(pace) = report.pace {
            self.late.add(Told {
                run: self.run,
                workload: self.workload,
                operations: report.tries.iter().filter(|it| it.attempt == 1).count(),
                pace,
            });
        }
        report
    }
}

impl Late {
    fn add(&self, load: Told) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(load);
    }

    /// The runs that are known to be late by now.
    fn told(&self) -> Vec<Lateness> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut runs: Vec<&str> = Vec::new();
        for load in told.iter() {
            if !runs.contains(&load.run.as_str()) {
                runs.push(&load.run);
            }
        }
        let of = |run: &str| told.iter().filter(|it| it.run == run).collect::<Vec<_>>();
        runs.into_iter()
            .filter_map(|run| lateness(run, &of(run)))
            .collect()
    }

    /// Takes their claims from runs whose loads were late: what was measured then is the machine. Says so.
    /// A claim that names no run is about all of its storm.
    pub fn unjudge(&self, found: &mut Found) {
        let all = 0..found.claims.len();
        let runs: Vec<_> = found.runs.iter().map(|it| it.name.clone()).collect();
        for Lateness { run, words } in self.told() {
            let is_of = |scene: &&Scene| {
                let runs = runs.get(scene.runs.clone()).unwrap_or_default();
                runs.contains(&run)
            };
            let scene = found.scenes.iter().find(is_of);
            let claims = scene.map_or(all.clone(), |scene| scene.claims.clone());
            let claims = found.claims.get_mut(claims).unwrap_or_default();
            let of_it = |claim: &&mut Claim| claim.run(&runs).is_none_or(|of| of == run);
            claims.iter_mut().filter(of_it).for_each(Claim::unjudge);
            found.notes.push(format!("Late: {run}, {words}."));
        }
    }
}

/// Whether a run was late, by its loads.
fn lateness(run: &str, loads: &[&Told]) -> Option<Lateness> {
    let few = || loads.iter().filter(|it| it.operations < FEW);
    let late: usize = few().map(|it| it.pace.late).sum();
    let few_are_late = late * 100 > few().map(|it| it.operations).sum();
    let is_late = |it: &&&Told| {
        let counts = it.operations >= FEW || few_are_late || it.pace.own_faults > 0;
        !it.pace.kept && counts
    };
    let mut late = loads.iter().filter(is_late);
    let first = late.next()?;
    let more = match late.count() {
        0 => String::new(),
        1 => "; so was 1 more of its loads".to_owned(),
        more => format!("; so were {more} more of its loads"),
    };
    let (whose, words) = (&first.workload, words(first.pace));
    Some(Lateness {
        run: run.to_owned(),
        words: format!("{whose}: {words}{more}"),
    })
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
    use crate::findings::Verdict::{self, Fails, Holds, NotJudged};
    use crate::report::tests::run;

    const PACE: Pace = Pace {
        kept: false,
        late: 1,
        p99_late_micros: 120_000,
        max_late_micros: 150_000,
        herd_micros: 0,
        own_faults: 0,
        given_up: 0,
        most_open: 1,
    };

    fn told(run: &str, operations: usize, pace: Pace) -> Told {
        Told {
            run: run.to_owned(),
            workload: "caller".to_owned(),
            operations,
            pace,
        }
    }

    fn late(run: &str) -> Late {
        let late = Late::default();
        for _ in 0..2 {
            late.clone().add(told(run, 100, PACE));
        }
        late
    }

    #[test]
    fn small_loads_of_a_run_are_judged_together() {
        let kept = Pace {
            kept: true,
            late: 0,
            ..PACE
        };
        let late = |late_ones: usize, pace: Pace| {
            let late = Late::default();
            for number in 0..100 {
                let pace = if number < late_ones { pace } else { kept };
                late.add(told("herd", 70, pace));
            }
            late.told().len()
        };
        assert_eq!((late(70, PACE), late(71, PACE)), (0, 1));
        // What lacks a port is not spared by others that do not.
        let starved = Pace {
            own_faults: 7,
            ..PACE
        };
        assert_eq!(late(1, starved), 1);
    }

    /// Two claims that hold, of two runs.
    fn found(scenes: Vec<Scene>) -> Found {
        let claim = || Claim::at_most("load", 1.0, 2.0, "x offered");
        Found {
            claims: vec![claim(), claim()],
            runs: ["stall", "error"].map(|name| run(name, true)).into(),
            scenes,
            ..Found::default()
        }
    }

    fn verdicts(found: &Found) -> Vec<Verdict> {
        found.claims.iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn a_figure_that_is_not_judged_stays_as_it_was() {
        let mut found = found(Vec::new());
        found.claims[1] = Claim::at_most("load", 3.0, 2.0, "x offered");
        late("error").unjudge(&mut found);
        let within: Vec<_> = found.claims.iter().map(|claim| claim.within).collect();
        assert_eq!(within, [true, false]);
        assert_eq!(verdicts(&found), [NotJudged, NotJudged]);
        assert_eq!(found.claims[0].measured, "1.000 x offered");
    }

    #[test]
    fn nothing_is_judged_by_a_load_that_was_late() {
        let mut found = found(Vec::new());
        Late::default().unjudge(&mut found);
        assert_eq!(verdicts(&found), [Holds, Holds]);
        late("error").unjudge(&mut found);
        assert_eq!(verdicts(&found), [NotJudged, NotJudged]);
        let note = "Late: error, caller: 1 % of the operations began 120 ms late or later; so was 1 more of its loads.";
        assert_eq!(found.notes, [note]);
    }

    #[test]
    fn of_several_runs_those_are_judged_whose_loads_were_in_time() {
        let mut found = found(Vec::new());
        found.claims = ["stall: load", "error: load", "load, compared"]
            .map(|what| Claim::at_most(what, 3.0, 2.0, "x offered"))
            .into();
        late("error").unjudge(&mut found);
        assert_eq!(verdicts(&found), [Fails, NotJudged, NotJudged]);
    }

    #[test]
    fn of_several_storms_those_are_judged_whose_loads_were_in_time() {
        let scene = |at: usize| Scene {
            name: String::new(),
            title: String::new(),
            runs: at..at + 1,
            claims: at..at + 1,
        };
        let mut found = found(vec![scene(0), scene(1)]);
        late("error").unjudge(&mut found);
        assert_eq!(verdicts(&found), [Holds, NotJudged]);
    }

    #[test]
    fn a_late_load_says_how_late_or_what_it_lacked() {
        assert_eq!(
            words(PACE),
            "1 % of the operations began 120 ms late or later"
        );
        let starved = Pace {
            own_faults: 7,
            ..PACE
        };
        assert_eq!(
            words(starved),
            "7 tries found no port, no descriptor or no memory"
        );
    }
}
