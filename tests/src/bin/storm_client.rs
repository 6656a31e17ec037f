//! `storm-client`: a real caller for tests, demo and benchmarks. See `governor_tests::storm`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use governor_tests::dial;
use governor_tests::storm::crowd::{self, Crowd};
use governor_tests::storm::exchange::Target;
use governor_tests::storm::fleet::{self, Fleet};
use governor_tests::storm::keepalive::{self, Connections};
use governor_tests::storm::open_loop::{self, Load};
use governor_tests::storm::remote;
use governor_tests::storm::report::{Report, monotonic_micros};
use governor_tests::storm::requests::{self, Callers};
use governor_tests::storm::retry::{self, RetryPolicy};
use tokio::runtime::{self, Runtime};

/// Calls a server and tries again; prints one line of JSON per try and a summary.
/// Ends with 0 whatever became of the tries.
///
/// Example: storm-client fleet --processes 200 -- tries 127.0.0.1:8080 --tries 4
#[derive(Parser)]
struct Cli {
    /// End of the load; never more than an hour.
    #[arg(long = "for", global = true, value_name = "DURATION", default_value = "60s", value_parser = bounded)]
    length: Duration,
    /// Most operations to start.
    #[arg(long, global = true, value_name = "N", default_value = "1000000")]
    count: u64,
    /// Only the tries, no summary line.
    #[arg(long, global = true)]
    no_summary: bool,
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// One operation: tries until one succeeds.
    Tries {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        policy: RetryPolicy,
    },
    /// Operations at a fixed rate, each with its tries.
    Loop {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        policy: RetryPolicy,
        #[command(flatten)]
        load: Load,
    },
    /// An open loop: operations start when they are due, whatever became of those before.
    Crowd {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        crowd: Crowd,
    },
    /// Connections opened at once and held to the end.
    Pool {
        #[command(flatten)]
        target: Target,
        /// Connections opened at once.
        #[arg(long, default_value = "50", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        connections: u32,
    },
    /// Exchanges on connections that stay open; redials those that the server closed in a rest.
    Keepalive {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        connections: Connections,
    },
    /// HTTP operations with retries, each caller on a connection that it keeps.
    Requests {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        policy: RetryPolicy,
        #[command(flatten)]
        callers: Callers,
    },
    /// Requests whose answers are far away.
    Longpoll {
        #[command(flatten)]
        target: Target,
        /// Connections, each with a poll outstanding.
        #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        connections: u32,
        /// Polls on each, one after the other.
        #[arg(long, default_value = "1")]
        rounds: u32,
        /// Patience with an answer.
        #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = humantime::parse_duration)]
        patience: Duration,
    },
    /// Short-lived processes, each with a mode of its own.
    Fleet(Fleet),
    /// Connects to the addresses that it reads from a socket, and hands the connections over.
    Dial {
        /// The Unix socket.
        door: PathBuf,
    },
    /// Obeys commands on standard input.
    Remote {
        #[command(flatten)]
        target: Target,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = match cli.mode {
        Mode::Tries { target, policy } => tries(&runtime, &target, &policy, cli.length)?,
        Mode::Loop {
            target,
            policy,
            load,
        } => open_loop::run(&target, &policy, &load, cli.length, cli.count)?,
        Mode::Crowd { target, crowd } => {
            runtime.block_on(crowd::run(target, crowd, cli.length, cli.count))?
        }
        Mode::Pool {
            target,
            connections,
        } => {
            let held = Connections {
                connections,
                exchanges: 0,
                gap: Duration::ZERO,
                half_close: false,
            };
            runtime.block_on(keepalive::run(target, held, cli.length))?
        }
        Mode::Keepalive {
            target,
            connections,
        } => runtime.block_on(keepalive::run(target, connections, cli.length))?,
        Mode::Requests {
            target,
            policy,
            callers,
        } => runtime.block_on(requests::run(target, policy, callers, cli.length))?,
        Mode::Longpoll {
            target,
            connections,
            rounds,
            patience,
        } => {
            let (target, connections) = keepalive::long_poll(target, connections, rounds, patience);
            runtime.block_on(keepalive::run(target, connections, cli.length))?
        }
        Mode::Fleet(fleet) => fleet::run(&fleet, cli.length)?,
        Mode::Dial { door } => return dial::serve(&door),
        Mode::Remote { target } => return remote::run(&target, &runtime),
    };
    if !cli.no_summary {
        report.print_summary()?;
    }
    Ok(())
}

fn tries(
    runtime: &Runtime,
    target: &Target,
    policy: &RetryPolicy,
    length: Duration,
) -> Result<Report> {
    let until = monotonic_micros() + length.as_micros() as u64;
    Ok(runtime.block_on(retry::operation(target, policy, 0, until))?)
}

fn bounded(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(length) if length <= Duration::from_secs(3600) => Ok(length),
        Ok(_) => Err("at most 1h".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_crowd_needs_a_rate_or_a_herd() {
        let crowd = |rest: &[&str]| {
            let words = ["storm-client", "crowd", "127.0.0.1:80"];
            Cli::try_parse_from(words.iter().chain(rest))
        };
        assert!(crowd(&[]).is_err());
        assert!(crowd(&["--rate", "10"]).is_ok());
        assert!(crowd(&["--at-once", "10", "--at", "1s"]).is_ok());
        assert!(crowd(&["--rate", "10", "--at", "1s"]).is_err());
    }
}
