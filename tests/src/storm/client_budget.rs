//! The retry budgets that clients have today, with the defaults they are published with.
//!
//! Each is one of a client's own: it knows nothing of the other clients on its host.
//!
//! * Finagle `RetryBudget()`: ttl 10 s, minRetriesPerSec 10, percentCanRetry 0.2. A deposit for each
//!   request, as `RetryFilter.apply` makes it before the first try; it expires after the ttl, as a
//!   withdrawal does (`util-core` `TokenBucket.newLeakyBucket`, a window of ten slots). The reserve is
//!   there in each ttl: 100 retries.
//!   <https://github.com/twitter/finagle/blob/develop/finagle-core/src/main/scala/com/twitter/finagle/service/RetryBudget.scala>
//! * Linkerd (and tower's `TpsBudget`): the same figures, but the deposit is made by each try that is
//!   not to be retried. <https://linkerd.io/2/reference/service-profiles/>
//! * gRPC `retryThrottling`: no default; the figures of the proposal: maxTokens 10, tokenRatio 0.1.
//!   Retries stop while no more than half is left.
//!   <https://github.com/grpc/proposal/blob/master/A6-client-retries.md>
//! * AWS SDK, standard mode: 500 tokens, 5 for a retry, 10 for one after a timeout; a success gives
//!   back what its retry cost, or 1 where it was the first try; no refill over time.
//!   <https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html>, botocore
//!   `retries/standard.py` and `quota.py`. (The SDK for Rust charges 10 for a 5xx as well.)

use std::time::Duration;

use clap::ValueEnum;

use super::report::Outcome;

/// Which budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// No budget.
    None,
    /// Finagle's.
    Finagle,
    /// Linkerd's and tower's.
    Linkerd,
    /// gRPC's retry throttling.
    Grpc,
    /// The AWS SDKs' standard mode.
    Aws,
}

/// The budget of one client.
#[derive(Clone, Debug)]
pub struct Budget {
    kind: Kind,
    leaky: Leaky,
    grpc: u32,
    aws: u32,
}

/// What a retry was charged: given back when it succeeds, where the budget does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge(u32);

/// In thousandths, as gRPC counts.
const GRPC_TOKENS: u32 = 10_000;
const GRPC_FAILURE: u32 = 1_000;
const GRPC_SUCCESS: u32 = 100;

const AWS_TOKENS: u32 = 500;
const AWS_RETRY: u32 = 5;
const AWS_TIMEOUT: u32 = 10;
const AWS_FIRST_TRY: u32 = 1;

impl Budget {
    /// A fresh one.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            leaky: Leaky::default(),
            grpc: GRPC_TOKENS,
            aws: AWS_TOKENS,
        }
    }

    /// An operation begins; `now` is the time since the client began.
    pub fn begins(&mut self, now: Duration) {
        if self.kind == Kind::Finagle {
            self.leaky.deposit(now);
        }
    }

    /// A try succeeded; `charge` is that of its own retry, `None` where it was the first try.
    pub fn succeeded(&mut self, now: Duration, charge: Option<Charge>) {
        match self.kind {
            Kind::None | Kind::Finagle => {}
            Kind::Linkerd => self.leaky.deposit(now),
            Kind::Grpc => self.grpc = (self.grpc + GRPC_SUCCESS).min(GRPC_TOKENS),
            Kind::Aws => {
                let back = charge.map_or(AWS_FIRST_TRY, |charge| charge.0);
                self.aws = (self.aws + back).min(AWS_TOKENS);
            }
        }
    }

    /// A try failed in a way that no policy retries: it says nothing against the server.
    pub fn failed_for_good(&mut self, now: Duration) {
        if self.kind == Kind::Linkerd {
            self.leaky.deposit(now);
        }
    }

    /// A try failed in a way that could be retried, whether or not tries are left.
    pub fn failed(&mut self) {
        self.grpc = self.grpc.saturating_sub(GRPC_FAILURE);
    }

    /// Asks for a retry after such a failure.
    pub fn charge(&mut self, now: Duration, after: Outcome) -> Option<Charge> {
        match self.kind {
            Kind::None => Some(Charge(0)),
            Kind::Finagle | Kind::Linkerd => self.leaky.withdraw(now).then_some(Charge(0)),
            Kind::Grpc => (self.grpc > GRPC_TOKENS / 2).then_some(Charge(0)),
            Kind::Aws => {
                let cost = match after {
                    Outcome::ConnectTimeout | Outcome::AnswerTimeout => AWS_TIMEOUT,
                    _ => AWS_RETRY,
                };
                self.aws = self.aws.checked_sub(cost)?;
                Some(Charge(cost))
            }
        }
    }
}

/// Deposits and withdrawals of the last ten seconds, and a reserve.
#[derive(Clone, Debug, Default)]
struct Leaky {
    /// One for each second.
    slots: [i64; SLOTS],
    /// The second of the newest.
    second: u64,
}

