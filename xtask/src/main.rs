//! `cargo xtask COMMAND`: everything a developer of the retry governor types.
//!
//! One file per command under `commands/`; each starts with the set-up it needs,
//! so that any command works on a fresh machine.

mod apt;
mod clients;
mod commands;
mod debs;
mod demo;
mod needs;
mod peers;
mod run;
mod steps;
mod tree;
mod vm;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use commands::{bench, build, demo as demo_command, lab, setup, test, vmtest};

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
    /// The product with its defaults on a machine of its own: Debian 12's kernel 6.1, emulated
    Vmtest(vmtest::Args),
    /// Measure what the kernel programs cost; reports, judges nothing
    Bench(bench::Args),
    /// Play storms without and with the governor, and report what they showed
    Lab(lab::Args),
    /// Show a retry storm without and with the governor, on real traffic
    Demo(demo_command::Args),
    /// The part of the demo that runs as root
    #[command(hide = true)]
    DemoStage(demo_command::StageArgs),
}

fn main() -> ExitCode {
    carry_out(Cli::parse().command).unwrap_or_else(|why| {
        eprintln!("error: {why:#}");
        ExitCode::FAILURE
    })
}

fn carry_out(command: Command) -> Result<ExitCode> {
    match command {
        Command::Setup(args) => setup::run(&args)?,
        Command::Build(args) => build::run(&args)?,
        Command::Test(args) => test::run(&args)?,
        Command::Vmtest(args) => vmtest::run(&args)?,
        Command::Bench(args) => return bench::run(&args),
        Command::Lab(args) => return lab::run(&args),
        Command::Demo(args) => return Ok(demo_command::run(&args)),
        Command::DemoStage(args) => return Ok(demo_command::stage(&args)),
    }
    Ok(ExitCode::SUCCESS)
}
