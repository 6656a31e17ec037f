//! `retry-governor gain`: how far retries multiply, and whether a capacity bears it.

use clap::Args;

use super::output::print;
use crate::client::{Client, Socket, block_on};
use crate::errors::{Exit, Failure, Result};
use crate::gain::{self, Capacity, Gain};
use crate::policy::units::GoDuration;

/// Show how far retries multiply, and whether a capacity bears it
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor gain
  retry-governor gain --destination auth --capacity 1000
  retry-governor gain --json | jq .destinations[0].worstCase

Three layers that each try 3 times make 27 attempts of one operation. Rates are
measured while the command waits. A destination is cold right after a start,
with empty caches and pools: it can do --cold percent of its capacity.")]
pub struct GainArgs {
    /// Only this destination: its name, or ip:port
    #[arg(long, value_name = "D")]
    destination: Option<String>,
    /// What the destination can do, per second
    #[arg(long, value_name = "N", value_parser = capacity)]
    capacity: Option<f64>,
    /// Percent of the capacity that is left while cold
    #[arg(long, value_name = "PERCENT", default_value = "20", value_parser = percent, requires = "capacity")]
    cold: f64,
    /// How long to measure rates, 100ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = super::lasting)]
    over: GoDuration,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

/// Runs it.
pub fn run(args: &GainArgs) -> Result<()> {
    let seconds = args.over.nanos() as f64 / 1e9;
    let path = format!("/v1/gain?seconds={seconds}");
    let mut shown: Gain =
        block_on(async { Client::connect(&args.socket).await?.get(&path).await })?;
    if let Some(wanted) = &args.destination {
        shown
            .destinations
            .retain(|d| d.destination == *wanted || d.addresses.contains(wanted));
        if shown.destinations.is_empty() {
            return Err(
                Failure::failed(format!("destination {wanted}"), "nobody has called it")
                    .hint("`retry-governor gain` lists those that were called"),
            );
        }
    }
    if let Some(warm) = args.capacity {
        if let [_, _, ..] = shown.destinations.as_slice() {
            let why = format!(
                "whose? {} destinations were called",
                shown.destinations.len()
            );
            return Err(
                Failure::new(Exit::Usage, "--capacity", why).hint("name one with --destination")
            );
        }
        let capacity = Capacity {
            warm,
            cold_percent: args.cold,
        };
        for destination in &mut shown.destinations {
            destination.survival = Some(gain::judge(destination, capacity));
        }
    }
    let text = match args.json {
        true => serde_json::to_string(&shown).map_err(anyhow::Error::from)? + "\n",
        false => gain::table(&shown),
    };
    print(&text)
}

fn capacity(text: &str) -> Result<f64, String> {
    positive(text).ok_or_else(|| "write it as a number per second, like 1000".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    positive(text)
        .filter(|percent| *percent <= 100.0)
        .ok_or_else(|| "write it as a percentage, above 0 and up to 100".to_owned())
}

fn positive(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
}