/// Slots of a second each: a ttl of 10 s.
const SLOTS: usize = 10;
/// For one request.
const DEPOSIT: i64 = 1;
/// For one retry: 20 % of the requests may be retried.
const WITHDRAWAL: i64 = 5;
/// 10 retries in each second of the ttl.
const RESERVE: i64 = 10 * SLOTS as i64 * WITHDRAWAL;

impl Leaky {
    fn deposit(&mut self, now: Duration) {
        *self.slot(now) += DEPOSIT;
    }

    fn withdraw(&mut self, now: Duration) -> bool {
        // What is older than the ttl goes first.
        self.slot(now);
        let covered = self.slots.iter().sum::<i64>() + RESERVE >= WITHDRAWAL;
        if covered {
            *self.slot(now) -= WITHDRAWAL;
        }
        covered
    }

    /// The slot of this second.
    fn slot(&mut self, now: Duration) -> &mut i64 {
        let second = now.as_secs().max(self.second);
        let passed = (second - self.second).min(SLOTS as u64);
        for expired in second - passed..second {
            self.slots[(expired + 1) as usize % SLOTS] = 0;
        }
        self.second = second;
        &mut self.slots[second as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// As many retries as it grants at one moment.
    fn granted(budget: &mut Budget, now: Duration, after: Outcome) -> usize {
        (0..10_000)
            .take_while(|_| budget.charge(now, after).is_some())
            .count()
    }

    #[test]
    fn an_idle_finagle_client_may_make_a_hundred_retries_in_ten_seconds() {
        let mut budget = Budget::new(Kind::Finagle);
        assert_eq!(granted(&mut budget, at(3), Outcome::Refused), 100);
        assert_eq!(granted(&mut budget, at(12), Outcome::Refused), 0);
        assert_eq!(granted(&mut budget, at(13), Outcome::Refused), 100);
        assert_eq!(granted(&mut budget, at(1_000), Outcome::Refused), 100);
    }

    #[test]
    fn a_busy_finagle_client_may_retry_a_fifth_besides() {
        let mut budget = Budget::new(Kind::Finagle);
        for request in 0..1_000 {
            budget.begins(at(request / 100));
        }
        assert_eq!(granted(&mut budget, at(9), Outcome::Refused), 100 + 200);
    }

    #[test]
    fn finagle_deposits_for_a_request_linkerd_for_an_end() {
        let (mut finagle, mut linkerd) = (Budget::new(Kind::Finagle), Budget::new(Kind::Linkerd));
        for budget in [&mut finagle, &mut linkerd] {
            for _ in 0..100 {
                budget.begins(START);
                budget.failed();
            }
        }
        assert_eq!(granted(&mut finagle, START, Outcome::Refused), 100 + 20);
        for _ in 0..50 {
            linkerd.succeeded(START, None);
            linkerd.failed_for_good(START);
        }
        assert_eq!(granted(&mut linkerd, START, Outcome::Refused), 100 + 20);
        assert_eq!(granted(&mut linkerd, START, Outcome::Refused), 0);
    }

    #[test]
    fn grpc_stops_retries_at_half_of_its_tokens() {
        let mut budget = Budget::new(Kind::Grpc);
        for _ in 0..4 {
            budget.failed();
            assert!(budget.charge(START, Outcome::Refused).is_some());
        }
        budget.failed();
        assert_eq!(budget.charge(START, Outcome::Refused), None);
        for _ in 0..9 {
            budget.failed();
        }
        // From zero: fifty successes are half, one more is above it.
        for _ in 0..50 {
            budget.succeeded(START, None);
        }
        assert_eq!(budget.charge(START, Outcome::Refused), None);
        budget.succeeded(START, None);
        assert!(budget.charge(START, Outcome::Refused).is_some());
    }

    #[test]
    fn aws_grants_a_hundred_retries_or_fifty_after_timeouts_and_no_more_with_time() {
        let mut budget = Budget::new(Kind::Aws);
        assert_eq!(granted(&mut budget, START, Outcome::Refused), 100);
        assert_eq!(granted(&mut budget, at(3600), Outcome::Refused), 0);
        let mut budget = Budget::new(Kind::Aws);
        assert_eq!(granted(&mut budget, START, Outcome::AnswerTimeout), 50);
    }

    #[test]
    fn aws_gives_one_back_for_a_first_try_and_its_cost_for_a_retry() {
        let mut budget = Budget::new(Kind::Aws);
        let charge = budget.charge(START, Outcome::AnswerTimeout);
        assert_eq!(budget.aws, 490);
        budget.succeeded(START, None);
        assert_eq!(budget.aws, 491);
        budget.succeeded(START, charge);
        assert_eq!(budget.aws, 500, "never more than it was made with");
    }

    #[test]
    fn no_budget_grants_everything() {
        let mut budget = Budget::new(Kind::None);
        assert_eq!(granted(&mut budget, START, Outcome::Refused), 10_000);
    }
}
