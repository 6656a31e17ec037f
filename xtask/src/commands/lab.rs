//! `cargo xtask lab`: storms without and with the governor, and a report of what they showed.

use std::process::ExitCode;

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
    if args.list {
        // As any user, and without the kernel programs.
        let list = [
            "run",
            "--quiet",
            "--package",
            "governor-lab",
            "--",
            "--list",
        ];
        return Ok(run::exit_code(cargo().args(list).args(&args.scenarios))?.into());
    }
    setup::ensure(Purpose::Lab)?.build()?;
    run::run(cargo().args(["build", "--workspace"]))?;
    let target = tree::root().join("target");
    let mut lab = run::as_root(&target.join("debug/storm-lab").display().to_string())?;
    lab.args(&args.scenarios)
        .args(args.full.then_some("--full"))
        .arg("--out")
        .arg(target.join("lab"));
    let code = run::exit_code(&mut lab)?;
    if run::user()? == User::Other {
        super::test::give_back_target()?;
    }
    Ok(code.into())
}
