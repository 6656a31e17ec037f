//! A policy as the kernel reads it.

use governor_core::params::{Params, codes, concurrency, mode, protocol};

use crate::policy::schema::{
    ConcurrencyMode, ConnectDenial, Jitter, Mode, NonIdempotent, Protocol, RequestDenial, Spec,
    Switch,
};

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
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
        deadline: spec.retry.deadline.nanos() / NANOS_PER_MILLI,
        pushback_max: spec.pushback.max_retry_after.nanos() / NANOS_PER_MILLI,
        codes: codes(&spec.retry.codes),
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
        attempts: spec.retry.attempts,
        refuse_non_idempotent: match spec.retry.non_idempotent {
            NonIdempotent::Deny => 1,
            NonIdempotent::Allow => 0,
        },
        honor_pushback: u32::from(spec.pushback.honor_retry_after),
        deny_reset: match spec.deny.request {
            RequestDenial::Respond503 => 0,
            RequestDenial::Reset => 1,
        },
        retry_after: whole(spec.deny.retry_after.nanos(), NANOS_PER_SECOND),
        pacing_delay: match spec.pacing.jitter {
            Jitter::Full => whole(spec.pacing.max_delay.nanos(), NANOS_PER_MILLI),
            Jitter::None => 0,
        },
        protocol: match spec.protocol {
            Protocol::Auto => protocol::AUTO,
            Protocol::Http1 => protocol::HTTP1,
            Protocol::Opaque => protocol::OPAQUE,
        },
    }
}

/// A duration in whole units, rounded up.
fn whole(nanos: u64, unit: u64) -> u32 {
    u32::try_from(nanos.div_ceil(unit)).unwrap_or(u32::MAX)
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
    use crate::policy::units::GoDuration;

    #[test]
    fn the_default_policy_in_enforce_mode_is_the_default_of_the_law() {
        let spec = Spec {
            mode: Mode::Enforce,
            ..Spec::default()
        };
        assert_eq!(params(&spec), Params::DEFAULT);
    }

    #[test]
    fn what_concerns_requests_is_what_the_policy_says() {
        let mut spec = Spec::default();
        spec.retry.codes = vec![400, 503, 599];
        spec.retry.attempts = 0;
        spec.retry.non_idempotent = NonIdempotent::Allow;
        spec.pushback.honor_retry_after = false;
        spec.deny.request = RequestDenial::Reset;
        spec.deny.retry_after = GoDuration::secs(90);
        spec.pacing.jitter = Jitter::None;
        spec.protocol = Protocol::Opaque;
        let params = params(&spec);
        let failures: Vec<u32> = (0..1_000)
            .filter(|code| params.is_failure::<std::sync::atomic::AtomicU64>(*code))
            .collect();
        assert_eq!(failures, [400, 503, 599]);
        assert_eq!(params.attempts, 0);
        assert_eq!(params.refuse_non_idempotent, 0);
        assert_eq!(params.honor_pushback, 0);
        assert_eq!(params.deny_reset, 1);
        assert_eq!(params.retry_after, 90);
        assert_eq!(params.pacing_delay, 0);
        assert_eq!(params.protocol, protocol::OPAQUE);
    }
}
