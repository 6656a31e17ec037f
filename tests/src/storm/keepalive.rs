//! Modes `pool`, `keepalive` and `longpoll`: many connections of one thread, as an event loop has them.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::exchange::{Connection, Speech, Target};
use super::report::{Failure, Report, Try, monotonic_micros};

/// The connections.
#[derive(Args, Clone, Debug)]
pub struct Connections {
    /// Connections opened at once.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Exchanges on each.
    #[arg(long, default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub exchanges: u32,
    /// Rest before each exchange but the first.
    #[arg(long, value_name = "DURATION", default_value = "0ms", value_parser = humantime::parse_duration)]
    pub gap: Duration,
    /// Half-close after the last request, before its answer.
    #[arg(long)]
    pub half_close: bool,
}

/// Opens the connections and makes the exchanges; with zero exchanges it holds them until `length` is over.
pub async fn run(target: Target, connections: Connections, length: Duration) -> Result<Report> {
    let end = Instant::now() + length;
    let mut tasks = JoinSet::new();
    for number in 0..connections.connections {
        tasks.spawn(one(target.clone(), connections.clone(), number.into(), end));
    }
    let mut report = Report::default();
    while let Some(ended) = tasks.join_next().await {
        report
            .tries
            .extend(ended.context("a connection's task died")??.tries);
    }
    report.tries.sort_by_key(|each| each.t);
    Ok(report)
}

/// Each connect and each exchange is an operation of its own: none of them repeats another.
/// An exchange that has begun is never cut off at the end: that would be a caller giving up.
async fn one(target: Target, plan: Connections, number: u64, end: Instant) -> Result<Report> {
    let mut report = Report::default();
    let mut open = None;
    if plan.exchanges == 0 {
        open = record(&mut report, number, target.connect()).await?;
        if open.is_some() {
            sleep_until(end).await;
        }
    }
    for exchange in 1..=plan.exchanges {
        if exchange > 1 {
            open = rested(open, plan.gap).await;
        }
        if Instant::now() >= end {
            break;
        }
        if open.is_none() {
            open = record(&mut report, number, target.connect()).await?;
        }
        let Some(connection) = &mut open else { break };
        let is_last = exchange == plan.exchanges;
        let exchanged = match plan.half_close && is_last {
            true => record(&mut report, number, connection.last_exchange()).await?,
            false => record(&mut report, number, connection.exchange()).await?,
        };
        if exchanged.is_none() {
            break;
        }
    }
    Ok(report)
}

/// The connection after its rest, or nothing where the server has closed it meanwhile: redial.
async fn rested(connection: Option<Connection>, gap: Duration) -> Option<Connection> {
    let mut connection = connection?;
    match connection.rest(gap).await {
        true => None,
        false => Some(connection),
    }
}

async fn record<T>(
    report: &mut Report,
    op: u64,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>> {
    let began = monotonic_micros();
    let (value, result) = match work.await {
        Ok(value) => (Some(value), Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    let ended = Try::ended(began, op, 1, result);
    ended.print()?;
    report.tries.push(ended);
    Ok(value)
}

/// A long poll is an exchange whose answer is far away: this patience, this many rounds.
pub fn long_poll(
    mut target: Target,
    connections: u32,
    rounds: u32,
    patience: Duration,
) -> (Target, Connections) {
    target.answer_timeout = patience;
    if target.speak == Speech::None {
        target.speak = Speech::Http;
    }
    (
        target,
        Connections {
            connections,
            exchanges: rounds,
            gap: Duration::ZERO,
            half_close: false,
        },
    )
}
