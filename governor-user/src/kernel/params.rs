//! A policy as the kernel reads it.

use governor_core::params::{Params, concurrency, mode};

use crate::policy::schema::{ConcurrencyMode, ConnectDenial, Mode, Spec, Switch};

const NANOS_PER_MILLI: u64 = 1_000_000;
/// Windows are kept in tenths.
const TENTHS: u64 = 10;

/// The parameters of a policy. Its values are within the bounds that
/// [`crate::policy`] checks, so nothing here overflows.
pub fn params(spec: &Spec) -> Params {
    let constraint = &spec.retry_constraint;
    let breaker = &spec.circuit_breaker;
    let interval = constraint.budget.interval.nanos();
    let per_interval = |count: u32, every: u64| {
        let count = u128::from(count) * u128::from(interval) / u128::from(every.max(1));
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    let rate = &constraint.min_retry_rate;
    Params {
        budget_epoch: interval / TENTHS,
        breaker_epoch: breaker.interval.nanos() / TENTHS,
        breaker_interval: breaker.interval.nanos() / NANOS_PER_MILLI,
        silence_for: breaker.silence.duration.nanos() / NANOS_PER_MILLI,
        open_base: breaker.open_duration.base.nanos() / NANOS_PER_MILLI,
        open_max: breaker.open_duration.max.nanos() / NANOS_PER_MILLI,
        probe_timeout: breaker.probe_timeout.nanos() / NANOS_PER_MILLI,
        ramp: breaker.ramp.nanos() / NANOS_PER_MILLI,
        evidence_window: spec.retry.evidence_window.nanos() / NANOS_PER_MILLI,
        mode: match spec.mode {
            Mode::Disabled => mode::DISABLED,
            Mode::Audit => mode::AUDIT,
            Mode::Enforce => mode::ENFORCE,
        },
        budget_enabled: switch(constraint.mode),
        budget_percent: constraint.budget.percent.basis_points(),
        reserve_ceiling: per_interval(rate.count, rate.interval.nanos()),
        reserve_floor: per_interval(1, 1_000 * NANOS_PER_MILLI),
        reserve_share: constraint.max_reserve_share.basis_points(),
        breaker_enabled: switch(breaker.mode),
        silence_failures: breaker.silence.failures,
        consecutive_failures: breaker.consecutive_failures,
        failure_share: breaker
            .failure_percent
            .map_or(0, |percent| percent.basis_points()),
        failure_minimum: breaker.min_requests,
        open_jitter: breaker.open_duration.jitter_percent.basis_points(),
        concurrency: match spec.concurrency.mode {
            ConcurrencyMode::Disabled => concurrency::DISABLED,
            ConcurrencyMode::Adaptive => concurrency::ADAPTIVE,
            ConcurrencyMode::Fixed => concurrency::FIXED,
        },
        limit_floor: spec.concurrency.min_limit,
        limit_fixed: spec.concurrency.limit.unwrap_or(0),
        latency_tolerance: spec.concurrency.latency_tolerance.hundredths(),
        connect_errno: match spec.deny.connect {
            ConnectDenial::Econnrefused => libc::ECONNREFUSED.unsigned_abs(),
            ConnectDenial::Ehostunreach => libc::EHOSTUNREACH.unsigned_abs(),
        },
        reserved: 0,
    }
}

fn switch(switch: Switch) -> u32 {
    match switch {
        Switch::Enabled => 1,
        Switch::Disabled => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_in_enforce_mode_is_the_default_of_the_law() {
        let spec = Spec {
            mode: Mode::Enforce,
            ..Spec::default()
        };
        assert_eq!(params(&spec), Params::DEFAULT);
    }
}
