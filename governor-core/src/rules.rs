//! Which retries are not worth sending, whatever the budget: those after an
//! answer that will not change, those nobody waits for, those that go on too
//! long, and those that may do twice what was to be done once.
//!
//! They refuse on exact evidence only (I2).

use crate::evidence::Evidence;
use crate::http::{RequestScan, method, request};
use crate::params::Params;
use crate::units::Millis;
use crate::verdict::Reason;

/// What is known of the chain of tries that an attempt continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeat {
    /// How old the chain is.
    pub age: Millis,
    /// Which try it is, from 1; 0: nothing is known.
    pub number: u32,
    /// [`about`].
    pub about: u32,
}

/// Bits of [`Repeat::about`].
pub mod about {
    /// The failed try was answered, and will be answered alike again.
    pub const FINAL: u32 = 1;
    /// The failed try may have taken effect.
    pub const TOOK_EFFECT: u32 = 2;
    /// Doing it twice is not like doing it once.
    pub const NOT_IDEMPOTENT: u32 = 4;
    /// Its caller has stopped waiting.
    pub const EXPIRED: u32 = 8;
}

impl Repeat {
    /// Of an attempt that nothing is known of.
    pub const NONE: Self = Self {
        age: Millis(0),
        number: 0,
        about: 0,
    };

    /// Whether something is known to be so: one of [`about`].
    #[inline(always)]
    pub const fn is(&self, what: u32) -> bool {
        self.about & what == what
    }
}

/// What a request says of itself that matters when it is a retry: bits of
/// [`about`]. `wall` is the time of day, s since 1970.
#[inline(always)]
pub const fn said(request: &RequestScan, wall: u64) -> u32 {
    let safe = request.flags & request::flag::IDEMPOTENT != 0
        || !matches!(request.method, method::POST | method::PATCH | method::OTHER);
    let mut said = if safe { 0 } else { about::NOT_IDEMPOTENT };
    // A proxy whose own time is up says 1 ms (0 would be for ever):
    // `x-envoy-expected-rq-timeout-ms` is what is left, not what there was.
    let out_of_time = request.patience == 1;
    if out_of_time || (request.expires != 0 && wall > request.expires) {
        said |= about::EXPIRED;
    }
    said
}

/// Whether a rule refuses a retry.
#[inline(always)]
pub fn refuse(p: &Params, evidence: Evidence, repeat: &Repeat) -> Option<Reason> {
    if !matches!(evidence, Evidence::Exact) {
        return None;
    }
    if repeat.is(about::FINAL) {
        return Some(Reason::NotRetryable);
    }
    if repeat.is(about::EXPIRED) || repeat.age.0 > p.deadline {
        return Some(Reason::Deadline);
    }
    if repeat.number > p.attempts + 1 {
        return Some(Reason::Attempts);
    }
    if repeat.is(about::NOT_IDEMPOTENT | about::TOOK_EFFECT) && p.refuse_non_idempotent != 0 {
        return Some(Reason::NonIdempotent);
    }
    None
}
