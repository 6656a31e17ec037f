//! The live line: what is played now, and how long all of it still takes. On a terminal one
//! line that changes (by `indicatif`), elsewhere a line for each run that begins.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::findings::{Findings, Verdict};
use crate::report::duration;
use crate::stop;

/// The live line changes so often.
const TICK: Duration = Duration::from_millis(250);

/// Where the lab is in its plan.
#[derive(Debug)]
pub struct Progress {
    shared: Arc<Shared>,
    bar: ProgressBar,
}

/// A run while it is played; it ends where this is dropped.
#[derive(Debug)]
pub struct Act {
    shared: Arc<Shared>,
    bar: ProgressBar,
    id: u64,
}

#[derive(Debug)]
struct Shared {
    /// What is played, with about how many seconds each takes.
    plan: Vec<(&'static str, f64)>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// Scenarios that began.
    begun: usize,
    /// When the last of them did; `None` between two.
    since: Option<Instant>,
    acts: Vec<Playing>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Playing {
    id: u64,
    run: String,
    seconds: f64,
    /// When its time was zero; before that it is prepared.
    since: Option<Instant>,
}

impl Progress {
    /// A plan of scenarios, with about how many seconds each takes.
    pub fn new(plan: impl Iterator<Item = (&'static str, f64)>) -> Self {
        let shared = Arc::new(Shared {
            plan: plan.collect(),
            now: Mutex::default(),
        });
        // Draws nothing where standard error is no terminal.
        let bar = ProgressBar::new_spinner();
        let told = Arc::clone(&shared);
        let line = move |_: &ProgressState, out: &mut dyn Write| {
            // A line that cannot be written is not shown.
            let _ = told.line(out, Instant::now());
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {line}") {
            bar.set_style(style.with_key("line", line));
        }
        Self { shared, bar }
    }

    /// Plays a scenario of the plan: the next one.
    pub fn scenario<T>(&self, name: &str, play: impl FnOnce() -> T) -> T {
        let count = {
            let mut now = self.shared.now();
            now.begun += 1;
            now.since = Some(Instant::now());
            now.begun
        };
        if self.bar.is_hidden() {
            let left = duration(self.shared.left(&self.shared.now(), Instant::now()));
            println!(
                "scenario {count}/{} {name}; {left} left in all",
                self.shared.plan.len()
            );
        } else {
            self.bar.enable_steady_tick(TICK);
        }
        let played = play();
        self.shared.now().since = None;
        self.bar.disable_steady_tick();
        played
    }

    /// A run of about `seconds`; several may be played side by side.
    pub fn act(&self, run: &str, seconds: f64) -> Act {
        stop::check();
        let mut now = self.shared.now();
        let id = now.next;
        now.next += 1;
        now.acts.push(Playing {
            id,
            run: run.to_owned(),
            seconds,
            since: None,
        });
        Act {
            shared: Arc::clone(&self.shared),
            bar: self.bar.clone(),
            id,
        }
    }

    /// Says what a scenario found, claim by claim.
    pub fn say(&self, found: &Findings) {
        self.bar.suspend(|| {
            println!("{} ({})", found.name, duration(found.took));
            for claim in &found.claims {
                let verdict = match claim.verdict {
                    Verdict::Holds => "ok        ",
                    Verdict::Fails => "FAILS     ",
                    Verdict::NotJudged => "not judged",
                };
                println!(
                    "  {verdict} {}: {} (wanted: {})",
                    claim.what, claim.measured, claim.wanted
                );
            }
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Act {
    /// Its time is zero now.
    pub fn begins(&self) {
        let mut now = self.shared.now();
        if let Some(act) = now.acts.iter_mut().find(|act| act.id == self.id) {
            act.since = Some(Instant::now());
            if self.bar.is_hidden() {
                println!("  {}: {}", act.run, duration(act.seconds));
            }
        }
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        self.shared.now().acts.retain(|act| act.id != self.id);
    }
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Now> {
        // A scenario that panics leaves nothing half done here.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `scenario 3/17 blip-5s: with 12 s of 45 s; 8 min left in all`
    fn line(&self, out: &mut dyn Write, at: Instant) -> fmt::Result {
        let now = self.now();
        let name = now
            .begun
            .checked_sub(1)
            .and_then(|last| self.plan.get(last));
        let name = name.map_or("", |(name, _)| name);
        write!(out, "scenario {}/{} {name}: ", now.begun, self.plan.len())?;
        if now.acts.is_empty() {
            write!(out, "being prepared")?;
        }
        for (count, act) in now.acts.iter().enumerate() {
            let comma = if count > 0 { ", " } else { "" };
            match act.since {
                Some(since) => {
                    let played = at.saturating_duration_since(since).as_secs_f64();
                    write!(
                        out,
                        "{comma}{} {played:.0} s of {:.0} s",
                        act.run, act.seconds
                    )?;
                }
                None => write!(out, "{comma}{} is prepared", act.run)?,
            }
        }
        write!(out, "; {} left in all", duration(self.left(&now, at)))
    }

    /// About how many seconds all of it still takes.
    fn left(&self, now: &Now, at: Instant) -> f64 {
        let to_come: f64 = self
            .plan
            .iter()
            .skip(now.begun)
            .map(|(_, seconds)| seconds)
            .sum();
        let this = now.since.and_then(|since| {
            let (_, seconds) = self.plan.get(now.begun.checked_sub(1)?)?;
            Some((seconds - at.saturating_duration_since(since).as_secs_f64()).max(0.0))
        });
        to_come + this.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(progress: &Progress, after: f64) -> String {
        let mut line = String::new();
        let at = Instant::now() + Duration::from_secs_f64(after);
        progress.shared.line(&mut line, at).expect("written");
        line
    }

    #[test]
    fn the_line_says_what_is_played_and_how_long_all_takes() {
        let progress = Progress::new([("overload", 50.0), ("blip-5s", 85.0)].into_iter());
        progress.scenario("overload", || {
            let without = progress.act("without", 25.0);
            let said = "scenario 1/2 overload: without is prepared; 2 min left in all";
            assert_eq!(line(&progress, 0.0), said);
            without.begins();
            let with = progress.act("with", 25.0);
            with.begins();
            let said =
                "scenario 1/2 overload: without 12 s of 25 s, with 12 s of 25 s; 2 min left in all";
            assert_eq!(line(&progress, 12.0), said);
            drop(with);
            let said = "scenario 1/2 overload: without 90 s of 25 s; 85 s left in all";
            assert_eq!(line(&progress, 90.0), said);
        });
        assert_eq!(
            line(&progress, 0.0),
            "scenario 1/2 overload: being prepared; 85 s left in all"
        );
    }

    #[test]
    fn an_act_that_panics_is_over() {
        let progress = Progress::new([("overload", 50.0)].into_iter());
        let fails = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _act = progress.act("with", 25.0);
            panic!("as scenarios do");
        }));
        assert!(fails.is_err());
        assert!(progress.shared.now().acts.is_empty());
    }
}
