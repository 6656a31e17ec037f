//! Whether an attempt repeats a failed one.
//!
//! A request says so itself, or names its operation, or is equal to one that
//! failed: [`of_request`]. A connect carries nothing that says so. Two things are
//! known: that the same thread failed here a moment ago, and that someone of the
//! same workload did.
//! The second is counted and shown but refuses nothing: with callers that
//! never retry and one of three backends refusing, guessing at the level of
//! the workload refused 20 % of first tries (simulated).
//!
//! The first refuses only a *sequential* caller: a thread that has made no
//! other attempt in between and comes back sooner than half its own healthy
//! gap, at most once per failure (I2).

use crate::cell::Cell;
use crate::chain::{Link, Seen, Sighting};
use crate::units::Millis;

/// What is known about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Evidence {
    /// Nothing: a first try.
    None = 0,
    /// Someone of this workload failed here within the window, or an equal
    /// request that may come again by itself did. Refuses nothing.
    Inferred = 1,
    /// This thread did, and came back too soon for a first try.
    Thread = 2,
    /// The attempt says so itself, or is equal to the failed one.
    Exact = 3,
}

impl Evidence {
    /// From its number; what is unknown is no evidence.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Inferred,
            2 => Self::Thread,
            3 => Self::Exact,
            _ => Self::None,
        }
    }

    /// Whether rules may refuse on it.
    #[inline(always)]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Thread | Self::Exact)
    }
}

/// What a request is called, apart from what it looks like.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// Nothing.
    None,
    /// What only names it together with its fingerprint (a trace, a request's id).
    Weak(&'a Sighting),
    /// The operation (an idempotency key, an SDK's invocation).
    Strong(&'a Sighting),
}

/// Whether an equal request is the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Not known: few different ones were seen, or many of them come again by
    /// themselves.
    Unknown,
    /// Healthy requests of this workload differ from one another.
    Distinct,
}

impl History {
    /// Different requests that must have succeeded before equality means anything.
    const LEAST: u64 = 20;

    /// Of so many different requests that succeeded and so many that come again
    /// by themselves: at most every tenth may.
    #[inline(always)]
    pub const fn of(fingerprints: u64, repeating: u64) -> Self {
        if fingerprints >= Self::LEAST && repeating * 10 <= fingerprints {
            Self::Distinct
        } else {
            Self::Unknown
        }
    }
}

/// What is known about a request: whether it repeats a failed one, and which
/// try it is as far as tries were seen. `declared` is the try that it says it is,
/// 0 where it says none: a caller may say any number, so rules go by the higher
/// one ([`Link::at_least`]), and what is counted does not.
///
/// It is a retry where it says so, where the operation it names failed, or where
/// an equal one failed, none of them comes again by itself, and healthy requests
/// differ. Equality alone is a guess: on one hot target, users look alike.
#[inline(always)]
pub fn of_request(
    now: Millis,
    declared: u32,
    print: &Sighting,
    name: Name<'_>,
    history: History,
) -> (Evidence, Link) {
    let repeats = declared >= 2;
    let own = Link {
        started: now,
        number: 1,
        about: 0,
    };
    let (named, another) = match name {
        Name::None => (None, false),
        Name::Weak(sighting) => (sighting.failed(), false),
        // A new name is another operation, however equal it looks.
        Name::Strong(sighting) => (sighting.failed(), sighting.failed().is_none()),
    };
    if let Some(link) = named {
        return (Evidence::Exact, link);
    }
    let known = matches!(print.seen, Seen::Failed) && !another;
    let link = if known { print.link } else { own };
    if repeats || known && matches!(history, History::Distinct) {
        (Evidence::Exact, link)
    } else if print.failed().is_some() {
        (Evidence::Inferred, link)
    } else {
        (Evidence::None, link)
    }
}

/// The unclaimed failures of a workload at an endpoint: each explains at most
/// one later attempt. Time of the last real failure, ms, 40 bits | count, 24.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Claims<C = u64> {
    word: C,
}

const CLAIM_BITS: u32 = 24;
const CLAIM_MASK: u64 = (1 << CLAIM_BITS) - 1;

impl<C: Cell> Claims<C> {
    /// A real failure at `now`. Denials never come here (I1).
    #[inline(always)]
    pub fn failed(&self, now: Millis, window: Millis) {
        let seen = self.word.load();
        let count = if now.quiet_for(Millis(seen >> CLAIM_BITS), window) {
            0
        } else {
            seen & CLAIM_MASK
        };
        let count = if count < CLAIM_MASK { count + 1 } else { count };
        // Lost race: one claim less, and this only counts what is suspected.
        let _ = self
            .word
            .compare_exchange(seen, now.0 << CLAIM_BITS | count);
    }

