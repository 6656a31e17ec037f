//! What is known of equal requests: whether one failed a moment ago, so that
//! the next is a retry of it, and whether they come again by themselves, so
//! that it need not be.
//!
//! One entry per fingerprint, or per operation that a request names, in a map
//! that forgets the least recently used: all of it can be learned again. Two
//! words, few loads and stores. A lost race loses one observation; none
//! invents a failure.
//!
//! ```text
//! unknown --request--> open --success--> succeeded --equal request--> repeats
//!                       |  '--equal request, then success-----------> (for good)
//!                       '--failure--> failed: an equal request within the
//!                                     window is a retry, until a success
//! ```
//!
//! An equal request while one is open says nothing yet: some clients send the
//! retry before they close what timed out (urllib3, Ruby). Where the first
//! success comes then, it was a hedge: whoever closes the other one did not give
//! up ([`Chain::is_outrun`]).
//!
//! An answer that says that the request is written wrongly ([`Result::Wrong`])
//! is one for all that are written alike: for a second. Who asks again later
//! comes again by itself, or else a poller would be refused for ever.
//!
//! The evidence ages from the real failure: a refused retry never comes here.
//! It is not used up either: what is refused comes again, and is a retry still.

use crate::cell::Cell;
use crate::rules::about;
use crate::status;
use crate::units::Millis;
use crate::verdict::Outcome;

/// What the last try came to.
mod last {
    /// It was never seen.
    pub const UNKNOWN: u64 = 0;
    /// It is not known yet.
    pub const OPEN: u64 = 1;
    /// It was answered.
    pub const SUCCEEDED: u64 = 2;
    /// It failed, or was answered for good.
    pub const FAILED: u64 = 3;
}

/// The word: last 2 | proven 1 | repeats 1 | overlapped 1 | again 1 | twin 1 | wrong 1 |
/// - 6 | about 2 | number 8 | at 40 (ms).
const AT_MASK: u64 = (1 << 40) - 1;
const NUMBER_SHIFT: u32 = 40;
const NUMBER_MAX: u64 = 0xff;
const ABOUT_SHIFT: u32 = 48;
const ABOUT_MASK: u64 = (about::FINAL | about::TOOK_EFFECT) as u64;
/// Failed: it was told that it is wrong, and is evidence for [`WRONG_FOR`] only.
const WRONG: u64 = 1 << 56;
/// Succeeded: another one was on its way for the first time.
const TWIN: u64 = 1 << 57;
/// It came again after it was told that it is wrong. It repeats, as far as equal
/// ones go, but says nothing of the workload: its retries may be that late.
const AGAIN: u64 = 1 << 58;
/// Open: another one is.
const OVERLAPPED: u64 = 1 << 59;
const REPEATS: u64 = 1 << 60;
const PROVEN: u64 = 1 << 61;
const LAST_SHIFT: u32 = 62;
/// What is remembered for good.
const STICKY: u64 = REPEATS | PROVEN | AGAIN;

/// So long after it was told that it is wrong an equal request is a retry. Of
/// the retry policies we know the first two or three waits are shorter; of
/// health checks and people hardly any is.
const WRONG_FOR: Millis = Millis(1_000);
/// Who hedges closes what it needs no more as soon as the other is answered; an
/// event loop on a busy machine takes some time for it.
const OUTRUN_FOR: Millis = Millis(1_000);

/// What is known of requests with one fingerprint, or one operation's name.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Chain<C = u64> {
    word: C,
    /// When the first try of the chain was, ms.
    started: C,
}

/// Which try of which chain a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Link {
    /// When the first try of its chain was.
    pub started: Millis,
    /// Which try it is, from 1.
    pub number: u32,
    /// How the try before failed: [`about::FINAL`], [`about::TOOK_EFFECT`].
    pub about: u32,
}

/// How equal requests were seen before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Seen {
    /// Not, or not lately.
    #[default]
    Fresh = 0,
    /// One is not answered yet.
    Open = 1,
    /// The last one was answered: it comes again by itself.
    Repetition = 2,
    /// The last one failed.
    Failed = 3,
    /// The last one failed, and it comes again by itself.
    FailedButRepeats = 4,
}

/// What the entry of a request says when the request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sighting {
    /// Which try of which chain it would be.
    pub link: Link,
    /// How it was seen before.
    pub seen: Seen,
}

impl Link {
    /// The same, with a number that is at least this.
    #[inline(always)]
    pub const fn at_least(self, number: u32) -> Self {
        Self {
            number: if number > self.number {
                number
            } else {
                self.number
            },
            ..self
        }
    }
}

