//! `retry-governor retries`: the emergency switch.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};

use super::lasting;
use super::output::print;
use crate::client::{Client, Socket, block_on, segment};
use crate::daemon::operators::Answer;
use crate::daemon::orderlist::OrderList;
use crate::daemon::orders::{Retries, RetriesState, USUAL};
use crate::errors::{Exit, Failure, Result};
use crate::policy::units::GoDuration;

/// Stop retries in an emergency, and let them return
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor retries off --destination auth --for 10m
  retry-governor retries restore --destination auth --stages 5,20,100 --every 2m
  retry-governor retries status
  retry-governor retries status --json | jq '.orders[] | select(.retries)'

When `off` ends, and from now on with `restore`, retries return in stages: 10, 25, 50, then 100 percent, a minute each. A stage is held while more than 5 percentage points more attempts fail than when it began, and falls back to the one before when that lasts as long as a stage, or is far worse for 5 s; it is held, too, while more than half fail. `restore` keeps the stages that `off` named. Where no destination is named, `off` is for the node, `on` and `restore` are for all that is ordered.")]
pub struct RetriesArgs {
    /// What to do
    action: Action,
    /// Only for this destination: a name of `status`, or ip:port
    #[arg(long, value_name = "D")]
    destination: Option<String>,
    /// How long `off` lasts, at most 24h [default: 15m]
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasting: Option<GoDuration>,
    /// Percent of retries admitted in each stage of the return, rising [default: 10,25,50,100; for `restore` as ordered]
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', value_parser = stage)]
    stages: Option<Vec<u8>>,
    /// How long each stage lasts, 1s to 1h [default: 60s; for `restore` as ordered]
    #[arg(long, value_name = "DURATION", value_parser = lasting)]
    every: Option<GoDuration>,
    /// Hold a stage while so many percentage points more attempts fail than when it began [default: 5; for `restore` as ordered]
    #[arg(long, value_name = "POINTS", value_parser = points)]
    hold_above: Option<f64>,
    /// Do not ask before switching off retries of the whole node
    #[arg(long)]
    yes: bool,
    /// With `status`: as JSON, every order that is in force, as `GET /v1/orders` has them
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Admit no retries
    Off,
    /// Admit retries as the policy says, at once
    On,
    /// Let them return in stages, from now on
    Restore,
    /// Show what is ordered
    Status,
}

/// A stage of `--stages`.
fn stage(text: &str) -> Result<u8, String> {
    let percent = text.trim().parse().ok();
    let percent = percent.filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| "whole percents from 1 to 100 are wanted (10,25,50,100)".to_owned())
}

/// A `--hold-above`.
fn points(text: &str) -> Result<f64, String> {
    let points = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let points = points.filter(|points| (0.0..=100.0).contains(points));
    points.ok_or_else(|| "percentage points from 0 to 100 are wanted".to_owned())
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
    if args.json && args.action != Action::Status {
        return Err(Failure::new(
            Exit::Usage,
            "--json",
            "only `retries status` is told in JSON",
        ));
    }
    let staged = matches!(args.action, Action::Off | Action::Restore);
    let given = [
        ("--stages", args.stages.is_some()),
        ("--every", args.every.is_some()),
        ("--hold-above", args.hold_above.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given && !staged) {
        let why = "only `retries off` and `retries restore` return in stages";
        return Err(Failure::new(Exit::Usage, option, why));
    }
    let state = match args.action {
        Action::Status => return block_on(status(args)),
        Action::On => RetriesState::Enabled,
        Action::Off => RetriesState::Disabled,
        Action::Restore => RetriesState::Restoring,
    };
    if args.action == Action::Off && args.destination.is_none() && !args.yes {
        confirm(args.lasting.unwrap_or(USUAL))?;
    }
    let order = Retries {
        state,
        destination: args.destination.clone(),
        lasting: args.lasting,
        stages: args.stages.clone(),
        every: args.every,
        hold_above: args.hold_above,
    };
    block_on(async {
        let answer: Answer = Client::connect(&args.socket)
            .await?
            .put("/v1/retries", &order)
            .await?;
        print(&(answer.message + "\n"))?;
        match (answer.still, &args.destination) {
            (Some(still), Some(destination)) => {
                Err(Failure::failed(format!("retries to {destination}"), still))
            }
            _ => Ok(()),
        }
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
    let path = match &args.destination {
        None => "/v1/orders".to_owned(),
        Some(name) => format!("/v1/orders?destination={}", segment(name)),
    };
    let list: OrderList = Client::connect(&args.socket).await?.get(&path).await?;
    if args.json {
        return print(&(serde_json::to_string(&list).map_err(anyhow::Error::from)? + "\n"));
    }
    let OrderList { orders } = list;
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
