//! `cargo xtask bench`: what the kernel programs cost, as a table and as JSON.
//!
//! It reports; it never fails for a figure. Run it on a quiet machine.

use anyhow::Result;

use super::setup::{self, Purpose};
use crate::{
    run::{self, cargo},
    tree,
};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Fewer rounds and pairs: half a minute, wide intervals
    #[arg(long)]
    quick: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
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
