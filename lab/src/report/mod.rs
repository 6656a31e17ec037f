//! What the lab found, written down: `report.md` for people, `report.json` for programs, a
//! chart for each scenario and each sweep.

mod about;
mod axis;
mod chart;
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

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::findings::{Findings, Sweep, Verdict};

pub use about::{About, Program};
pub use number::duration;

/// Makes `dir` where it is missing, and looks that a report can be written there: before hours are
/// spent on one.
///
/// # Errors
/// Where it can not.
pub fn prepare(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let probe = dir.join(".storm-lab");
    fs::write(&probe, "")?;
    Ok(fs::remove_file(&probe)?)
}

/// Writes the report into `dir`, which [`prepare`] made.
///
/// # Errors
/// Where a file cannot be written.
pub fn write(dir: &Path, findings: &[Findings], about: &About) -> Result<()> {
    let file = |name: &str, content: &str| {
        let path = dir.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())
    };
    for found in findings {
        for shown in found.pictures() {
            if let Some(picture) = chart::chart(&shown) {
                file(&chart_name(&shown), &picture)?;
            }
        }
        for sweep in &found.sweeps {
            if let Some(picture) = sweep::chart(sweep) {
                file(&sweep_name(found, sweep), &picture)?;
            }
        }
    }
    let whole = Whole {
        about,
        holds: findings.iter().all(Findings::hold),
        not_judged: findings.iter().map(|it| it.count(Verdict::NotJudged)).sum(),
        scenarios: findings,
    };
    file("report.json", &serde_json::to_string_pretty(&whole)?)?;
    file("report.md", &markdown::report(findings, about))
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
