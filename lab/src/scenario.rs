//! What a scenario is: a storm with a name, and what it must show.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::findings::{Claim, Findings, Key, Run, Scene, Sweep, Table};
use crate::late::Late;
use crate::progress::Progress;
use crate::scenarios;
use crate::stage::{self, Governor, Stage};

/// How long a scenario may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As short as it can be and still show something: for `cargo xtask test`.
    Fast,
    /// As the report has it: the whole lab under 30 minutes.
    Usual,
    /// At full length, with whole sweeps.
    Full,
}

impl fmt::Display for Length {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.pick("fast", "usual", "full"))
    }
}

impl Length {
    /// One of three, by the length.
    pub fn pick<T>(self, fast: T, usual: T, full: T) -> T {
        match self {
            Self::Fast => fast,
            Self::Usual => usual,
            Self::Full => full,
        }
    }
}

/// A storm with a name.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// As the command line spells it.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub title: &'static str,
    /// About how long it takes, seconds.
    pub seconds: fn(Length) -> f64,
    /// Plays it.
    pub play: fn(&Play<'_>) -> Found,
}

/// What a scenario gives to [`Findings`].
#[derive(Debug, Default)]
pub struct Found {
    /// What was played, with its numbers.
    pub story: String,
    /// What it shows.
    pub claims: Vec<Claim>,
    /// For the chart.
    pub runs: Vec<Run>,
    /// See [`Findings::scenes`].
    pub scenes: Vec<Scene>,
    /// Figures side by side.
    pub tables: Vec<Table>,
    /// The figure that tells it in one line; the report makes one of the runs where there is none.
    pub key: Option<Key>,
    /// What it tried for a default.
    pub sweeps: Vec<Sweep>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// What a scenario is played with.
pub struct Play<'a> {
    /// How long it may be.
    pub length: Length,
    /// The live line.
    pub progress: &'a Progress,
    late: Late,
}

impl Play<'_> {
    /// Plays a scene of about `seconds` on a stage of its own; `run` is how the live line calls it.
    pub fn stage<T>(
        &self,
        governor: Governor<'_>,
        run: &str,
        seconds: f64,
        scene: impl FnOnce(&Stage<'_>) -> T,
    ) -> T {
        let act = self.progress.act(run, seconds);
        stage::play(governor, &act, run, &self.late, scene)
    }
}

impl Scenario {
    /// All of them, in the report's order.
    pub const ALL: &'static [Self] = scenarios::ALL;

    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|scenario| scenario.name == name)
    }

    /// Plays it to its end. What fails while it is played is a claim that does not hold: the
    /// rest of the lab goes on.
    pub fn run(&self, length: Length, progress: &Progress) -> Findings {
        let began = Instant::now();
        let late = Late::default();
        let play = Play {
            length,
            progress,
            late: late.clone(),
        };
        let found = catch_unwind(AssertUnwindSafe(|| (self.play)(&play)));
        let mut found = found.unwrap_or_else(|panic| Found {
            claims: vec![Claim::that(
                "the scenario can be played",
                words(panic.as_ref()),
                "to its end",
                false,
            )],
            ..Found::default()
        });
        late.unjudge(&mut found);
        Findings {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            story: found.story,
            claims: found.claims,
            runs: found.runs,
            scenes: found.scenes,
            tables: found.tables,
            key: found.key,
            sweeps: found.sweeps,
            notes: found.notes,
            took: began.elapsed().as_secs_f64(),
        }
    }
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}
