//! `retry-governor breaker`: hold the breakers of a destination.

use clap::{Args, ValueEnum};

use super::lasting;
use super::output::print;
use crate::client::{Client, Socket, block_on, segment};
use crate::daemon::operators::Answer;
use crate::daemon::orders::{Breakers, Hold};
use crate::errors::{Exit, Failure, Result};
use crate::policy::units::GoDuration;

/// Hold the breakers of a destination open or closed
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor breaker open auth --for 5m
  retry-governor breaker auto auth")]
pub struct BreakerArgs {
    /// What to do
    action: Action,
    /// A name of `status`, or ip:port. All of a destination is held: an ip:port that belongs to
    /// one stands for every address of it
    destination: String,
    /// How long it is held, at most 24h [default: 15m]
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasting: Option<GoDuration>,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Refuse everything
    Open,
    /// Let the breaker refuse nothing
    Close,
    /// Let it work by itself
    Auto,
}

/// Runs it.
pub fn run(args: &BreakerArgs) -> Result<()> {
    let state = match args.action {
        Action::Auto if args.lasting.is_some() => {
            return Err(Failure::new(
                Exit::Usage,
                "--for",
                "`breaker auto` has no end",
            ));
        }
        Action::Open => Hold::Open,
        Action::Close => Hold::Closed,
        Action::Auto => Hold::Auto,
    };
    let order = Breakers {
        state,
        lasting: args.lasting,
    };
    let path = format!("/v1/breakers/{}", segment(&args.destination));
    block_on(async {
        let answer: Answer = Client::connect(&args.socket)
            .await?
            .put(&path, &order)
            .await?;
        print(&(answer.message + "\n"))
    })
}
