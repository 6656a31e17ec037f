//! `storm-service`: the service under load in tests, lab and demo. See `governor_tests::service`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use governor_tests::service::backend::Backend;
use governor_tests::service::capacity::Capacity;
use governor_tests::service::front::{self, Front};
use governor_tests::service::order::{Mood, Order};
use governor_tests::service::queue::Queue;
use governor_tests::service::told::Counts;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::Instant;

/// Answers HTTP from one queue, first come, first served, at a fixed capacity. Obeys orders, one a
/// line, on standard input and ends with it; prints what it received every 50 ms.
#[derive(Parser)]
struct Cli {
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// Requests it can answer per second.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    capacity: u32,
    /// What of the capacity it has when it starts, percent.
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u8).range(1..=100))]
    cold: u8,
    /// How long it takes to warm up.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    warm: Duration,
    /// The layer below: each request asks it before it is answered.
    #[arg(long, value_name = "ADDRESS")]
    backend: Option<SocketAddr>,
    /// How it names itself to the layer below.
    #[arg(long, default_value = "service")]
    name: String,
    /// Tries at the layer below, the first included.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// Wait before each try after the first.
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = humantime::parse_duration)]
    delay: Duration,
    /// Patience with the layer below.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    backend_timeout: Duration,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(cli: &Cli) -> Result<()> {
    allow_open_files()?;
    let capacity = Capacity {
        full: f64::from(cli.capacity),
        cold: f64::from(cli.cold) / 100.0,
        warm: cli.warm,
        slowed: 1.0,
        since: Instant::now(),
    };
    let backend = cli.backend.map(|address| {
        Backend::new(
            &cli.name,
            address,
            cli.backend_timeout,
            cli.tries,
            cli.delay,
        )
    });
    let front = Rc::new(Front {
        address: cli.listen,
        queue: Queue::new(capacity),
        counts: Counts::told_on_stdout(),
        backend,
    });
    let (mood, moods) = watch::channel(Mood::Serve);
    let tasks = LocalSet::new();
    tasks
        .run_until(async {
            tokio::select! {
                ended = obey(&front, &mood) => ended,
                ended = front::listen(Rc::clone(&front), moods) => ended,
                () = front.queue.work(&front.counts) => Ok(()),
                () = front.counts.tick() => Ok(()),
            }
        })
        .await
}

async fn obey(front: &Front, mood: &watch::Sender<Mood>) -> Result<()> {
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = orders.next_line().await? {
        let order: Order = line.parse()?;
        front.queue.obey(order);
        if let Order::Mood(now) = order {
            mood.send_replace(now);
        }
    }
    Ok(())
}

/// A herd of ten thousand holds as many connections; a login allows 1,024 files.
fn allow_open_files() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("limit of open files")
}
