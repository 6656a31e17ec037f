//! Policies for traces.

use governor_core::params::{Params, codes, concurrency, mode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Changes to the default policy: bounds of what a file may say (governor-user/src/policy/check.rs),
/// and what lies oddly between.
const TWEAKS: [fn(&mut Params); 53] = [
    |p| p.mode = mode::AUDIT,
    |p| p.mode = mode::AUDIT,
    |p| p.mode = mode::DISABLED,
    |p| p.budget_enabled = 0,
    |p| p.budget_percent = 0,
    |p| p.budget_percent = 1,
    |p| p.budget_percent = 3_333,
    |p| p.budget_percent = 10_000,
    |p| p.budget_epoch = 100 * MILLI,
    |p| p.budget_epoch = 6 * SECOND,
    |p| p.budget_epoch = 137_000_003,
    |p| p.reserve_ceiling = 0,
    |p| p.reserve_ceiling = 60_000_000,
    |p| p.reserve_floor = 1,
    |p| p.reserve_share = 0,
    |p| p.reserve_share = 10_000,
    |p| p.breaker_enabled = 0,
    |p| p.breaker_enabled = 0,
    |p| p.breaker_epoch = 100 * MILLI,
    |p| p.breaker_epoch = 6 * SECOND,
    |p| p.breaker_interval = 1_000,
    |p| p.silence_for = 100,
    |p| p.silence_failures = 1,
    |p| p.silence_failures = 10_000,
    |p| p.consecutive_failures = 1,
    |p| p.consecutive_failures = 10_000,
    |p| p.failure_share = 1,
    |p| p.failure_share = 5_000,
    |p| p.failure_minimum = 1,
    |p| p.open_base = 100,
    |p| p.open_max = 300_000,
    |p| p.open_jitter = 0,
    |p| p.open_jitter = 10_000,
    |p| p.probe_timeout = 100,
    |p| p.ramp = 0,
    |p| p.ramp = 60_000,
    |p| p.evidence_window = 1_000,
    |p| p.concurrency = concurrency::DISABLED,
    |p| (p.concurrency, p.limit_fixed) = (concurrency::FIXED, 3),
    |p| (p.concurrency, p.limit_fixed) = (concurrency::FIXED, 1_000_000),
    |p| p.limit_floor = 100_000,
    |p| p.latency_tolerance = 110,
    |p| p.latency_tolerance = 10_000,
    |p| p.attempts = 0,
    |p| p.attempts = 100,
    |p| p.deadline = 100,
    |p| p.refuse_non_idempotent = 0,
    |p| p.honor_pushback = 0,
    |p| p.pushback_max = 100,
    |p| p.codes = codes(&[]),
    |p| p.codes = codes(&[404, 599]),
    |p| p.retry_after = 300,
    |p| p.pacing_delay = 0,
];

/// The default policy with a few tweaks.
pub fn params() -> impl Strategy<Value = Params> {
    vec(select(TWEAKS.as_slice()), 0..6).prop_map(|tweaks| {
        let mut params = Params::DEFAULT;
        for tweak in tweaks {
            tweak(&mut params);
        }
        params
    })
}
