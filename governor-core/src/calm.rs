//! Calm: exchanges that say nothing new.
//!
//! A connection that is used without a pause, for what it was used for a moment ago,
//! at a destination where nothing of this workload has failed: each exchange finds
//! the same ledgers, adds one to the same counts, and no rule could refuse it. Such
//! exchanges are counted on the connection and settled together, [`MOST`] at a time
//! or after [`LONGEST`]. It is what makes the governor cheap where it is not needed.
//!
//! ```text
//!            an attempt within a moment of the last answer
//! ordinary --------------------------------------------------> steady
//!    ^                                                           | it succeeds, and
//!    |  a pause, another request, another answer, MOST, LONGEST, | nothing is wrong
//!    '-- trouble, an order, a new policy: all is settled ----- calm
//! ```
//!
//! Nothing is decided later for it. What ends a stretch is looked at before each
//! attempt and after each answer: any failure of the workload at the destination (its
//! [`Trouble`]) makes the next exchange on each of its connections an ordinary one,
//! and one that is on its way then ends as an ordinary one. What the law learns late
//! it learns of health only, of which it then knows too little: its budget allows less,
//! its breaker has seen the last success earlier, by twice [`LONGEST`] at most (a
//! stretch, and the exchange that outlasts it).
//!
//! Its place in flight a connection keeps from one exchange to the next. It is used
//! without a pause, so that it is in flight for a fifth of the time at least: a limit
//! that is needed later begins up to five times too high, and is right after seven
//! ticks. Fallen idle, the connection loses that place as everything does that does not
//! report, after two seconds; and its last exchanges, fewer than [`MOST`], are counted
//! with its next one or its end.
//!
//! The idea is a fast path that one word of invalidation guards: Linux' own caches
//! of routes and of sockets have one (`rt_genid`, `sk_dst_cookie`).

use bytemuck::{Pod, Zeroable};

use crate::breaker::State;
use crate::cell::Cell;
use crate::http::AnswerScan;
use crate::judge::Ledgers;
use crate::key::{Config, WorkloadKey};
use crate::limiter::{OCTAVES, bucket, middle};
use crate::params::Params;
use crate::units::{Millis, Nanos};

/// Exchanges that are settled together at most.
pub const MOST: u32 = 255;
/// How long a stretch lasts at most: a tick of the limiter.
pub const LONGEST: Nanos = Nanos::from_millis(100);
/// A pause no longer than so many times the exchange before it is none.
const PAUSES: u64 = 4;
/// Nor is one no longer than this, however fast the answers are.
const PAUSE: Nanos = Nanos(200_000);
/// So long nothing has failed: what the breaker calls silence. No rule that does not
/// go by a failed attempt looks back further.
const QUIET: Millis = Millis(2_000);
/// What is settled later than this says nothing of what is in flight now.
const STALE: Nanos = Nanos::from_secs(1);
/// Words of trouble. Who shares one with another is calm less often.
pub const WORDS: u32 = 4_096;

/// Buckets of latency that a stretch tells apart: a factor of four.
const LANES: u32 = 8;
const LANE_BITS: u32 = 8;
const LANE_MASK: u64 = (1 << LANE_BITS) - 1;
/// How many of them lie below the latency that a stretch begins with.
const BELOW: u32 = 3;

const GENERATION_SHIFT: u32 = 40;

/// When something last went wrong for workloads and destinations, ms.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Trouble<C>(C);

impl<C: Cell> Trouble<C> {
    /// Something did: an attempt failed, or was refused.
    #[inline(always)]
    pub fn stir(&self, now: Nanos) {
        self.0.keep(now.stamp().0);
    }

    /// Whether nothing did for a while.
    #[inline(always)]
    pub fn is_quiet(&self, now: Nanos) -> bool {
        now.stamp().quiet_for(Millis(self.0.load()), QUIET)
    }

    /// What stays as it is while nothing goes wrong and nobody changes anything; 0
    /// where an order is in force, which each attempt has to be asked.
    #[inline(always)]
    pub fn seal(&self, config: &Config) -> u64 {
        if config.orders != 0 {
            return 0;
        }
        (config.generation as u64) << GENERATION_SHIFT
            | self.0.load() & ((1 << GENERATION_SHIFT) - 1)
    }
}

