//! Mode `requests`: callers with HTTP operations and retries over a connection that each keeps, as a
//! pool does. After a status the next try is on the same connection, after anything worse on a new one.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::exchange::{Connection, Speech, Target};
use super::report::{Failure, Outcome, Report, Try, monotonic_micros};
use super::retry::RetryPolicy;

/// The callers, all of one thread.
#[derive(Args, Clone, Debug)]
pub struct Callers {
    /// Callers, each sequential and with a connection of its own.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub callers: u32,
    /// From the start of one operation of a caller to that of its next; a long one delays it.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub every: Duration,
    /// Method of the requests.
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// What to ask for [default: a path for each operation, which no other operation has].
    #[arg(long)]
    pub path: Option<String>,
}

/// Operations until `length` is over; the last of each caller still runs out.
pub async fn run(
    mut target: Target,
    policy: RetryPolicy,
    callers: Callers,
    length: Duration,
) -> Result<Report> {
    target.speak = Speech::Http;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..callers.callers {
        let mut caller = Caller {
            target: target.clone(),
            policy: policy.clone(),
            callers: callers.clone(),
            connection: None,
            report: Report::default(),
        };
        // Spread over the first interval: callers of the real world are no choir.
        let first = start + callers.every * number / callers.callers;
        tasks.spawn(async move {
            caller.operate(number, first, start + length).await?;
            anyhow::Ok(caller.report)
        });
    }
    let mut report = Report::default();
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.context("a caller's task died")??;
        report.tries.extend(ended.tries);
    }
    report.tries.sort_by_key(|each| each.t);
    Ok(report)
}

struct Caller {
    target: Target,
    policy: RetryPolicy,
    callers: Callers,
    connection: Option<Connection>,
    report: Report,
}

impl Caller {
    async fn operate(&mut self, number: u32, first: Instant, end: Instant) -> Result<()> {
        let mut due = first;
        // Operations of one process are numbered through, caller by caller.
        let mut op = u64::from(number);
        while due < end {
            sleep_until(due).await;
            self.operation(op).await?;
            op += u64::from(self.callers.callers);
            due = (due + self.callers.every).max(Instant::now());
        }
        Ok(())
    }

    async fn operation(&mut self, op: u64) -> Result<()> {
        let own = || format!("/op/{}-{op}", std::process::id());
        let path = self.callers.path.clone().unwrap_or_else(own);
        let method = &self.callers.method;
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: storm\r\nContent-Length: 0\r\n\r\n");
        let mut delay = self.policy.delay;
        for attempt in 1..=self.policy.tries {
            if attempt > 1 {
                sleep(delay).await;
                delay = delay.mul_f64(self.policy.backoff.clamp(1.0, 10.0));
            }
            let began = monotonic_micros();
            let ended = Try::ended(began, op, attempt, self.once(request.as_bytes()).await);
            ended.print()?;
            let outcome = ended.outcome;
            self.report.tries.push(ended);
            if outcome == Outcome::Ok {
                break;
            }
        }
        Ok(())
    }

    /// One try. The connection is kept where it can still be used.
    async fn once(&mut self, request: &[u8]) -> Result<(), Failure> {
        let mut connection = match self.kept().await {
            Some(kept) => kept,
            None => self.target.connect().await?,
        };
        let result = connection.ask(request).await;
        let usable = match &result {
            Ok(()) => true,
            Err(failure) => failure.outcome == Outcome::Status,
        };
        if usable {
            self.connection = Some(connection);
        }
        result
    }

    /// The connection of the last try, unless the server has closed it since.
    async fn kept(&mut self) -> Option<Connection> {
        let mut kept = self.connection.take()?;
        match kept.rest(Duration::ZERO).await {
            true => None,
            false => Some(kept),
        }
    }
}
