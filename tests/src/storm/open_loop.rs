//! Mode `loop`: operations start at a fixed rate, whatever became of those before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use tokio::runtime;

use super::exchange::Target;
use super::report::{Report, monotonic_micros};
use super::retry::{RetryPolicy, operation};

/// The load.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// Operations per second.
    #[arg(long, value_name = "PER_SECOND", default_value = "1", value_parser = rate)]
    pub rate: f64,
    /// Threads that take turns; an operation that finds none free starts late.
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
}

/// A rate that is above zero and that one machine can offer.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 100_000.0 => Ok(rate),
        _ => Err("must be above 0 and at most 100000".to_owned()),
    }
}

/// Runs the load for `length`, or until `count` operations were started.
pub fn run(
    target: &Target,
    policy: &RetryPolicy,
    load: &Load,
    length: Duration,
    count: u64,
) -> Result<Report> {
    let start = monotonic_micros();
    let until = start + length.as_micros() as u64;
    let next = AtomicU64::new(0);
    let worker = || -> Result<Report> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut report = Report::default();
        loop {
            let op = next.fetch_add(1, Ordering::Relaxed);
            let due = start + (op as f64 / load.rate * 1e6) as u64;
            if op >= count || due >= until {
                return Ok(report);
            }
            thread::sleep(Duration::from_micros(
                due.saturating_sub(monotonic_micros()),
            ));
            // The end bounds the load, not the last operation: its tries may still run out.
            let ended = runtime.block_on(operation(target, policy, op, u64::MAX))?;
            report.tries.extend(ended.tries);
        }
    };
    let reports: Result<Vec<Report>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..load.threads).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<Report>>| {
            worker.join().map_err(|_| anyhow!("a worker died"))?
        };
        workers.into_iter().map(join).collect()
    });
    let mut tries: Vec<_> = reports
        .context("loop")?
        .into_iter()
        .flat_map(|report| report.tries)
        .collect();
    tries.sort_by_key(|each| each.t);
    Ok(Report { tries, pace: None })
}
