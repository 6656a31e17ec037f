//! The figures: a table for people, JSON for whoever compares runs.

use std::fmt;

use serde::Serialize;

use super::sample::Sample;

/// What a figure says against its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval is within the goal.
    Met,
    /// The median is within it, the interval is not.
    Likely,
    /// The median is not within it, part of the interval is.
    Unlikely,
    /// The whole interval is beyond it.
    Missed,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Of the figures.
    pub unit: &'static str,
    /// Median of the rounds.
    pub median: f64,
    /// Where the true median lies in 95 of 100 cases.
    pub interval: (f64, f64),
    /// Least of the rounds.
    pub least: f64,
    /// How many rounds, or pairs.
    pub rounds: usize,
    /// At most this; none: only told.
    pub goal: Option<f64>,
    /// Whether the goal is met.
    pub verdict: Option<Verdict>,
}

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Date, UTC.
    pub date: String,
    /// Figures in the order of the table.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Adds a figure.
    pub fn add(&mut self, name: &str, unit: &'static str, sample: &Sample, goal: Option<f64>) {
        let (median, interval) = (sample.median(), sample.interval());
        let verdict = goal.map(|goal| match (median <= goal, interval) {
            (true, (_, high)) if high <= goal => Verdict::Met,
            (true, _) => Verdict::Likely,
            (false, (low, _)) if low <= goal => Verdict::Unlikely,
            (false, _) => Verdict::Missed,
        });
        self.figures.push(Figure {
            name: name.to_owned(),
            unit,
            median,
            interval,
            least: sample.least(),
            rounds: sample.len(),
            goal,
            verdict,
        });
    }
}

/// As many digits as mean something.
fn short(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, Linux {}, {}", self.date, self.kernel, self.cpu)?;
        writeln!(
            f,
            "{:<33}{:>8} {:<4}{:>15}{:>8}  verdict",
            "figure", "median", "", "95 % interval", "goal"
        )?;
        for it in &self.figures {
            let (low, high) = it.interval;
            let interval = if low < high {
                format!("{}..{}", short(low), short(high))
            } else {
                String::new()
            };
            let goal = it.goal.map_or_else(|| "-".to_owned(), short);
            let verdict = match it.verdict {
                Some(verdict) => format!("{verdict:?}").to_lowercase(),
                None => String::new(),
            };
            let row = format!(
                "{:<33}{:>8} {:<4}{interval:>15}{goal:>8}  {verdict}",
                it.name,
                short(it.median),
                it.unit
            );
            writeln!(f, "{}", row.trim_end())?;
        }
        Ok(())
    }
}