/// The word of trouble of a workload at a destination, by number.
#[inline(always)]
pub fn word_of(key: &WorkloadKey) -> u32 {
    let [high, low] = bytemuck::cast::<[u8; 16], [u64; 2]>(key.destination.address);
    let rest = (key.destination.port as u64) << 32 | key.destination.group as u64;
    let mut hash = key.workload.wrapping_mul(FACTOR);
    hash = (hash ^ high ^ rest).wrapping_mul(FACTOR);
    hash = (hash ^ low).wrapping_mul(FACTOR);
    (hash >> 32) as u32 & (WORDS - 1)
}

/// An odd constant, the golden ratio's.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a connection knows of its stretch. While none is on only the first word is used.
///
/// It lies where the record has the scan of an answer: a calm answer is not scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Calm {
    /// Whoever comes until then comes without a pause, ns.
    until: u64,
    /// [`Trouble::seal`] when the stretch began.
    seal: u64,
    /// When it began, ns.
    began: u64,
    /// Exchanges by latency: eight counts of eight bits.
    lanes: u64,
    /// Sum of the latencies, us.
    sum: u64,
    /// [`word_of`] its workload and destination.
    word: u32,
    /// How answers go on after `HTTP/1.1`; 0: they are not read.
    answer: u32,
    /// Bucket of latency of the first lane.
    lowest: u32,
    /// Exchanges that were noted.
    number: u32,
    /// When the last one ended, ns.
    ended: u64,
    /// Zero.
    reserved: [u64; 3],
}

const _: () = assert!(
    size_of::<Calm>() == size_of::<AnswerScan>(),
    "a stretch lies where an answer's scan does"
);

/// Exchanges that are settled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Batch {
    /// When the last of them ended.
    pub last: Nanos,
    /// By latency: see [`Batch::lane`].
    pub lanes: u64,
    /// Sum of the latencies, us.
    pub sum: u64,
    /// Bucket of latency of the first lane.
    pub lowest: u32,
    /// How many.
    pub number: u32,
    /// How many began: one more, where one is on its way.
    pub began: u32,
    /// Whether they are requests, which are attempts each; else turns.
    pub requests: u32,
}

/// Whether the law has nothing to do for the exchanges that follow this one, an
/// admitted first try that succeeded just now after `took` microseconds. Of slow ones
/// the breaker has to know at once that they succeed.
#[inline(always)]
pub fn may_begin<C: Cell>(p: &Params, now: Nanos, took: u64, l: &Ledgers<'_, C>) -> bool {
    took <= LONGEST.micros()
        && matches!(l.endpoint.breaker.view().state, State::Closed)
        && l.endpoint.breaker.is_whole(p, now.stamp())
        && l.endpoint.answers()
        && l.workload.limiter.limit(p).is_none()
        && l.workload.pushback.until().0 == 0
}

impl Calm {
    /// An exchange ended after `took`: who comes now comes without a pause.
    #[inline(always)]
    pub fn rest(&mut self, now: Nanos, took: Nanos) {
        self.until = now.0 + longer(Nanos(took.0 * PAUSES), PAUSE).0;
    }

    /// Whether an attempt comes without a pause.
    #[inline(always)]
    pub const fn is_steady(&self, now: Nanos) -> bool {
        now.0 <= self.until
    }

    /// A stretch begins with the end of an exchange. `status`: of its answer; 0: it was
    /// not read.
    #[inline(always)]
    pub fn begin(&mut self, now: Nanos, took: Nanos, word: u32, seal: u64, status: u32) {
        self.rest(now, took);
        self.seal = seal;
        self.began = now.0;
        self.lanes = 0;
        self.sum = 0;
        self.word = word;
        self.answer = if status == 0 { 0 } else { written(status) };
        self.lowest = number_of(took.micros()).saturating_sub(BELOW);
        self.number = 0;
        self.ended = now.0;
    }

    /// Which word of trouble tells whether it goes on.
    #[inline(always)]
    pub const fn word(&self) -> u32 {
        self.word & (WORDS - 1)
    }

