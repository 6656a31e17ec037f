//! How a caller tries again: the mode `tries`, and each operation of the other modes.

use std::io;
use std::time::Duration;

use clap::Args;
use tokio::time::sleep;

use super::exchange::Target;
use super::report::{Outcome, Report, Try, monotonic_micros};

/// A retry policy as legacy services have it.
#[derive(Args, Clone, Debug)]
pub struct RetryPolicy {
    /// Tries of one operation, the first included.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tries: u32,
    /// Wait before the second try.
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub delay: Duration,
    /// Each later wait is this many times the one before.
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub backoff: f64,
}

/// Runs one operation: tries until one succeeds, the policy ends, or `until` (CLOCK_MONOTONIC, microseconds).
/// Prints each try as it ends.
pub async fn operation(
    target: &Target,
    policy: &RetryPolicy,
    op: u64,
    until: u64,
) -> io::Result<Report> {
    let mut report = Report::default();
    let mut delay = policy.delay;
    for attempt in 1..=policy.tries {
        if attempt > 1 {
            sleep(delay).await;
            delay = delay.mul_f64(policy.backoff.clamp(1.0, 10.0));
        }
        let began = monotonic_micros();
        if began >= until {
            break;
        }
        let ended = Try::ended(began, op, attempt, target.call().await);
        ended.print()?;
        let outcome = ended.outcome;
        report.tries.push(ended);
        if outcome == Outcome::Ok {
            break;
        }
    }
    Ok(report)
}
