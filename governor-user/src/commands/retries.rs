//! `retry-governor retries`: the emergency switch.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};

use super::lasting;
use super::output::print;
use crate::client::{Client, Socket, block_on};
use crate::daemon::operators::Answer;
use crate::daemon::orderlist::{OrderList, OrderShown};
use crate::daemon::orders::{Retries, RetriesState, USUAL};
use crate::errors::{Exit, Failure, Result};
use crate::policy::units::GoDuration;

/// Stop retries in an emergency, and let them return
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor retries off --destination auth --for 10m
  retry-governor retries status

When `off` ends, retries return in stages: 10, 25, 50, then 100 percent, a minute each.")]
pub struct RetriesArgs {
    /// What to do
    action: Action,
    /// Only for this destination: a name of `status`, or ip:port
    #[arg(long, value_name = "D")]
    destination: Option<String>,
    /// How long `off` lasts, at most 24h [default: 15m]
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasting: Option<GoDuration>,
    /// Do not ask before switching off retries of the whole node
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Admit no retries
    Off,
    /// Admit retries as the policy says, at once
    On,
    /// Show what is ordered
    Status,
}

/// Runs it.
pub fn run(args: &RetriesArgs) -> Result<()> {
    if args.lasting.is_some() && args.action != Action::Off {
        return Err(Failure::new(
            Exit::Usage,
            "--for",
            "only `retries off` has an end",
        ));
    }
    let state = match args.action {
        Action::Status => return block_on(status(args)),
        Action::On => RetriesState::Enabled,
        Action::Off => RetriesState::Disabled,
    };
    if args.action == Action::Off && args.destination.is_none() && !args.yes {
        confirm(args.lasting.unwrap_or(USUAL))?;
    }
    let order = Retries {
        state,
        destination: args.destination.clone(),
        lasting: args.lasting,
        stages: None,
        every: None,
    };
    block_on(async {
        let answer: Answer = Client::connect(&args.socket)
            .await?
            .put("/v1/retries", &order)
            .await?;
        print(&(answer.message + "\n"))
    })
}

fn confirm(lasting: GoDuration) -> Result<()> {
    let refused = |why| Failure::new(Exit::Usage, "retries off", why);
    if !io::stdin().is_terminal() {
        return Err(refused("it concerns every destination of this node")
            .hint("add --yes, or name a --destination"));
    }
    eprint!("Refuse the retries of every destination on this node for {lasting}? [y/N] ");
    let mut answer = String::new();
    let asked = io::stderr()
        .flush()
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(|error| Failure::failed("ask", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(refused("not confirmed").hint("nothing was changed")),
    }
}

async fn status(args: &RetriesArgs) -> Result<()> {
    let list: OrderList = Client::connect(&args.socket)
        .await?
        .get("/v1/orders")
        .await?;
    let wanted = |order: &&OrderShown| {
        let destination = args.destination.as_deref();
        destination.is_none_or(|wanted| order.destination.as_deref() == Some(wanted))
    };
    let orders: Vec<_> = list.orders.iter().filter(wanted).collect();
    let mut text: String = orders
        .iter()
        .filter_map(|order| Some(order.retries_in_words()? + "\n"))
        .collect();
    if text.is_empty() {
        text.push_str("retries are enabled: nothing is ordered about them\n");
        if !orders.is_empty() {
            text.push_str("other orders are in force: see `retry-governor status`\n");
        }
    }
    print(&text)
}
