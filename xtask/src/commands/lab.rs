//! `cargo xtask lab`: storms without and with the governor, and a report of what they showed.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::Result;

use super::setup::{self, Purpose};
use crate::{
    run::{self, User, cargo},
    tree,
};

/// Arguments of `lab`.
#[derive(clap::Args)]
pub struct Args {
    /// Scenarios to play [default: all]
    scenarios: Vec<String>,
    /// At full length, with whole sweeps: about 40 minutes
    #[arg(long)]
    full: bool,
    /// Name the scenarios and play none
    #[arg(long)]
    list: bool,
}

/// Runs the command; ends as storm-lab does, which has said why.
pub fn run(args: &Args) -> Result<ExitCode> {
    // Before anything that takes minutes.
    if args.list || !args.scenarios.is_empty() {
        let code = list(&args.scenarios)?;
        if args.list || code != 0 {
            return Ok(code.into());
        }
    }
    setup::ensure(Purpose::Lab)?.build()?;
    run::run(cargo().args(["build", "--workspace"]))?;
    let mut lab = run::as_root(&storm_lab().display().to_string())?;
    lab.args(&args.scenarios)
        .args(args.full.then_some("--full"))
        .arg("--out")
        .arg(tree::root().join("target/lab"));
    let code = run::exit_code(&mut lab)?;
    if run::user()? == User::Other {
        super::test::give_back_target()?;
    }
    Ok(code.into())
}

/// Names these scenarios, or says which there is not; as any user, and without the kernel programs.
fn list(scenarios: &[String]) -> Result<u8> {
    // Of the workspace, so that it is the one that plays: nothing is built twice.
    run::run(cargo().args(["build", "--quiet", "--workspace", "--bin", "storm-lab"]))?;
    run::exit_code(Command::new(storm_lab()).arg("--list").args(scenarios))
}

fn storm_lab() -> PathBuf {
    tree::root().join("target/debug/storm-lab")
}
