//! `storm-service`: the service under load in tests, lab and demo. See `governor_tests::service`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use governor_tests::service::backend::{Asking, Backend};
use governor_tests::service::capacity::Capacity;
use governor_tests::service::front::{Faulty, Front};
use governor_tests::service::order;
use governor_tests::service::queue::Queue;
use governor_tests::service::told::{self, Counts};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::select;
use tokio::task::LocalSet;

/// What of its capacity a service has that was told to be cold, percent.
const COLD: u8 = 20;

/// Answers HTTP from one queue, first come, first served, at a fixed capacity. Prints what it received
/// every 50 ms. Obeys orders, one a line, on standard input and ends with it.
///
/// Orders: serve, stall, slow FACTOR, refuse, `status CODE [PERCENT]`, `hang [PERCENT]`, capacity PER_SECOND,
/// cold. With `serve` all is well again; capacity and cold stay.
#[derive(Parser)]
struct Cli {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Requests it can answer per second.
    #[arg(long, value_name = "PER_SECOND", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    capacity: u32,
    /// Starts cold, with so much of its capacity [default: warm; after the order `cold`: 20].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    cold: Option<u8>,
    /// How much work makes it warm.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    warm: Duration,
    /// Answers 503 to this share of the requests of callers whose name begins so, after the work for them.
    #[arg(long, value_name = "CALLER:PERCENT", conflicts_with = "address")]
    fails: Option<Faulty>,
    #[command(flatten)]
    asking: Asking,
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

#[tokio::main(flavor = "current_thread")]
async fn run(cli: Cli) -> Result<()> {
    allow_open_files()?;
    let share = f64::from(cli.cold.unwrap_or(COLD)) / 100.0;
    let mut capacity = Capacity::new(cli.capacity.into(), share, cli.warm);
    if cli.cold.is_some() {
        capacity.cool();
    }
    let (counts, slots) = Counts::new();
    let front = Rc::new(Front::new(
        cli.listen,
        Queue::new(capacity),
        counts,
        Backend::new(cli.asking),
        cli.fails,
    ));
    let printer = told::print(slots);
    let tasks = LocalSet::new();
    let service = async {
        select! {
            // It listens before it tells anything: who starts it waits for that.
            biased;
            ended = Rc::clone(&front).listen() => ended,
            ended = obey(&front) => ended,
            () = front.queue.work(&front.counts) => Ok(()),
            ended = front.counts.tell() => ended,
        }
    };
    tasks.run_until(service).await?;
    // Its connections hold the service until they are gone.
    drop(tasks);
    let front = Rc::into_inner(front).context("a connection is still served")?;
    front.counts.finish();
    let printed = printer.join().map_err(|_| anyhow!("the printer died"))?;
    printed.context("cannot print")
}

async fn obey(front: &Front) -> Result<()> {
    let mut orders = order::given();
    while let Some(order) = orders.recv().await {
        front.queue.obey(order?);
    }
    Ok(())
}

/// A herd of ten thousand holds as many connections; a login allows 1,024 files.
fn allow_open_files() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")
}
