//! The retry governor: command line and daemon.

mod cgroup;
mod cli;
mod client;
mod commands;
mod daemon;
mod errors;
mod foreground;
mod gain;
mod interfaces;
mod kernel;
mod policy;
mod printable;
mod status;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
