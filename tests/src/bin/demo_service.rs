//! `demo-service`: the service in the demo's storm. It answers HTTP from one queue, first come
//! first served, at a fixed capacity, as a service with one database behind it does.
//!
//! It works off the requests of callers who have left, too: it only learns of that when it
//! answers. That is what keeps a service down after the trouble is over.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use governor_tests::storm::report::monotonic_micros;
use governor_tests::storm::wire;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often it tells what it did.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// A storm must not fill it: as many as the kernel allows by default.
const BACKLOG: u32 = 4096;
/// Longer requests are no part of the demo.
const MAX_REQUEST: usize = 16 * 1024;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";

/// A service of fixed capacity with one queue. Obeys `stall` and `serve`, one a line, on standard
/// input and ends with it; prints its counts as a line of JSON ten times a second.
#[derive(Parser)]
struct Cli {
    /// Port on loopback.
    #[arg(long, default_value = "8080")]
    port: u16,
    /// Requests it can answer per second.
    #[arg(long, value_name = "PER_SECOND", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    capacity: u32,
}

/// Whether the queue moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Serve,
    Stall,
}

#[derive(Debug, Default)]
struct Counts {
    arrived: AtomicU64,
    answered: AtomicU64,
    wasted: AtomicU64,
}

/// One line of output. All but `waiting` are totals.
#[derive(Serialize)]
struct Told {
    /// Microseconds of CLOCK_MONOTONIC.
    t: u64,
    /// Requests that came in.
    arrived: u64,
    /// Requests that were answered to somebody.
    answered: u64,
    /// Requests that were worked off for a caller who had left.
    wasted: u64,
    /// Requests in the queue now.
    waiting: u64,
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
    let listener = listen(cli.port).with_context(|| format!("listen on port {}", cli.port))?;
    let counts = Arc::new(Counts::default());
    let (mood, moods) = watch::channel(Mood::Serve);
    let (entrance, queue) = mpsc::unbounded_channel();
    let per_request = Duration::from_secs(1) / cli.capacity;
    tokio::select! {
        ended = obey(&mood) => ended,
        ended = welcome(listener, entrance, &counts) => ended,
        ended = work(queue, moods, per_request, &counts) => ended,
        ended = tell(&counts) => ended,
    }
}

fn listen(port: u16) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    Ok(socket.listen(BACKLOG)?)
}

async fn obey(mood: &watch::Sender<Mood>) -> Result<()> {
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        let ordered = match order.as_str() {
            "stall" => Mood::Stall,
            "serve" => Mood::Serve,
            other => bail!("{other}: unknown order (stall, serve)"),
        };
        mood.send_replace(ordered);
    }
    Ok(())
}

async fn welcome(
    listener: TcpListener,
    entrance: mpsc::UnboundedSender<TcpStream>,
    counts: &Arc<Counts>,
) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await.context("accept")?;
        let (entrance, counts) = (entrance.clone(), Arc::clone(counts));
        tokio::spawn(async move {
            if hears_request(&mut stream).await {
                counts.arrived.fetch_add(1, Relaxed);
                // Fails only when this program ends.
                let _ = entrance.send(stream);
            }
        });
    }
}

async fn hears_request(stream: &mut TcpStream) -> bool {
    let mut heard = Vec::new();
    while heard.len() < MAX_REQUEST {
        match stream.read_buf(&mut heard).await {
            Ok(1..) if wire::http_request_length(&heard).is_some() => return true,
            Ok(1..) => {}
            Ok(0) | Err(_) => return false,
        }
    }
    false
}

/// One request after the other, each for its time; a late timer does not cost capacity.
async fn work(
    mut queue: mpsc::UnboundedReceiver<TcpStream>,
    mut moods: watch::Receiver<Mood>,
    per_request: Duration,
    counts: &Counts,
) -> Result<()> {
    let mut free = Instant::now();
    loop {
        let mut stream = match queue.try_recv() {
            Ok(stream) => stream,
            Err(_) => {
                let stream = queue.recv().await.context("the queue is gone")?;
                free = free.max(Instant::now());
                stream
            }
        };
        if *moods.borrow() == Mood::Stall {
            moods.wait_for(|mood| *mood == Mood::Serve).await?;
            free = Instant::now();
        }
        free += per_request;
        sleep_until(free).await;
        let done = match is_awaited(&stream) && stream.write_all(ANSWER).await.is_ok() {
            true => &counts.answered,
            false => &counts.wasted,
        };
        done.fetch_add(1, Relaxed);
    }
}

/// A caller who has closed reads as the end of the stream.
fn is_awaited(stream: &TcpStream) -> bool {
    let mut more = [0];
    !matches!(stream.try_read(&mut more), Ok(0))
}

async fn tell(counts: &Counts) -> Result<()> {
    let mut ticks = interval(TELL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut out = tokio::io::stdout();
    loop {
        ticks.tick().await;
        let (arrived, answered) = (counts.arrived.load(Relaxed), counts.answered.load(Relaxed));
        let wasted = counts.wasted.load(Relaxed);
        let told = Told {
            t: monotonic_micros(),
            arrived,
            answered,
            wasted,
            waiting: arrived - answered - wasted,
        };
        let line = serde_json::to_string(&told)? + "\n";
        out.write_all(line.as_bytes()).await?;
        out.flush().await?;
    }
}