    /// How answers go on after `HTTP/1.1`; 0: they are not read.
    #[inline(always)]
    pub const fn answer(&self) -> u32 {
        self.answer
    }

    /// Whether all is as it was.
    #[inline(always)]
    pub const fn holds(&self, seal: u64) -> bool {
        seal != 0 && seal == self.seal
    }

    /// Whether one more exchange belongs to the stretch.
    #[inline(always)]
    pub const fn goes_on(&self, now: Nanos, seal: u64) -> bool {
        self.is_steady(now)
            && self.number < MOST
            && now.0.saturating_sub(self.began) < LONGEST.0
            && self.holds(seal)
    }

    /// An exchange of the stretch succeeded; whether it was noted. Else it ends as
    /// any other does.
    #[inline(always)]
    pub fn note(&mut self, now: Nanos, took: Nanos) -> bool {
        let micros = took.micros();
        let lane = number_of(micros).wrapping_sub(self.lowest);
        if lane >= LANES || took.0 > LONGEST.0 {
            return false;
        }
        self.lanes += 1 << (lane * LANE_BITS);
        self.sum += micros;
        self.number += 1;
        self.ended = now.0;
        self.rest(now, took);
        true
    }

    /// What has to be settled. `outstanding`: exchanges that have begun and not ended,
    /// none or one.
    #[inline(always)]
    pub const fn batch(&self, outstanding: u32, requests: u32) -> Batch {
        Batch {
            last: Nanos(self.ended),
            lanes: self.lanes,
            sum: self.sum,
            lowest: self.lowest,
            number: self.number,
            began: self.number + outstanding,
            requests,
        }
    }
}

/// How an answer begins, but for its minor version.
const PROTOCOL: u64 = u64::from_le_bytes(*b"HTTP/1.\0");
const PROTOCOL_MASK: u64 = u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]);

/// A status as it stands in an answer: a blank, three digits, the first one lowest.
#[inline(always)]
const fn written(status: u32) -> u32 {
    let digits = [status / 100 % 10, status / 10 % 10, status % 10];
    b' ' as u32
        | (b'0' as u32 + digits[0]) << 8
        | (b'0' as u32 + digits[1]) << 16
        | (b'0' as u32 + digits[2]) << 24
}

/// Whether an answer that begins with these twelve bytes, as they lie in memory, has
/// the status written so.
#[inline(always)]
pub const fn begins_like(head: [u64; 2], answer: u32) -> bool {
    u64::from_le(head[0]) & PROTOCOL_MASK == PROTOCOL && u64::from_le(head[1]) as u32 == answer
}

impl Batch {
    /// Lanes of latency.
    pub const LANES: u32 = LANES;

    /// How many exchanges are in a lane, and the bucket of their latency.
    #[inline(always)]
    pub const fn lane(&self, lane: u32) -> (u64, usize) {
        (
            self.lanes >> ((lane & (LANES - 1)) * LANE_BITS) & LANE_MASK,
            (self.lowest + lane) as usize,
        )
    }

    /// The longest latency, us: the middle of its bucket.
    #[inline(always)]
    pub const fn longest(&self) -> u64 {
        if self.lanes == 0 {
            return 0;
        }
        let highest = self.lowest + (63 - self.lanes.leading_zeros()) / LANE_BITS;
        middle((highest / 4) as usize, highest & 3)
    }

    /// Whether it tells too late to teach anything.
    #[inline(always)]
    pub const fn is_stale(&self, now: Nanos) -> bool {
        now.0.saturating_sub(self.last.0) > STALE.0
    }
}

/// The number of a latency's bucket.
#[inline(always)]
const fn number_of(micros: u64) -> u32 {
    let (octave, quarter) = bucket(micros);
    octave as u32 * 4 + quarter
}

#[inline(always)]
const fn longer(one: Nanos, other: Nanos) -> Nanos {
    if one.0 > other.0 { one } else { other }
}

const _: () = assert!(
    MOST as u64 <= LANE_MASK && OCTAVES * 4 < 256,
    "a lane must hold a whole stretch"
);
