//! The command line: one enum, one type per command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{exec, policy};
use crate::errors::Failure;

/// Keep retries of legacy services from becoming the outage
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 80,
    after_help = "Examples:
  retry-governor exec -- curl --retry 10 http://auth.internal:8080/
  retry-governor policy default > policy.yaml
  retry-governor policy check policy.yaml

Exit codes: 0 ok, 1 failed, 2 usage or invalid policy, 3 no daemon,
4 missing kernel feature or privilege."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command with its retries governed
    Exec(exec::ExecArgs),
    /// Check, show or start policies
    Policy(policy::PolicyArgs),
}

/// Runs what the command line asks for.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Exec(args) => exec::run(&args),
        Command::Policy(args) => policy::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|failure: Failure| {
        eprintln!("{failure}");
        ExitCode::from(failure.exit as u8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_every_command_shows_an_example() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
