//! The retry policies of the field: what is tried again, how often, after which wait.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::report::{Failure, Outcome};

/// How the waits between the tries of one operation grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Growth {
    /// No retries.
    None,
    /// The same wait each time, or none: a loop around a call.
    Naive,
    /// Each wait is twice the one before, no jitter.
    Exponential,
    /// Uniform between zero and the exponential wait, as the AWS SDKs do.
    FullJitter,
}

/// A retry policy.
#[derive(Args, Clone, Debug)]
pub struct Policy {
    /// How waits between tries grow.
    #[arg(long, value_enum, default_value = "none")]
    pub retry: Growth,
    /// Tries of one operation, the first included.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub tries: u32,
    /// Wait before the second try [default: 0 where naive, else 100ms].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub delay: Option<Duration>,
    /// The longest wait.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = humantime::parse_duration)]
    pub max_delay: Duration,
    /// Statuses that are tried again; connect errors, resets, timeouts and no answer always are.
    #[arg(
        long,
        value_name = "STATUS,...",
        value_delimiter = ',',
        default_value = "429,500,502,503,504"
    )]
    pub codes: Vec<u16>,
}

impl Policy {
    /// Tries of one operation, the first included.
    pub fn tries(&self) -> u32 {
        match self.retry {
            Growth::None => 1,
            _ => self.tries,
        }
    }

    /// Whether a try that failed so is worth another.
    pub fn is_retryable(&self, failure: &Failure) -> bool {
        match failure.outcome {
            Outcome::Status => failure.status.is_some_and(|it| self.codes.contains(&it)),
            // The caller's own patience is over.
            Outcome::PoolTimeout => false,
            _ => true,
        }
    }

    /// The wait after the try of this number (the first is 1); `random` is uniform in 0..1.
    pub fn wait(&self, after: u32, random: f64) -> Duration {
        let delay = self.delay.unwrap_or(match self.retry {
            Growth::None | Growth::Naive => Duration::ZERO,
            Growth::Exponential | Growth::FullJitter => Duration::from_millis(100),
        });
        // 2^30 of anything is beyond every longest wait.
        let doubled = || {
            delay
                .saturating_mul(1 << (after - 1).min(30))
                .min(self.max_delay)
        };
        match self.retry {
            Growth::None | Growth::Naive => delay.min(self.max_delay),
            Growth::Exponential => doubled(),
            Growth::FullJitter => doubled().mul_f64(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(retry: Growth) -> Policy {
        Policy {
            retry,
            tries: 4,
            delay: Some(Duration::from_millis(100)),
            max_delay: Duration::from_secs(1),
            codes: vec![503],
        }
    }

    fn waits(retry: Growth, random: f64) -> Vec<u128> {
        let policy = policy(retry);
        (1..=6)
            .map(|after| policy.wait(after, random).as_millis())
            .collect()
    }

    #[test]
    fn waits_grow_as_the_policy_says_up_to_the_longest() {
        assert_eq!(waits(Growth::Naive, 0.5), [100; 6]);
        assert_eq!(
            waits(Growth::Exponential, 0.5),
            [100, 200, 400, 800, 1000, 1000]
        );
        assert_eq!(
            waits(Growth::FullJitter, 0.5),
            [50, 100, 200, 400, 500, 500]
        );
        assert_eq!(waits(Growth::FullJitter, 0.0), [0; 6]);
        let many = policy(Growth::Exponential).wait(1000, 0.0);
        assert_eq!(many, Duration::from_secs(1));
    }

    #[test]
    fn a_naive_caller_without_a_delay_tries_again_at_once() {
        let at_once = Policy {
            delay: None,
            ..policy(Growth::Naive)
        };
        assert_eq!(at_once.wait(1, 0.5), Duration::ZERO);
    }

    #[test]
    fn only_the_statuses_of_the_list_are_tried_again() {
        let policy = policy(Growth::Naive);
        let status = |status| Failure {
            status: Some(status),
            ..Failure::of(Outcome::Status)
        };
        assert!(policy.is_retryable(&status(503)));
        assert!(!policy.is_retryable(&status(400)));
        assert!(policy.is_retryable(&Failure::of(Outcome::Refused)));
        assert!(policy.is_retryable(&Failure::of(Outcome::AnswerTimeout)));
        assert!(!policy.is_retryable(&Failure::of(Outcome::PoolTimeout)));
    }
}
