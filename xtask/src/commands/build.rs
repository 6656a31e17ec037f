//! `cargo xtask build`: the whole workspace, the kernel programs included.

use anyhow::Result;

use super::setup::{self, Purpose};
use crate::run::{self, cargo};

/// Arguments of `build`.
#[derive(clap::Args)]
pub struct Args {
    /// Optimised, as it is shipped
    #[arg(long)]
    release: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    // First by itself: inside `cargo build` its progress would be hidden.
    setup::ensure(Purpose::Build)?.build()?;
    let profile = args.release.then_some("--release");
    run::run(cargo().args(["build", "--workspace"]).args(profile))
}
