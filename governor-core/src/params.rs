//! The parameters of one policy, as the kernel reads them: integers only.

use bytemuck::{Pod, Zeroable};

use crate::cell::Cell;
use crate::units::{BasisPoints, Millis, Nanos};
use crate::verdict::Outcome;

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

/// How exchanges are told apart.
pub mod protocol {
    /// By the first bytes of the connection.
    pub const AUTO: u32 = 0;
    /// HTTP/1: the same as `AUTO`, the programs read every connection that is not opaque.
    pub const HTTP1: u32 = 1;
    /// Bytes out, bytes in.
    pub const OPAQUE: u32 = 2;
}

/// Words of the bitmap of status codes.
const CODE_WORDS: usize = 4;
/// The lowest status code in it.
const LOWEST_CODE: u32 = 400;

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
    /// Oldest chain of tries that may be continued, ms.
    pub deadline: u64,
    /// Longest `Retry-After` that is believed, ms.
    pub pushback_max: u64,
    /// Status codes that are failures: bit `n` is 400 + `n`; see [`codes`].
    pub codes: [u64; CODE_WORDS],
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
    /// Tries after the first.
    pub attempts: u32,
    /// 1: a repetition that may take effect twice is refused.
    pub refuse_non_idempotent: u32,
    /// 1: `Retry-After` refuses.
    pub honor_pushback: u32,
    /// 1: a denied request is reset; 0: it is answered.
    pub deny_reset: u32,
    /// What our own answer says in `Retry-After`, s.
    pub retry_after: u32,
    /// Longest delay of an admitted retry, ms; 0: none.
    pub pacing_delay: u32,
    /// [`protocol`].
    pub protocol: u32,
}

/// The bitmap of these status codes; what is not from 400 to 655 is left out.
pub const fn codes(list: &[u16]) -> [u64; CODE_WORDS] {
    let mut bits = [0; CODE_WORDS];
    let mut i = 0;
    while i < list.len() {
        let n = (list[i] as usize).wrapping_sub(LOWEST_CODE as usize);
        if n < CODE_WORDS * 64 {
            bits[n / 64] |= 1 << (n % 64);
        }
        i += 1;
    }
    bits
}

impl Params {
    /// The default policy, in Enforce mode.
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
        deadline: 30_000,
        pushback_max: 30_000,
        codes: codes(&[429, 500, 502, 503, 504]),
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
        attempts: 3,
        refuse_non_idempotent: 1,
        honor_pushback: 1,
        deny_reset: 0,
        retry_after: 1,
        pacing_delay: 250,
        protocol: protocol::AUTO,
    };

    /// Whether the policy calls a status a failure.
    #[inline(always)]
    pub fn is_failure<C: Cell>(&self, status: u32) -> bool {
        let n = status.wrapping_sub(LOWEST_CODE) as usize;
        match self.codes.get(C::opaque(n / 64)) {
            Some(bits) => n < CODE_WORDS * 64 && bits >> (n % 64) & 1 == 1,
            None => false,
        }
    }

    /// What an answer with this status comes to.
    #[inline(always)]
    pub fn outcome<C: Cell>(&self, status: u32) -> Outcome {
        if self.is_failure::<C>(status) {
            Outcome::Status
        } else {
            Outcome::Success
        }
    }

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
