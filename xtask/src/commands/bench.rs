//! `cargo xtask bench`: what the kernel programs cost, as a table and as JSON; `bench peers`: the
//! governor beside proxies.
//!
//! It reports; it never fails for a figure. Run it on a quiet machine.

use std::process::ExitCode;

use anyhow::Result;

use super::setup::{self, Purpose};
use crate::{
    peers,
    run::{self, cargo},
    tree,
};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub struct Args {
    /// What to measure [default: what the kernel programs cost]
    #[arg(value_enum)]
    what: Option<What>,
    /// Fewer rounds and pairs: half a minute, wide intervals
    #[arg(long)]
    quick: bool,
}

/// What there is besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Storms and healthy traffic through Envoy, HAProxy, nginx, the governor and nothing
    Peers,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    match args.what {
        Some(What::Peers) => peers::run(args.quick),
        None => programs(args).map(|()| ExitCode::SUCCESS),
    }
}

fn programs(args: &Args) -> Result<()> {
    let object = setup::ensure(Purpose::Bench)?.build()?;
    run::run(cargo().args(["build", "--package", "governor-tests", "--bin", "bench"]))?;
    let target = tree::root().join("target");
    let reports = target.join("bench");
    std::fs::create_dir_all(&reports)?;
    let json = reports.join("report.json");
    let mut bench = run::as_root(&target.join("debug/bench").display().to_string())?;
    bench.arg("run").arg("--object").arg(object);
    bench.arg("--json").arg(&json);
    run::run(bench.args(args.quick.then_some("--quick")))?;
    eprintln!(
        "bench: figures in {}; what they mean: docs/cost.md",
        json.display()
    );
    Ok(())
}
