//! The command line: one enum, one type per command.

use std::process::ExitCode;

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
use clap::{Parser, Subcommand};

use crate::commands::{
    breaker, detach, doctor, events, exec, gain, policy, retries, run, shed, status,
};
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
    Exec(exec::ExecArgs),
    /// Check, show or start policies
    Policy(policy::PolicyArgs),
    /// Govern the retries of a whole node: the daemon
    Run(run::RunArgs),
    /// Show destinations, budgets and breakers
    Status(status::StatusArgs),
    /// Show how far retries multiply, and whether a capacity bears it
    Gain(gain::GainArgs),
    /// Show denials, breaker moves, policy changes and orders
    Events(events::EventsArgs),
    /// Stop retries in an emergency, and let them return
    Retries(retries::RetriesArgs),
    /// Refuse a share of attempts in an emergency
    Shed(shed::ShedArgs),
    /// Hold the breakers of a destination open or closed
    Breaker(breaker::BreakerArgs),
    /// Say what this machine has and lacks
    Doctor(doctor::DoctorArgs),
    /// Remove every program, link and pin of ours
    Detach(detach::DetachArgs),
}

/// Runs what the command line asks for.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let result = match cli.command {
        Command::Exec(args) => exec::run(&args),
        Command::Policy(args) => policy::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Run(args) => run::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Status(args) => status::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Gain(args) => gain::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Events(args) => events::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Retries(args) => retries::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Shed(args) => shed::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Breaker(args) => breaker::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(&args),
        Command::Detach(args) => detach::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|failure: Failure| {
        eprintln!("{failure}");
        ExitCode::from(failure.exit as u8)
    })
}

/// Help and version as clap has them; a mistake as one line, as every error.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader that has gone is no error.
        let _ = error.print();
    } else {
        eprintln!("{}", one_line(&error.render().to_string()));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// clap's first paragraph, with its tip, if it has one, as the hint.
fn one_line(rendered: &str) -> String {
    let join = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n").map(join);
    let what = paragraphs.next().unwrap_or_default();
    let tips = paragraphs
        .find(|text| text.starts_with("tip: "))
        .unwrap_or_default();
    let tip = tips
        .split("tip: ")
        .map(str::trim)
        .find(|tip| !tip.is_empty());
    format!("{what} ({})", tip.unwrap_or("see --help"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn wrong_usage_is_one_line_with_a_hint() {
        let line = |arguments: &[&str]| {
            let error = Cli::try_parse_from(arguments).expect_err("wrong usage");
            one_line(&error.render().to_string())
        };
        assert_eq!(
            line(&["retry-governor", "exec"]),
            "error: the following required arguments were not provided: <CMD>... (see --help)"
        );
        let line = line(&["retry-governor", "exec", "--mod", "Audit", "--", "true"]);
        assert_eq!(
            line,
            "error: unexpected argument '--mod' found (a similar argument exists: '--mode')"
        );
    }

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