impl Sighting {
    /// The chain it continues, if an equal one failed.
    #[inline(always)]
    pub const fn failed(&self) -> Option<Link> {
        match self.seen {
            Seen::Failed | Seen::FailedButRepeats => Some(self.link),
            _ => None,
        }
    }
}

/// How a request ended, for the next equal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Result {
    /// Nothing is known: its caller went away.
    Nothing = 0,
    /// It was answered; sending it again is another operation.
    Success = 1,
    /// It failed, and nothing came of it.
    Failed = 2,
    /// It failed, and may have taken effect.
    Unclear = 3,
    /// It was answered, and will be answered alike again: to the same operation.
    Final = 4,
    /// It was answered that it is written wrongly: all that are equal will be.
    Wrong = 5,
}

/// What is learned of a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing new.
    Nothing,
    /// It succeeded for the first time, as far as is remembered.
    Distinct,
    /// It comes again by itself.
    Repeats,
    /// Both at once: two were in flight when the first success came.
    DistinctButRepeats,
}

/// What an answer told its caller about another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Advice {
    /// Nothing.
    None = 0,
    /// Not to try again.
    NoRetry = 1,
}

impl Result {
    /// Of an exchange that ended so. `status` is 0 where nothing was answered.
    #[inline(always)]
    pub const fn of(outcome: Outcome, status: u32, advice: Advice) -> Self {
        let told_not_to = matches!(advice, Advice::NoRetry) && status >= 400;
        match outcome {
            Outcome::Cancelled => Self::Nothing,
            Outcome::Refused | Outcome::Unreachable => Self::Failed,
            Outcome::Timeout | Outcome::Reset | Outcome::NoAnswer => Self::Unclear,
            Outcome::Status | Outcome::Success if told_not_to => Self::Final,
            // What a policy calls a failure may be tried again.
            Outcome::Status if status::may_have_taken_effect(status) => Self::Unclear,
            Outcome::Status => Self::Failed,
            Outcome::Success if status::is_final(status) => Self::Final,
            Outcome::Success => Self::Success,
        }
    }

    /// The same for who is only equal. An answer that will not change is one to
    /// them where it is about what is written in the request; else nothing
    /// failed: a health check takes a 405 for life, another user's 403 says
    /// nothing of this one.
    #[inline(always)]
    pub const fn for_equals(self, outcome: Outcome, status: u32) -> Self {
        match (self, outcome) {
            (Self::Final, Outcome::Success) if status::is_about_the_request(status) => Self::Wrong,
            (_, Outcome::Success) => Self::Success,
            _ => self,
        }
    }

    #[inline(always)]
    const fn about(self) -> u32 {
        match self {
            Self::Unclear => about::TOOK_EFFECT,
            Self::Final | Self::Wrong => about::FINAL,
            _ => 0,
        }
    }
}

/// Whether an equal request that comes now is a retry of the one that failed.
#[inline(always)]
const fn has_failed(word: u64, now: Millis, window: Millis) -> bool {
    let window = if word & WRONG != 0 && window.0 > WRONG_FOR.0 {
        WRONG_FOR
    } else {
        window
    };
    word >> LAST_SHIFT == last::FAILED && !now.quiet_for(Millis(word & AT_MASK), window)
}

#[inline(always)]
const fn pack(last: u64, bits: u64, about: u32, number: u32, at: Millis) -> u64 {
    let number = if (number as u64) < NUMBER_MAX {
        number as u64
    } else {
        NUMBER_MAX
    };
    last << LAST_SHIFT
        | bits
        | (about as u64 & ABOUT_MASK) << ABOUT_SHIFT
        | number << NUMBER_SHIFT
        | at.0 & AT_MASK
}

impl<C: Cell> Chain<C> {
    /// What is known of equal requests. Changes nothing: what is refused was
    /// never sent (I1).
    #[inline(always)]
    pub fn look(&self, now: Millis, window: Millis) -> Sighting {
        let word = self.word.load();
        if has_failed(word, now, window) {
            return Sighting {
                link: Link {
                    started: Millis(self.started.load()),
                    number: (word >> NUMBER_SHIFT & NUMBER_MAX) as u32 + 1,
                    about: (word >> ABOUT_SHIFT & ABOUT_MASK) as u32,
                },
                seen: if word & (REPEATS | AGAIN) == 0 {
                    Seen::Failed
                } else {
                    Seen::FailedButRepeats
                },
            };
        }
        let recent = !now.quiet_for(Millis(word & AT_MASK), window);
        Sighting {
            link: Link {
                started: now,
                number: 1,
                about: 0,
            },
            seen: match (recent, word >> LAST_SHIFT) {
                (true, last::OPEN) => Seen::Open,
                (true, last::SUCCEEDED | last::FAILED) => Seen::Repetition,
                _ => Seen::Fresh,
            },
        }
    }

