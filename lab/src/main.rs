//! `storm-lab`: plays the scenarios and writes the report. `cargo xtask lab` starts it as root.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Error, Result, anyhow};
use clap::Parser;
use governor_lab::peers::{self, proxy};
use governor_lab::progress::Progress;
use governor_lab::report::{self, About, Directory, Program};
use governor_lab::scenario::{Length, Scenario};
use governor_lab::stop;

/// A claim does not hold, or is not judged; or the lab could not go on.
const NOT_SHOWN: u8 = 1;
/// The command line cannot be followed.
const USAGE: u8 = 2;
/// The machine or the user lacks something.
const LACKING: u8 = 4;
/// As shells have it for Ctrl-C.
const STOPPED: u8 = 130;

/// Plays storms without and with the governor, on real sockets and the real kernel, in network
/// namespaces and cgroups of its own, and writes what they showed.
/// Ends with 1 where a claim does not hold or cannot be judged, with 130 where it was stopped.
#[derive(Parser)]
struct Cli {
    /// Scenarios to play [default: all]; their report has a directory of its own below --out
    #[arg(value_parser = named)]
    scenarios: Vec<&'static str>,
    /// At full length, with whole sweeps
    #[arg(long, conflicts_with = "fast")]
    full: bool,
    /// As short as they can be
    #[arg(long)]
    fast: bool,
    /// Name the scenarios and play none
    #[arg(long)]
    list: bool,
    /// Play the storms of the comparison instead, through proxies whose programs are unpacked here
    #[arg(long, value_name = "DIRECTORY")]
    peers: Option<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "DIRECTORY", default_value = "target/lab")]
    out: PathBuf,
}

fn named(name: &str) -> Result<&'static str, String> {
    let all = || Scenario::ALL.iter().chain(peers::ALL);
    let known = || {
        let names: Vec<_> = all().map(|it| it.name).collect();
        format!("no such scenario (known: {})", names.join(", "))
    };
    all()
        .find(|it| it.name == name)
        .map(|it| it.name)
        .ok_or_else(known)
}

/// Why nothing is played, or no further.
struct Failure(u8, Error);

impl From<Error> for Failure {
    fn from(why: Error) -> Self {
        Self(NOT_SHOWN, why)
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(Failure(code, why)) => {
            eprintln!("error: {why:#}");
            ExitCode::from(code)
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    let length = match (cli.fast, cli.full) {
        (true, _) => Length::Fast,
        (_, true) => Length::Full,
        _ => Length::Usual,
    };
    let program = match cli.peers {
        Some(_) => Program::Peers,
        None => Program::Lab,
    };
    let chosen = chosen(program, &cli.scenarios).map_err(|why| Failure(USAGE, why))?;
    if cli.list {
        for scenario in chosen {
            println!("{:18} {}", scenario.name, scenario.title);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<_> = match cli.scenarios.as_slice() {
        [] => Vec::new(),
        _ => chosen.iter().map(|it| it.name).collect(),
    };
    let out = match names.as_slice() {
        [] => cli.out.clone(),
        // The report of the whole lab stays as it is.
        names => cli.out.join(names.join("+")),
    };
    can_play().map_err(|why| Failure(LACKING, why))?;
    if let Some(programs) = &cli.peers {
        proxy::find(programs).map_err(|why| Failure(USAGE, why))?;
    }
    let unwritable = |why: Error| {
        let hint = "name another directory with --out";
        Failure(USAGE, anyhow!("{}: {why:#} ({hint})", out.display()))
    };
    let out = Directory::claim(&out).map_err(unwritable)?;
    stop::on_signals()?;
    play(&chosen, length, &out, |length| {
        About::this_run(program, &names, chosen.len(), length)
    })
}

/// The scenarios that are to be played.
fn chosen(program: Program, names: &[&str]) -> Result<Vec<&'static Scenario>> {
    let all = match program {
        Program::Lab => Scenario::ALL,
        Program::Peers => peers::ALL,
    };
    let stranger = names
        .iter()
        .find(|name| all.iter().all(|it| it.name != **name));
    match (stranger, program) {
        (Some(name), Program::Lab) => Err(anyhow!(
            "{name}: is of the comparison with proxies (call `cargo xtask bench peers`, which plays all of it)"
        )),
        (Some(name), Program::Peers) => Err(anyhow!(
            "{name}: is not of the comparison with proxies (call `cargo xtask lab {name}`)"
        )),
        (None, _) => {
            let is_chosen = |it: &&Scenario| names.is_empty() || names.contains(&it.name);
            Ok(all.iter().filter(is_chosen).collect())
        }
    }
}

/// Looks that the machine can play storms.
fn can_play() -> Result<()> {
    match governor_tests::preflight::missing().as_slice() {
        [] => Ok(()),
        missing => Err(anyhow!(
            "the lab cannot be played here: {} (call `cargo xtask lab`: it installs what it can, and asks sudo)",
            missing.join("; ")
        )),
    }
}

fn play(
    chosen: &[&Scenario],
    length: Length,
    out: &Directory,
    about: impl Fn(Length) -> About,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new(chosen.iter().map(|it| (it.name, (it.seconds)(length))));
    let report = out.file("report.md");
    let mut findings = Vec::new();
    for scenario in chosen {
        let found = progress.scenario(scenario.name, || scenario.run(length, &progress));
        if stop::is_wanted() {
            break;
        }
        progress.say(&found);
        findings.push(found);
        // After each: a lab that is stopped has shown something.
        report::write(out, &findings, &about(length)).context("report")?;
    }
    if stop::is_wanted() {
        stop::over();
        drop(progress);
        let played = match findings.len() {
            0 => "stopped: no scenario was played to its end, no report is written".to_owned(),
            count => format!(
                "stopped after {count} of {} scenarios (report: {})",
                chosen.len(),
                report.display()
            ),
        };
        eprintln!("{played}");
        return Ok(ExitCode::from(STOPPED));
    }
    println!("report: {}", report.display());
    Ok(match findings.iter().all(|it| it.hold()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_SHOWN),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(program: Program, named: &[&str]) -> Vec<&'static str> {
        let chosen = chosen(program, named).expect("all are of it");
        chosen.iter().map(|it| it.name).collect()
    }

    #[test]
    fn what_is_not_of_the_program_is_not_passed_over() {
        assert!(chosen(Program::Lab, &["blip-5s", "peers-overload"]).is_err());
        assert!(chosen(Program::Peers, &["blip-5s"]).is_err());
        assert_eq!(names(Program::Peers, &["peers-blip"]), ["peers-blip"]);
    }

    #[test]
    fn scenarios_are_played_in_the_reports_order() {
        assert_eq!(
            names(Program::Lab, &["fleet", "blip-5s", "fleet"]),
            ["blip-5s", "fleet"]
        );
        assert_eq!(names(Program::Lab, &[]).len(), Scenario::ALL.len());
    }
}
