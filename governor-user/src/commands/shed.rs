//! `retry-governor shed`: refuse a share of attempts in an emergency.

use std::str::FromStr;

use clap::Args;

use super::lasting;
use super::output::print;
use crate::client::{Client, Socket, block_on};
use crate::daemon::operators::Answer;
use crate::daemon::orders::Shed;
use crate::errors::{Exit, Failure, Result};
use crate::policy::units::GoDuration;

/// Refuse a share of attempts in an emergency
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor shed 30 --destination auth --for 10m
  retry-governor shed 100 --retries-only --workload /a.service --for 5m
  retry-governor shed off")]
pub struct ShedArgs {
    /// Percent of attempts to refuse, or `off`
    #[arg(value_name = "PERCENT|off")]
    share: Share,
    /// Only attempts to this destination: a name of `status`, or ip:port
    #[arg(long, value_name = "D")]
    destination: Option<String>,
    /// Only attempts of this workload: its cgroup path
    #[arg(long, value_name = "W")]
    workload: Option<String>,
    /// Refuse retries only
    #[arg(long)]
    retries_only: bool,
    /// How long, at most 24h; needed with a percentage
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasting: Option<GoDuration>,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    Off,
    Percent(f64),
}

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            _ => match text.strip_suffix('%').unwrap_or(text).parse() {
                Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
                _ => Err("a percentage from 0.01 to 100, or off, is wanted"),
            },
        }
    }
}

/// Runs it.
pub fn run(args: &ShedArgs) -> Result<()> {
    let percent = match args.share {
        Share::Percent(_) if args.lasting.is_none() => {
            return Err(
                Failure::new(Exit::Usage, "--for", "shedding needs an end").hint("add --for 10m")
            );
        }
        Share::Off if args.lasting.is_some() || args.retries_only => {
            return Err(Failure::new(
                Exit::Usage,
                "shed off",
                "it takes no --for and no --retries-only",
            ));
        }
        Share::Percent(percent) => percent,
        Share::Off => 0.0,
    };
    let order = Shed {
        percent,
        destination: args.destination.clone(),
        workload: args.workload.clone(),
        retries_only: args.retries_only,
        lasting: args.lasting,
    };
    block_on(async {
        let answer: Answer = Client::connect(&args.socket)
            .await?
            .put("/v1/shed", &order)
            .await?;
        print(&(answer.message + "\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_off() {
        assert_eq!("off".parse(), Ok(Share::Off));
        assert_eq!("30".parse(), Ok(Share::Percent(30.0)));
        assert_eq!("2.5%".parse(), Ok(Share::Percent(2.5)));
        for wrong in ["0", "101", "-1", "nan", "all", ""] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
