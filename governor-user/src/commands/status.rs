//! `retry-governor status`: what the daemon sees and does.

use clap::Args;

use super::output::print;
use crate::client::{Client, Socket, block_on};
use crate::daemon::orderlist::OrderShown;
use crate::errors::{Failure, Result};
use crate::status::{self, Status};

/// Show destinations, budgets and breakers
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor status
  retry-governor status auth --json | jq .destinations[0].denied")]
pub struct StatusArgs {
    /// Only this destination: its name, or ip:port
    destination: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

/// Runs it.
pub fn run(args: &StatusArgs) -> Result<()> {
    let mut shown: Status =
        block_on(async { Client::connect(&args.socket).await?.get("/v1/status").await })?;
    if let Some(wanted) = &args.destination {
        shown
            .destinations
            .retain(|d| d.destination == *wanted || d.addresses.contains(wanted));
        let named: Vec<_> = shown.destinations.iter().map(|d| &d.destination).collect();
        let concerns = |destination: &Option<String>| {
            destination
                .as_ref()
                .is_none_or(|name| name == wanted || named.contains(&name))
        };
        shown.orders.retain(|order| concerns(&order.destination));
        let ordered = |order: &OrderShown| order.destination.as_ref() == Some(wanted);
        if shown.destinations.is_empty() && !shown.orders.iter().any(ordered) {
            return Err(
                Failure::failed(format!("destination {wanted}"), "nobody has called it")
                    .hint("`retry-governor status` lists those that were called"),
            );
        }
    }
    let text = match (args.json, &args.destination) {
        (true, _) => serde_json::to_string(&shown).map_err(anyhow::Error::from)? + "\n",
        (false, None) => status::table(&shown),
        (false, Some(_)) => status::table(&shown) + &status::detail(&shown),
    };
    print(&text)
}
