//! The parameters of one policy, as the kernel reads them: integers only.

use bytemuck::{Pod, Zeroable};

use crate::units::{BasisPoints, Millis, Nanos};

/// What is done with a verdict.
pub mod mode {
    /// Neither judged nor counted against the law; only seen.
    pub const DISABLED: u32 = 0;
    /// Judged and counted; everything passes.
    pub const AUDIT: u32 = 1;
    /// Judged, counted and carried out.
    pub const ENFORCE: u32 = 2;
}

/// How the limiter works.
pub mod concurrency {
    /// No limit.
    pub const DISABLED: u32 = 0;
    /// Dormant until distress, then adaptive.
    pub const ADAPTIVE: u32 = 1;
    /// A constant limit.
    pub const FIXED: u32 = 2;
}

/// The parameters of one policy. Built by the daemon from a `RetryPolicy`;
/// every field there has bounds, so none is checked again here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Params {
    /// Length of a tenth of the budget interval, ns.
    pub budget_epoch: u64,
    /// Length of a tenth of the breaker interval, ns.
    pub breaker_epoch: u64,
    /// Window without a success for the `consecutive` rule, ms.
    pub breaker_interval: u64,
    /// Least silence for the `silence` rule, ms.
    pub silence_for: u64,
    /// Open time after the first trip, ms.
    pub open_base: u64,
    /// Longest open time before jitter, ms.
    pub open_max: u64,
    /// Shortest time a probe may take before it counts as lost, ms.
    pub probe_timeout: u64,
    /// Time over which admission returns after the breaker closes, ms.
    pub ramp: u64,
    /// How long a failure is evidence that the next attempt is a retry, ms.
    pub evidence_window: u64,
    /// [`mode`].
    pub mode: u32,
    /// 1 where the retry budget is enforced.
    pub budget_enabled: u32,
    /// Retries allowed per success, basis points.
    pub budget_percent: u32,
    /// Ceiling of the reserve, retries per budget interval.
    pub reserve_ceiling: u32,
    /// Floor of the reserve, retries per budget interval (one per second).
    pub reserve_floor: u32,
    /// Share of the reserve for one workload while another retries, basis points.
    pub reserve_share: u32,
    /// 1 where the breaker is enforced.
    pub breaker_enabled: u32,
    /// Failures in a row for the `silence` rule.
    pub silence_failures: u32,
    /// Failures in a row for the `consecutive` rule.
    pub consecutive_failures: u32,
    /// Opt-in: failures among outcomes that trip, basis points; 0 is off.
    pub failure_share: u32,
    /// Outcomes needed before `failure_share` may trip.
    pub failure_minimum: u32,
    /// Jitter of the open time, basis points of it.
    pub open_jitter: u32,
    /// [`concurrency`].
    pub concurrency: u32,
    /// Lowest limit of the adaptive limiter.
    pub limit_floor: u32,
    /// Limit where `concurrency` is fixed.
    pub limit_fixed: u32,
    /// Latency over baseline that counts as high, hundredths.
    pub latency_tolerance: u32,
    /// Errno of a denied connect, positive.
    pub connect_errno: u32,
    /// Zero.
    pub reserved: u32,
}

impl Params {
    /// The defaults of CONTRACT.md, in Enforce mode.
    pub const DEFAULT: Self = Self {
        budget_epoch: 1_000_000_000,
        breaker_epoch: 1_000_000_000,
        breaker_interval: 10_000,
        silence_for: 2_000,
        open_base: 1_000,
        open_max: 5_000,
        probe_timeout: 5_000,
        ramp: 1_000,
        evidence_window: 10_000,
        mode: mode::ENFORCE,
        budget_enabled: 1,
        budget_percent: 1_000,
        reserve_ceiling: 100,
        reserve_floor: 10,
        reserve_share: 5_000,
        breaker_enabled: 1,
        silence_failures: 20,
        consecutive_failures: 7,
        failure_share: 0,
        failure_minimum: 20,
        open_jitter: 5_000,
        concurrency: concurrency::ADAPTIVE,
        limit_floor: 1,
        limit_fixed: 0,
        latency_tolerance: 200,
        connect_errno: 111,
        reserved: 0,
    };

    /// The epoch of the budget window at `now`.
    #[inline(always)]
    pub fn budget_epoch(&self, now: Nanos) -> u64 {
        now.0.checked_div(self.budget_epoch).unwrap_or(0)
    }

    /// The epoch of the breaker's window at `now`.
    #[inline(always)]
    pub fn breaker_epoch(&self, now: Nanos) -> u64 {
        now.0.checked_div(self.breaker_epoch).unwrap_or(0)
    }

    /// Retries allowed per success.
    #[inline(always)]
    pub const fn percent(&self) -> BasisPoints {
        BasisPoints(self.budget_percent)
    }

    /// How long a failure is evidence.
    #[inline(always)]
    pub const fn evidence(&self) -> Millis {
        Millis(self.evidence_window)
    }
}