    /// A request is sent. Without a failure within the window it begins a chain
    /// of its own.
    #[inline(always)]
    pub fn sent(&self, now: Millis, window: Millis) -> Learned {
        let word = self.word.load();
        if has_failed(word, now, window) {
            return Learned::Nothing;
        }
        let recent = !now.quiet_for(Millis(word & AT_MASK), window);
        let (more, learned) = match (recent, word >> LAST_SHIFT) {
            (true, last::OPEN) => (OVERLAPPED, Learned::Nothing),
            (true, last::SUCCEEDED) if word & REPEATS == 0 => (REPEATS, Learned::Repeats),
            (true, last::FAILED) => (AGAIN, Learned::Nothing),
            _ => (0, Learned::Nothing),
        };
        self.started.store(now.0);
        // Lost race: another equal one was seen, or one ended; that counts too.
        let open = pack(last::OPEN, word & STICKY | more, 0, 0, now);
        if self.word.compare_exchange(word, open).is_ok() {
            learned
        } else {
            Learned::Nothing
        }
    }

    /// A try ended. Of concurrent ones the highest number counts.
    #[inline(always)]
    pub fn ended(&self, now: Millis, window: Millis, link: &Link, result: Result) -> Learned {
        let word = self.word.load();
        let sticky = word & STICKY;
        let overlapped = word & OVERLAPPED != 0;
        let mut learned = Learned::Nothing;
        let next = match result {
            // Nothing came of it, and nothing is known: as if it had not been sent.
            Result::Nothing if word >> LAST_SHIFT == last::OPEN => {
                pack(last::UNKNOWN, sticky, 0, 0, now)
            }
            Result::Nothing => return Learned::Nothing,
            Result::Success => {
                let repeats = if overlapped { REPEATS } else { 0 };
                let hedged = overlapped && word & (REPEATS | AGAIN) == 0;
                let twin = if hedged { TWIN } else { 0 };
                learned = match (word & PROVEN, repeats & !word) {
                    (0, 0) => Learned::Distinct,
                    (0, _) => Learned::DistinctButRepeats,
                    (_, 0) => Learned::Nothing,
                    _ => Learned::Repeats,
                };
                let bits = sticky | PROVEN | repeats | twin;
                pack(last::SUCCEEDED, bits, 0, 0, now)
            }
            _ => {
                let other = if has_failed(word, now, window) {
                    (word >> NUMBER_SHIFT & NUMBER_MAX) as u32
                } else {
                    0
                };
                let number = if other > link.number {
                    other
                } else {
                    self.started.store(link.started.0);
                    link.number
                };
                let more = match (result, overlapped) {
                    // Two at once: they come by themselves.
                    (Result::Wrong, true) => WRONG | AGAIN,
                    (Result::Wrong, false) => WRONG,
                    _ => 0,
                };
                pack(last::FAILED, sticky | more, result.about(), number, now)
            }
        };
        if self.word.compare_exchange(word, next).is_ok() {
            learned
        } else {
            Learned::Nothing
        }
    }

    /// Whether a request that was sent at `since`, and that its caller closes now,
    /// was a hedge that is not needed any more: an equal one was just answered
    /// while both were on their way. Only of the first such pair: on a target that
    /// many ask for, someone is always answered.
    #[inline(always)]
    pub fn is_outrun(&self, since: Millis, now: Millis) -> bool {
        let word = self.word.load();
        let answered = Millis(word & AT_MASK);
        word >> LAST_SHIFT == last::SUCCEEDED
            && word & TWIN != 0
            && answered.0 >= since.0
            && !now.quiet_for(answered, OUTRUN_FOR)
    }

    /// Whether it comes again by itself.
    pub fn repeats(&self) -> bool {
        self.word.load() & REPEATS != 0
    }
}

/// The name of an operation: what names it by itself, else what does together
/// with the fingerprint (a trace covers many calls); 0: nothing does.
#[inline(always)]
pub const fn operation(key: u64, weak_key: u64, fingerprint: u64) -> u64 {
    if key != 0 || weak_key == 0 {
        return key;
    }
    (weak_key ^ fingerprint.rotate_left(31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}
