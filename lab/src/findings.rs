//! What a scenario found: claims that hold or do not, and what a chart shows of it.

use std::ops::Range;

use serde::Serialize;

/// All that a scenario found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// Its name, as the command line spells it: `blip-5s`.
    pub name: String,
    /// What happens in it, in one line.
    pub title: String,
    /// What was played, with its numbers, in a sentence or two.
    pub story: String,
    /// What it must show.
    pub claims: Vec<Claim>,
    /// What was played, run by run: the one without the governor first.
    pub runs: Vec<Run>,
    /// Where the runs are of several storms: a picture of each. Empty: one of all.
    #[serde(skip)]
    pub scenes: Vec<Scene>,
    /// Figures side by side.
    pub tables: Vec<Table>,
    /// The figure that tells it in one line; the report makes one of the runs where there is none.
    pub key: Option<Key>,
    /// What it tried for a default.
    pub sweeps: Vec<Sweep>,
    /// What a reader should know besides: what was scaled down, what surprised.
    pub notes: Vec<String>,
    /// How long it took, seconds.
    pub took: f64,
}

impl Findings {
    /// Whether every claim holds.
    pub fn hold(&self) -> bool {
        self.count(Verdict::Holds) == self.claims.len()
    }

    /// How many of its claims came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        let these = self.claims.iter().filter(|claim| claim.verdict == verdict);
        these.count()
    }

    /// What one picture can show: each scene for itself.
    pub fn pictures(&self) -> Vec<Self> {
        let scene = |scene: &Scene| Self {
            name: format!("{}-{}", self.name, scene.name),
            title: scene.title.clone(),
            claims: self
                .claims
                .get(scene.claims.clone())
                .unwrap_or_default()
                .to_vec(),
            runs: self
                .runs
                .get(scene.runs.clone())
                .unwrap_or_default()
                .to_vec(),
            scenes: Vec::new(),
            ..self.clone()
        };
        match self.scenes.as_slice() {
            [] => vec![self.clone()],
            scenes => scenes.iter().map(scene).collect(),
        }
    }
}

/// One storm of a scenario that plays several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// In a word: it ends the name of its picture.
    pub name: String,
    /// What happens in it, in one line.
    pub title: String,
    /// Which of the scenario's runs are of it.
    pub runs: Range<usize>,
    /// Which of its claims are about it.
    pub claims: Range<usize>,
}

/// Figures side by side: a row for each of what is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Names of the columns; that of the first may be empty.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Of these.
    pub fn new(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self {
            columns: columns.iter().map(|it| (*it).to_owned()).collect(),
            rows: rows.into_iter().collect(),
        }
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It is as wanted.
    Holds,
    /// It is not.
    Fails,
    /// The load of its run was late: the figure says nothing, and nothing is shown.
    NotJudged,
}

/// One sentence that can be wrong. One that begins with the name of a run and a colon is about that
/// run alone.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The sentence: `load at the service, worst second after the second one`.
    pub what: String,
    /// What was measured, with its unit: `1.08 x offered`.
    pub measured: String,
    /// What is wanted: `at most 1.15`.
    pub wanted: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Whether the figure is as wanted, judged or not.
    pub within: bool,
}

impl Claim {
    /// That a figure is at most `most`.
    pub fn at_most(what: impl Into<String>, figure: f64, most: f64, unit: &str) -> Self {
        Self::new(
            what,
            figure,
            unit,
            format!("at most {most}"),
            figure <= most,
        )
    }

    /// That a figure is at least `least`.
    pub fn at_least(what: impl Into<String>, figure: f64, least: f64, unit: &str) -> Self {
        Self::new(
            what,
            figure,
            unit,
            format!("at least {least}"),
            figure >= least,
        )
    }

    /// That something is so; `measured` says how it is.
    pub fn that(
        what: impl Into<String>,
        measured: impl Into<String>,
        wanted: impl Into<String>,
        holds: bool,
    ) -> Self {
        Self {
            what: what.into(),
            measured: measured.into(),
            wanted: wanted.into(),
            verdict: match holds {
                true => Verdict::Holds,
                false => Verdict::Fails,
            },
            within: holds,
        }
    }

    /// The one of these runs that it is about; none where it is about several.
    pub fn run<'a>(&self, runs: &'a [String]) -> Option<&'a str> {
        let named = |run: &&String| {
            let rest = self.what.strip_prefix(run.as_str());
            rest.is_some_and(|rest| rest.starts_with(": "))
        };
        runs.iter().find(named).map(String::as_str)
    }

    /// Its figure says nothing: the load that it was measured with was late.
    pub fn unjudge(&mut self) {
        self.verdict = Verdict::NotJudged;
    }

    fn new(what: impl Into<String>, figure: f64, unit: &str, wanted: String, holds: bool) -> Self {
        let measured = match figure.abs() {
            size if size >= 100.0 => format!("{figure:.0} {unit}"),
            size if size >= 10.0 => format!("{figure:.1} {unit}"),
            _ => format!("{figure:.3} {unit}"),
        };
        // NaN compares with nothing: such a claim does not hold.
        Self::that(
            what,
            measured.trim(),
            format!("{wanted} {unit}").trim(),
            holds,
        )
    }
}

/// One run of a storm, as the chart shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// `without`, `with`, or what is special: `with, breaker off`.
    pub name: String,
    /// The governor was there.
    pub governed: bool,
    /// Length of a slot of the series, seconds.
    pub slot: f64,
    /// First tries that callers offered, per second.
    pub offered: Vec<f64>,
    /// Requests that came to the service, per second.
    pub load: Vec<f64>,
    /// Operations that ended well, per second, when they ended.
    pub goodput: Vec<f64>,
    /// What the service can do, per second; empty where that is not the point.
    pub capacity: Vec<f64>,
    /// Attempts that the governor refused, per second.
    pub denied: Vec<f64>,
    /// Endpoints whose breaker was not closed.
    pub breakers: Vec<f64>,
    /// The lowest limit of attempts in flight of any workload; NaN where none is in force.
    pub limit: Vec<f64>,
    /// What happened when.
    pub marks: Vec<Mark>,
}

/// The figure of a scenario: `first tries refused: 20 % → 0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Of what: `goodput after the stall`.
    pub what: String,
    /// Without the governor, with its unit; empty where there is no such run.
    pub without: String,
    /// With it.
    pub with: String,
}

/// What was measured for several values of a default of the policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sweep {
    /// As the policy spells it: `retryConstraint.budget.percent`.
    pub key: String,
    /// Unit of its values: `%`; may be empty.
    pub unit: String,
    /// The value that is the default.
    pub chosen: f64,
    /// For each value what was measured, by name and unit: (`goodput, of offered`, 0.97). Each
    /// value has the same measures in the same order.
    pub points: Vec<(f64, Vec<(String, f64)>)>,
}

/// A time to shade, or a moment to mark.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// From there, seconds.
    pub from: f64,
    /// To there; a moment where equal.
    pub to: f64,
    /// In a word or three: `stalled`, `retries off`.
    pub label: String,
}
