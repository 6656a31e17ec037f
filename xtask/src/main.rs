//! `cargo xtask COMMAND`: everything a developer of the retry governor types.
//!
//! One file per command under `commands/`; each starts with the set-up it needs,
//! so that any command works on a fresh machine.

mod apt;
mod commands;
mod needs;
mod run;
mod steps;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{build, setup, test};

/// Developer commands of the retry governor
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find or install what building and testing need; asks for root only where it must
    Setup(setup::Args),
    /// Build everything, the kernel programs included
    Build(build::Args),
    /// Format check, lints, docs, and every test (kernel tests as root)
    Test(test::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Test(args) => test::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}
