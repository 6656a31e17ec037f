//! What the run came to: a table, and a verdict in words.

use super::{
    figures::{Figures, Quantiles},
    record::{Plan, Run, Scene},
    text::{count, duration, percent, rate},
};

/// Goodputs that differ by less are equal: as much varies from run to run.
const NOISE: f64 = 0.02;

/// The table; fits 80 columns.
pub fn table(run: &Run) -> String {
    let scenes = [&run.without, &run.with];
    let figures = scenes.map(Figures::of);
    let each = |of: fn(&Figures) -> String| [of(&figures[0]), of(&figures[1])];
    let rows = [
        (
            "goodput in the 15 s after the stall",
            each(|it| {
                let share = percent(it.goodput_share);
                format!("{} ({share})", rate(it.goodput))
            }),
        ),
        (
            "goodput whole again, after the stall",
            each(|it| {
                it.recovery
                    .map_or("not in this run".to_owned(), |it| duration_of(it.0))
            }),
        ),
        (
            "tries at the service, from the stall on",
            each(|it| count(it.attempts)),
        ),
        (
            "  for each call (amplification)",
            each(|it| format!("{:.2}", it.amplification)),
        ),
        (
            "  worked off for callers who had left",
            each(|it| count(it.wasted)),
        ),
        (
            "a try that fails takes, median / p99",
            each(|it| quantiles(it.failed_try)),
        ),
        (
            "a call that fails with all its tries",
            each(|it| quantiles(it.failed_call)),
        ),
        ("refused by the governor", scenes.map(refused)),
        ("curl --retry 3: runs that ended well", scenes.map(curls)),
    ];
    let mut out = line("", "without", "with governor");
    out += &format!("{}\n", "─".repeat(80));
    for (name, [without, with]) in &rows {
        out += &line(name, without, with);
    }
    out += "Calls and their tries are the legacy client's; the service also counts curl's.\n";
    out
}

fn line(name: &str, without: &str, with: &str) -> String {
    format!("{name:<46}{without:>16}{with:>18}\n")
}

fn duration_of(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn quantiles(of: Option<Quantiles>) -> String {
    match of {
        Some(Quantiles { p50, p99 }) => {
            let (p50, p99) = (duration(p50), duration(p99));
            match (p50.strip_suffix(" s"), p99.strip_suffix(" s")) {
                (Some(p50), Some(p99)) => format!("{p50} / {p99} s"),
                _ => format!("{p50} / {p99}"),
            }
        }
        None => "none failed".to_owned(),
    }
}

fn refused(scene: &Scene) -> String {
    match &scene.governor {
        Some(governor) => count(governor.denied.values().sum()),
        None => "-".to_owned(),
    }
}

fn curls(scene: &Scene) -> String {
    let curls = scene.curls;
    format!("{} of {}", curls.good, curls.good + curls.failed)
}

/// Whether the governor did its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did.
    Good,
    /// It made things worse, in this way.
    Worse(String),
}

/// What the run shows, in plain words, and whether that is good.
pub fn verdict(run: &Run) -> (String, Verdict) {
    let (without, with) = (Figures::of(&run.without), Figures::of(&run.with));
    let mut words = String::new();
    words += &match without.recovery {
        None => format!(
            "Without the governor the service is not back {} s after its stall: each call\n\
             sends {:.1} tries, and it answers callers who have left.\n",
            run.plan.after.0, without.amplification
        ),
        Some(after) => format!(
            "Without the governor the service came back by itself after {}: this storm died\n\
             down without help.\n",
            duration_of(after.0)
        ),
    };
    words += &match with.recovery {
        Some(after) => format!(
            "With the governor goodput is whole {} after the end of the stall.\n",
            duration_of(after.0)
        ),
        None => format!(
            "With the governor goodput is not whole again within {} s either.\n",
            run.plan.after.0
        ),
    };
    (words, judge(&run.plan, &without, &with))
}

fn judge(plan: &Plan, without: &Figures, with: &Figures) -> Verdict {
    if with.refused_in_health > 0 {
        return Verdict::Worse(format!(
            "{} tries were refused in the {} s in which all was well",
            with.refused_in_health, plan.healthy.0
        ));
    }
    if with.goodput_share < without.goodput_share - NOISE {
        return Verdict::Worse(format!(
            "goodput after the stall was {} with the governor and {} without",
            percent(with.goodput_share),
            percent(without.goodput_share)
        ));
    }
    Verdict::Good
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{
        figures::tests::scene,
        record::{Curls, End, Seconds},
    };

    fn run(without: Seconds, with: Seconds) -> Run {
        let curls = Curls {
            good: 166,
            failed: 4,
        };
        Run {
            plan: Plan::STORM,
            without: scene(without),
            with: Scene {
                curls,
                ..scene(with)
            },
        }
    }

    #[test]
    fn the_table_and_the_words_fit_80_columns() {
        let run = run(Seconds(100.0), Seconds(11.0));
        for row in table(&run).lines().chain(verdict(&run).0.lines()) {
            assert!(row.chars().count() <= 80, "{row}");
        }
    }

    #[test]
    fn a_storm_that_dies_by_itself_is_said_to() {
        let (words, verdict) = verdict(&run(Seconds(10.0), Seconds(10.0)));
        assert!(words.contains("by itself"), "{words}");
        assert_eq!(verdict, Verdict::Good);
    }

    #[test]
    fn a_storm_that_stays_and_one_that_does_not_are_told_apart() {
        let (words, verdict) = verdict(&run(Seconds(100.0), Seconds(10.0)));
        assert!(words.contains("not back"), "{words}");
        assert!(words.contains("whole 0.0 s"), "{words}");
        assert_eq!(verdict, Verdict::Good);
    }

    #[test]
    fn a_governor_that_costs_goodput_fails_the_demo() {
        let (_, verdict) = verdict(&run(Seconds(10.0), Seconds(13.0)));
        assert!(matches!(verdict, Verdict::Worse(why) if why.contains("goodput")));
    }

    #[test]
    fn a_refusal_while_all_is_well_fails_the_demo() {
        let mut run = run(Seconds(100.0), Seconds(10.0));
        run.with.tries[3].end = End::Refused;
        assert!(matches!(verdict(&run).1, Verdict::Worse(why) if why.contains("all was well")));
    }
}
