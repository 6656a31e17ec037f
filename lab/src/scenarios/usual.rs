//! What most storms have in common: one service, and callers who try again three times, without jitter.

use crate::stage::policy;

/// Where the service listens.
pub const PORT: u16 = 8080;
/// It, as a destination of the policy.
pub const SERVICE: (&str, u16) = ("service", PORT);
/// How its callers try, as options of a crowd.
pub const RETRIES: &str = "--retry naive --tries 4 --delay 50ms";

/// Of a policy: no breaker.
pub const NO_BREAKER: &str = "circuitBreaker: {mode: Disabled}";
/// Of a policy: nothing but the budget and the rules for single retries.
pub const BUDGET_ALONE: &str = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}";

/// A share as people read it.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A time until something is so, as people read it; NaN: it never was.
pub fn after(seconds: f64) -> String {
    match seconds.is_nan() {
        true => "never".to_owned(),
        false => format!("{seconds:.1} s"),
    }
}

/// The policy for it: `spec` is what else it says, see [`policy`].
pub fn governed(spec: &str) -> String {
    policy(&[SERVICE], spec)
}
