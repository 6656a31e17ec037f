//! `cargo xtask demo`: the storm, without and with the governor, on real traffic.
//!
//! All of it happens in a network namespace and a cgroup of its own. Only that part
//! runs as root ([`stage`]); what it measures, this one draws.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
};

use anyhow::{Context, Result, bail};

use super::setup::{self, Purpose};
use crate::{
    demo::{
        self,
        record::{Plan, Run},
        table::{self, Verdict},
        view::Style,
    },
    run::{self, User, cargo},
    tree,
};

/// Below `target/`: the record, the governor's own summary, the chart.
const DIRECTORY: &str = "demo";

/// Arguments of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Also write the chart here
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Run nothing: table and chart of the last run
    #[arg(long)]
    redraw: bool,
}

/// Arguments of root's half.
#[derive(clap::Args)]
pub struct StageArgs {
    #[arg(long)]
    view: Style,
    #[arg(long)]
    record: PathBuf,
    #[arg(long)]
    summary: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    code(try_run(args))
}

/// Runs root's half.
pub fn stage(args: &StageArgs) -> ExitCode {
    code(try_stage(args).map(|()| ExitCode::SUCCESS))
}

fn code(ended: Result<ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|why| {
        eprintln!("error: {why:#}");
        ExitCode::FAILURE
    })
}

fn try_stage(args: &StageArgs) -> Result<()> {
    let run = demo::play(args.view, &args.summary)?;
    let record = serde_json::to_string(&run)?;
    fs::write(&args.record, record).with_context(|| args.record.display().to_string())
}

fn try_run(args: &Args) -> Result<ExitCode> {
    let directory = tree::root().join("target").join(DIRECTORY);
    let record = directory.join("run.json");
    if !args.redraw {
        // Asked before the build, which may put a new one in its place.
        let own = std::env::current_exe().context("this program can not be found")?;
        setup::ensure(Purpose::Demo)?.build()?;
        // As `cargo xtask test` builds it: the second of the two finds it done.
        run::run(cargo().args(["build", "--workspace"]))?;
        fs::create_dir_all(&directory)?;
        let played = play(&own, &record, &directory.join("governor.json"))?;
        if !played.success() {
            // Root's half has said why.
            return Ok(ExitCode::FAILURE);
        }
    }
    let text = fs::read_to_string(&record)
        .with_context(|| format!("{} (cargo xtask demo)", record.display()))?;
    let run: Run = serde_json::from_str(&text)
        .with_context(|| format!("{} (cargo xtask demo)", record.display()))?;
    tell(&run, &directory.join("storm.svg"), args.save.as_deref())
}

/// Starts root's half and waits for its end.
fn play(own: &Path, record: &Path, summary: &Path) -> Result<ExitStatus> {
    // Made by the user, so that they stay the user's.
    for file in [record, summary] {
        fs::write(file, "").with_context(|| file.display().to_string())?;
    }
    let Plan {
        capacity,
        healthy,
        stall,
        ..
    } = Plan::STORM;
    println!(
        "\nA service answers {} requests a second, from one queue. Callers that know\n\
         nothing of the governor ask for 80 % of that; they wait a second for an answer\n\
         and retry three times. After {} s the service stalls for {} s. This is played\n\
         twice, 70 s in all, in a network namespace and a cgroup of its own.",
        capacity.0, healthy.0, stall.0,
    );
    if run::user()? == User::Other {
        if run::which("sudo").is_none() {
            bail!("loading kernel programs needs root: no sudo here (run it as root)");
        }
        println!("Root is needed for this part: kernel programs are loaded.");
    }
    // From here on a Ctrl-C is the other half's affair; this one waits for its end.
    let _stop = demo::stop_on_signals()?;
    run::as_root(&own.display().to_string())?
        .arg("demo-stage")
        .args(["--view", view_name(Style::fitting())])
        .arg("--record")
        .arg(record)
        .arg("--summary")
        .arg(summary)
        .status()
        .context("root's half does not start")
}

fn view_name(style: Style) -> &'static str {
    match style {
        Style::Live => "live",
        Style::Lines => "lines",
    }
}

/// Table, chart, verdict.
fn tell(run: &Run, svg: &Path, save: Option<&Path>) -> Result<ExitCode> {
    println!("\n{}", table::table(run));
    let (words, verdict) = table::verdict(run);
    print!("{words}");
    let chart = demo::chart::chart(run);
    for file in [Some(svg), save].into_iter().flatten() {
        fs::write(file, &chart).with_context(|| file.display().to_string())?;
        println!(
            "Chart: {}",
            file.strip_prefix(tree::root()).unwrap_or(file).display()
        );
    }
    Ok(match verdict {
        Verdict::Good => ExitCode::SUCCESS,
        Verdict::Worse(why) => {
            eprintln!("error: the governor made it worse: {why}");
            ExitCode::FAILURE
        }
    })
}
