//! Mode `crowd`: an open loop with the retry policies, budgets and pools of the field.
//!
//! Each operation starts when it is due, whatever became of those before, as a task of its own on one
//! thread: any number may be open. How late they started is told at the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep_until};

use super::arrivals::{Spread, arrivals, random, with_herd};
use super::client::{Behaviour, Client, End};
use super::exchange::{Speech, Target};
use super::output::Output;
use super::pace::Punctuality;
use super::report::Report;

/// The load.
#[derive(Args, Clone, Debug)]
// The subcommand's own group has this name.
#[group(skip)]
pub struct Crowd {
    /// Its name, as the requests have it in `User-Agent`.
    #[arg(long, default_value = "crowd")]
    pub name: String,
    /// Operations per second.
    #[arg(long, value_name = "PER_SECOND", value_parser = super::open_loop::rate, required_unless_present = "at_once")]
    pub rate: Option<f64>,
    /// How operations are spread over time.
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Spread,
    /// With the name it decides all that is random.
    #[arg(long, default_value = "0")]
    pub seed: u64,
    /// Besides, so many operations at one moment.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub at_once: u64,
    /// That moment, from the start.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration, requires = "at_once")]
    pub at: Duration,
    /// Independent clients in this process, which take operations in turn: each has a budget and
    /// connections of its own.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: u32,
    /// Operations that are open so long after the end of the load are given up.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration)]
    pub run_out: Duration,
    /// What each client does.
    #[command(flatten)]
    pub behaviour: Behaviour,
}

/// Runs the load for `length`, or until `count` operations were started, then lets it run out.
pub async fn run(mut target: Target, crowd: Crowd, length: Duration, count: u64) -> Result<Report> {
    allow_open_files()?;
    target.speak = Speech::Http;
    let output = Rc::new(Output::start());
    let tasks = LocalSet::new();
    let load = async {
        tokio::select! {
            punctuality = storm(target, crowd, &output, length, count) => punctuality,
            () = output.flush() => bail!("crowd: nobody reads what became of it"),
        }
    };
    let punctuality = tasks.run_until(load).await?;
    // Tasks hold the output until they are gone.
    drop(tasks);
    let output = Rc::into_inner(output).context("a task of the crowd still runs")?;
    let tries = output.finish()?;
    let pace = punctuality.pace(&tries);
    if !pace.kept {
        eprintln!("crowd: the load did not keep its pace, its figures are its own: {pace:?}");
    }
    Ok(Report {
        tries,
        pace: Some(pace),
    })
}

/// Starts each operation when it is due, and waits for the last.
async fn storm(
    target: Target,
    crowd: Crowd,
    output: &Rc<Output>,
    length: Duration,
    count: u64,
) -> Result<Punctuality> {
    let usual = crowd.rate.map(|rate| {
        arrivals(
            crowd.arrivals,
            rate,
            random(crowd.seed, &crowd.name, "arrivals"),
        )
    });
    let schedule = with_herd(usual.into_iter().flatten(), crowd.at_once, crowd.at);
    let behaviour = Rc::new(crowd.behaviour);
    let start = Instant::now();
    let last_call = start + length + crowd.run_out;
    let client = |number| {
        let random = random(crowd.seed, &crowd.name, &format!("waits of {number}"));
        let name = crowd.name.clone();
        Rc::new(Client::new(
            name,
            target.clone(),
            Rc::clone(&behaviour),
            random,
            start,
        ))
    };
    let clients: Vec<_> = (0..crowd.clients).map(client).collect();
    let punctuality = Rc::new(RefCell::new(Punctuality::default()));
    let mut open = JoinSet::new();
    let due_in_time = schedule.take_while(|due| due.at < length);
    // In turn, each with the next operation.
    for ((op, due), client) in (0..count).zip(due_in_time).zip(clients.iter().cycle()) {
        sleep_until(start + due.at).await;
        let (client, output) = (Rc::clone(client), Rc::clone(output));
        let told = Rc::clone(&punctuality);
        open.spawn_local(async move {
            told.borrow_mut().began(due, start.elapsed());
            let end = client.operation(op, last_call, &output).await?;
            if end == End::Cut {
                told.borrow_mut().was_cut();
            }
            anyhow::Ok(())
        });
        punctuality.borrow_mut().are_open(open.len());
        while let Some(ended) = open.try_join_next() {
            ended.context("an operation's task died")??;
        }
    }
    while let Some(ended) = open.join_next().await {
        ended.context("an operation's task died")??;
    }
    Ok(punctuality.take())
}

/// An open connection is an open file.
fn allow_open_files() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")
}