    /// Takes one failure within the window as the reason for an attempt.
    #[inline(always)]
    pub fn claim(&self, now: Millis, window: Millis) -> bool {
        let seen = self.word.load();
        if seen & CLAIM_MASK == 0 || now.quiet_for(Millis(seen >> CLAIM_BITS), window) {
            return false;
        }
        self.word.compare_exchange(seen, seen - 1).is_ok()
    }
}

/// What the last attempt of a thread is known to have come to.
mod last {
    /// Nothing known yet, or already used as evidence.
    pub const OPEN: u64 = 0;
    /// It failed.
    pub const FAILED: u64 = 1;
    /// It succeeded.
    pub const SUCCEEDED: u64 = 2;
}

/// Healthy gaps a thread must have shown before its haste means anything.
const LEAST_HISTORY: u64 = 3;
/// Where the run begins in the word of the last attempt, and the longest one.
const RUN_SHIFT: u32 = 34;
const RUN_MAX: u64 = 0xff;

/// What a thread's attempt is, as far as the thread's own history says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// It repeats the failed one before it: it came too soon for a first try.
    pub repeats: bool,
    /// The number by which its outcome is reported.
    pub number: u32,
    /// Which try of one operation it may be, from 1: each came after a failure
    /// of the one before, and too soon for a first try where that is known. A
    /// guess where it is not: a new thread has no history.
    pub run: u32,
}

/// One thread's history of attempts. Its writer is the thread itself; only
/// [`ThreadHistory::ended`] comes from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ThreadHistory<C = u64> {
    /// Hash of the endpoint of the last attempt.
    endpoint: C,
    /// When that was, ms.
    attempted: C,
    /// How it ended 2 | number of the attempt 32 | [`Noted::run`] 8.
    last: C,
    /// When it failed, ms.
    failed: C,
    /// Mean healthy gap between attempts to one endpoint, ms.
    gap: C,
    /// How many healthy gaps were seen.
    history: C,
    /// Refused requests: second, 32 bits | count in it, 32 bits.
    denials: C,
}

impl<C: Cell> ThreadHistory<C> {
    /// Notes an attempt; says whether it repeats the failed one before it.
    #[inline(always)]
    pub fn attempt(&self, endpoint: u64, now: Millis, window: Millis) -> Noted {
        let last = self.last.load();
        let same = self.endpoint.load() == endpoint;
        let gap = now.0.saturating_sub(self.attempted.load());
        let mean = self.gap.load();
        let history = self.history.load();
        let known = history >= LEAST_HISTORY;
        let follows = same
            && last & 3 == last::FAILED
            && !now.quiet_for(Millis(self.failed.load()), window)
            && (!known || gap * 2 < mean);
        let before = if follows { last >> RUN_SHIFT } else { 0 };
        let run = if before < RUN_MAX {
            before + 1
        } else {
            RUN_MAX
        };
        if same && last & 3 == last::SUCCEEDED {
            self.gap.store(if history == 0 {
                gap
            } else {
                mean - mean / 4 + gap / 4
            });
            self.history.store(history + 1);
        }
        let number = (last >> 2).wrapping_add(1) as u32;
        self.last
            .store(run << RUN_SHIFT | (number as u64) << 2 | last::OPEN);
        self.endpoint.store(endpoint);
        self.attempted.store(now.0);
        Noted {
            repeats: follows && known,
            number,
            run: run as u32,
        }
    }

    /// Counts a refused request of it: how many there were in this second.
    #[inline(always)]
    pub fn denied(&self, now: Millis) -> u64 {
        let second = (now.0 / 1_000) & 0xffff_ffff;
        let seen = self.denials.load();
        let count = if seen >> 32 == second {
            (seen & 0xffff_ffff) + 1
        } else {
            1
        };
        self.denials.store(second << 32 | count);
        count
    }

    /// The attempt `number` ended. Ignored if the thread has gone on.
    #[inline(always)]
    pub fn ended(&self, number: u32, now: Millis, success: bool) {
        let seen = self.last.load();
        if (seen >> 2) as u32 != number {
            return;
        }
        if !success {
            self.failed.store(now.0);
        }
        let how = if success {
            last::SUCCEEDED
        } else {
            last::FAILED
        };
        // Lost race: the thread has gone on.
        let _ = self.last.compare_exchange(seen, seen & !3 | how);
    }
}
