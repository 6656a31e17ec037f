//! `storm-lab`: plays the scenarios and writes the report. `cargo xtask lab` starts it as root.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use clap::Parser;
use governor_lab::peers::{self, proxy::PROGRAMS};
use governor_lab::progress::Progress;
use governor_lab::report::{self, About, Program};
use governor_lab::scenario::{Length, Scenario};
use governor_lab::stage::STOP;

/// Plays storms without and with the governor, on real sockets and the real kernel, in network
/// namespaces and cgroups of its own, and writes what they showed.
/// Ends with 1 where a claim does not hold.
#[derive(Parser)]
struct Cli {
    /// Scenarios to play [default: all]
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

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let length = match (cli.fast, cli.full) {
        (true, _) => Length::Fast,
        (_, true) => Length::Full,
        _ => Length::Usual,
    };
    let (program, all) = match &cli.peers {
        Some(programs) => {
            // Set once, here.
            let _ = PROGRAMS.set(programs.clone());
            (Program::Peers, peers::ALL)
        }
        None => (Program::Lab, Scenario::ALL),
    };
    let chosen: Vec<_> = all
        .iter()
        .filter(|it| cli.scenarios.is_empty() || cli.scenarios.contains(&it.name))
        .collect();
    if cli.list {
        for scenario in chosen {
            println!("{:18} {}", scenario.name, scenario.title);
        }
        return Ok(ExitCode::SUCCESS);
    }
    governor_tests::preflight::require_kernel();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&STOP)).context("signals")?;
    }
    let progress = Progress::new(chosen.iter().map(|it| (it.name, (it.seconds)(length))));
    let mut findings = Vec::new();
    for scenario in chosen {
        let found = progress.scenario(scenario.name, || scenario.run(length, &progress));
        if STOP.load(Ordering::Relaxed) {
            bail!("stopped (nothing is left behind; no report is written)");
        }
        progress.say(&found);
        findings.push(found);
        // After each: a lab that is stopped has shown something.
        report::write(&cli.out, &findings, &About::this_run(program, length))?;
    }
    println!("report: {}", cli.out.join("report.md").display());
    Ok(if findings.iter().all(|it| it.hold()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
