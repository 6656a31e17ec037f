//! What the lab found, written down: `report.md` for people, `report.json` for programs, a
//! chart for each scenario and each sweep.

mod about;
mod axis;
mod chart;
mod directory;
mod figures;
mod markdown;
mod marks;
mod number;
mod panel;
mod paper;
mod series;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;

use anyhow::Result;
use serde::Serialize;

use crate::findings::{Findings, Sweep, Verdict};

pub use about::{About, Program};
pub use directory::Directory;
pub use number::duration;

/// Writes the report into its directory.
///
/// # Errors
/// Where a file cannot be written.
pub fn write(directory: &Directory, findings: &[Findings], about: &About) -> Result<()> {
    for found in findings {
        for shown in found.pictures() {
            if let Some(picture) = chart::chart(&shown) {
                directory.write(&chart_name(&shown), &picture)?;
            }
        }
        for sweep in &found.sweeps {
            if let Some(picture) = sweep::chart(sweep) {
                directory.write(&sweep_name(found, sweep), &picture)?;
            }
        }
    }
    let whole = Whole {
        about,
        holds: findings.iter().all(Findings::hold),
        not_judged: findings.iter().map(|it| it.count(Verdict::NotJudged)).sum(),
        scenarios: findings,
    };
    directory.write("report.json", &serde_json::to_string_pretty(&whole)?)?;
    directory.write("report.md", &markdown::report(findings, about))
}

/// All of it, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    about: &'a About,
    /// Whether every claim of every scenario holds.
    holds: bool,
    /// Claims that nothing can be said of: the machine was too slow.
    not_judged: usize,
    scenarios: &'a [Findings],
}

/// The file of a scenario's chart.
fn chart_name(found: &Findings) -> String {
    format!("{}.svg", found.name)
}

/// The file of a sweep's chart: two scenarios may try the same default.
fn sweep_name(found: &Findings, sweep: &Sweep) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    let key: String = sweep.key.chars().map(plain).collect();
    format!("{}-sweep-{key}.svg", found.name)
}
