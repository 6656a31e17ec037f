//! What a destination asks of its callers: `Retry-After`.
//!
//! It refuses retries until then. First tries only when answers over two seconds
//! were all pushback: one API key's 429 must not stop a workload. Any success
//! clears it.

use crate::cell::Cell;
use crate::order::Kind;
use crate::params::Params;
use crate::units::Millis;

/// How far apart answers must lie, with nothing but pushback between, before
/// first tries are refused; and how long after a wait is over a new one still continues it.
const INSISTENCE: Millis = Millis(2_000);

/// The wait that a destination asked of one workload.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Pushback<C = u64> {
    /// Until when, ms; 0: it asked for none.
    until: C,
    /// Since when nothing else was answered, ms; 0: something else was.
    since: C,
    /// When it last was, ms.
    last: C,
}

impl<C: Cell> Pushback<C> {
    /// Until when callers are asked to wait; [`Millis::NEVER`]: they are not.
    #[inline(always)]
    pub fn until(&self) -> Millis {
        Millis(self.until.load())
    }

    /// Whether it refuses an attempt.
    #[inline(always)]
    pub fn refuses(&self, p: &Params, now: Millis, kind: Kind) -> bool {
        if now.0 >= self.until.load() || p.honor_pushback == 0 {
            return false;
        }
        if matches!(kind, Kind::Retry) {
            return true;
        }
        let since = self.since.load();
        since != 0 && self.last.load().saturating_sub(since) >= INSISTENCE.0
    }

    /// The destination asked to wait.
    #[inline(always)]
    pub fn asked(&self, p: &Params, now: Millis, wait: Millis) {
        let wait = if wait.0 > p.pushback_max {
            p.pushback_max
        } else {
            wait.0
        };
        let until = self.until.load();
        if self.since.load() == 0 || now.0 > until + INSISTENCE.0 {
            self.since.store(now.0);
        }
        self.last.store(now.0);
        // The longest wait that was asked for counts.
        if now.0 + wait > until {
            self.until.store(now.0 + wait);
        }
    }

    /// It answered with another failure: it does not only push back.
    #[inline(always)]
    pub fn interrupted(&self) {
        if self.since.load() != 0 {
            self.since.store(0);
        }
    }

    /// It answered: nobody has to wait.
    #[inline(always)]
    pub fn cleared(&self) {
        if self.until.load() != 0 {
            self.until.store(0);
            self.since.store(0);
        }
    }
}
