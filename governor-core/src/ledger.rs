//! The counters and state of one (workload, destination), of one destination
//! on this node, and of one endpoint: values of the maps that only the kernel
//! writes. Every word is a cell, so there is no padding.

use bytemuck::{Pod, Zeroable};

use crate::breaker::Breaker;
use crate::budget::{Budget, Share};
use crate::calm::Batch;
use crate::cell::Cell;
use crate::chain::{Chain, Learned};
use crate::evidence::{Claims, History, ThreadHistory};
use crate::lease::Lease;
use crate::limiter::{Limiter, OCTAVES};
use crate::pushback::Pushback;
use crate::status::STATUSES;
use crate::units::Millis;
use crate::verdict::{OUTCOMES, REASONS};
use crate::window::Window;

/// One endpoint: a workload's view of one ip:port.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EndpointLedger<C = u64> {
    /// Its breaker.
    pub breaker: Breaker<C>,
    /// Failures that no later attempt has claimed yet.
    pub claims: Claims<C>,
    /// Outcomes of the breaker's interval, for the opt-in rate rule.
    pub successes: Window<C>,
    /// As `successes`.
    pub failures: Window<C>,
    /// Which policy applies: [`crate::key::Selection`]; 0 is not looked up yet.
    pub selection: C,
    /// The destination group the policy names; 0 is the ip:port itself.
    pub group: C,
    /// 1 once a request was sent here, or an exchange was answered.
    pub answers: C,
    /// Denials: second, 32 bits | count in it, 32 bits.
    pub denials: C,
    /// When it was last used, ms.
    pub touched: C,
}

/// Counts that only ever grow, by number, of one workload and destination.
pub mod count {
    use super::{OUTCOMES, REASONS, STATUSES};
    /// Connects that reached the network and are first tries.
    pub const FIRST: usize = 0;
    /// As `FIRST`, retries.
    pub const RETRY: usize = 1;
    /// First tries, by evidence, that may be retries.
    pub const SUSPECTED: usize = 2;
    /// Connects that are first tries, denied ones included.
    pub const OFFERED_FIRST: usize = 3;
    /// As `OFFERED_FIRST`, retries.
    pub const OFFERED_RETRY: usize = 4;
    /// First tries denied.
    pub const DENIED_FIRST: usize = 5;
    /// Denials above 100 per second and endpoint.
    pub const DENIED_AGAIN: usize = 6;
    /// Attempts that audit would have denied and that succeeded: harm.
    pub const WOULD_DENY_SUCCEEDED: usize = 7;
    /// Attempts that audit would have denied and that failed: help.
    pub const WOULD_DENY_FAILED: usize = 8;
    /// Attempts let through because a map was full.
    pub const FAILED_OPEN: usize = 9;
    /// Probes that succeeded.
    pub const PROBE_SUCCESS: usize = 10;
    /// Probes that failed.
    pub const PROBE_FAILURE: usize = 11;
    /// Probes sent.
    pub const PROBE_SENT: usize = 12;
    /// Breakers that tripped.
    pub const TRIPPED: usize = 13;
    /// Breakers that closed.
    pub const CLOSED: usize = 14;
    /// Breakers that a failed probe opened again.
    pub const REOPENED: usize = 15;
    /// Requests that reached the network and are first tries.
    pub const REQUEST_FIRST: usize = 16;
    /// As `REQUEST_FIRST`, retries.
    pub const REQUEST_RETRY: usize = 17;
    /// Requests that are first tries, denied ones included.
    pub const REQUEST_OFFERED_FIRST: usize = 18;
    /// As `REQUEST_OFFERED_FIRST`, retries.
    pub const REQUEST_OFFERED_RETRY: usize = 19;
    /// Requests that are one attempt with their connect, denied ones included:
    /// the attempts are connects + requests - these.
    pub const CARRIED: usize = 20;
    /// Of those, the ones whose connect was counted as a retry.
    pub const CARRIED_RETRY: usize = 21;
    /// Requests and connections that could not be read.
    pub const UNREAD: usize = 22;
    /// Requests let through because no executor reaches their socket.
    pub const UNREACHED: usize = 23;
    /// Outcomes of connects, by [`crate::verdict::Outcome`].
    pub const CONNECT: usize = 24;
    /// Outcomes of exchanges.
    pub const EXCHANGE: usize = CONNECT + OUTCOMES;
    /// Denials by [`crate::verdict::Reason`].
    pub const DENIED: usize = EXCHANGE + OUTCOMES;
    /// Denials that audit did not carry out.
    pub const WOULD_DENY: usize = DENIED + REASONS;
    /// Answers that are failures, by [`crate::status::index`].
    pub const STATUS: usize = WOULD_DENY + REASONS;
    /// How many there are.
    pub const ALL: usize = STATUS + STATUSES;
}

/// One workload's dealings with one destination.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WorkloadLedger<C = u64> {
    /// Its part of the retry budget.
    pub share: Share<C>,
    /// Its adaptive concurrency.
    pub limiter: Limiter<C>,
    /// What the destination asked its callers to wait.
    pub pushback: Pushback<C>,
    /// Different requests that succeeded.
    pub fingerprints: C,
    /// Of the different requests, those that come again by themselves.
    pub repeating: C,
    /// Most tries of one operation that were seen, refused ones included;
    /// 0: no operation was tried twice.
    pub longest: C,
    /// As `longest`, guessed: connects of threads without a history.
    pub longest_guess: C,
    /// [`count`].
    pub counts: [C; count::ALL],
    /// When it was last used, ms.
    pub touched: C,
}

/// One destination on this node, of all workloads.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DestinationLedger<C = u64> {
    /// Its retry budget.
    pub budget: Budget<C>,
    /// Latencies of successes: 20 octaves of 4 from 32 us, as the limiter counts them.
    pub latency: [C; OCTAVES * 4],
    /// Sum of those latencies, us.
    pub latency_sum: C,
    /// When it was last used, ms.
    pub touched: C,
}

impl<C: Default> Default for WorkloadLedger<C> {
    fn default() -> Self {
        Self {
            share: Share::default(),
            limiter: Limiter::default(),
            pushback: Pushback::default(),
            fingerprints: C::default(),
            repeating: C::default(),
            longest: C::default(),
            longest_guess: C::default(),
            counts: core::array::from_fn(|_| C::default()),
            touched: C::default(),
        }
    }
}

impl<C: Default> Default for DestinationLedger<C> {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            latency: core::array::from_fn(|_| C::default()),
            latency_sum: C::default(),
            touched: C::default(),
        }
    }
}

impl<C: Cell> EndpointLedger<C> {
    /// Whether answers are given here, or ought to be. Where none ever was, silence is
    /// how the protocol works (syslog, acks=0) and says nothing.
    #[inline(always)]
    pub fn answers(&self) -> bool {
        self.answers.load() != 0
    }

    /// Counts a denial: how many there were in this second, this one included.
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

    /// Denials in the second of the last one.
    #[inline(always)]
    pub fn denials(&self) -> u64 {
        self.denials.load() & 0xffff_ffff
    }
}

impl<C: Cell> WorkloadLedger<C> {
    /// Adds one to a [`count`].
    #[inline(always)]
    pub fn bump(&self, which: usize) {
        if let Some(cell) = self.counts.get(C::opaque(which)) {
            cell.add(1);
        }
    }

    /// Adds several to a [`count`].
    #[inline(always)]
    pub fn bump_by(&self, which: usize, number: u32) {
        if let Some(cell) = self.counts.get(C::opaque(which)) {
            cell.add(number as u64);
        }
    }

    /// An operation is tried for the `number`th time.
    #[inline(always)]
    pub fn tried(&self, number: u32) {
        longest(&self.longest, number);
    }

    /// The same, guessed.
    #[inline(always)]
    pub fn tried_perhaps(&self, number: u32) {
        longest(&self.longest_guess, number);
    }

    /// A [`count`].
    pub fn read(&self, which: usize) -> u64 {
        self.counts.get(which).map_or(0, Cell::load)
    }
}

/// Most tries of one operation that are told apart, as of [`Chain`]: callers
/// may say any number.
const LONGEST: u32 = 0xff;

/// First tries, which is nearly all, change nothing.
#[inline(always)]
fn longest<C: Cell>(most: &C, number: u32) {
    if number > 1 {
        most.raise(if number < LONGEST { number } else { LONGEST } as u64);
    }
}

impl<C: Cell> WorkloadLedger<C> {
    /// Whether equal requests of this workload are the same one.
    #[inline(always)]
    pub fn history(&self) -> History {
        History::of(self.fingerprints.load(), self.repeating.load())
    }

    /// Learns what a fingerprint of a request taught.
    #[inline(always)]
    pub fn learned(&self, learned: Learned) {
        if matches!(learned, Learned::Distinct | Learned::DistinctButRepeats) {
            self.fingerprints.add(1);
        }
        if matches!(learned, Learned::Repeats | Learned::DistinctButRepeats) {
            self.repeating.add(1);
        }
    }
}

impl<C: Cell> DestinationLedger<C> {
    /// Notes the latency of a success.
    #[inline(always)]
    pub fn observe(&self, micros: u64) {
        let (octave, quarter) = crate::limiter::bucket(micros);
        self.count(1, octave * 4 + quarter as usize);
        self.latency_sum.add(micros);
    }

    #[inline(always)]
    fn count(&self, number: u64, bucket: usize) {
        if let Some(cell) = self.latency.get(C::opaque(bucket)) {
            cell.add(number);
        }
    }

    /// Notes the latencies of successes that are settled together.
    #[inline(always)]
    pub fn observe_all(&self, batch: &Batch) {
        let mut lane = 0;
        while lane < Batch::LANES {
            let (number, bucket) = batch.lane(lane);
            self.count(number, bucket);
            lane += 1;
        }
        self.latency_sum.add(batch.sum);
    }
}

macro_rules! plain {
    ($($name:ident),*) => {$(
        const _: () = assert!(
            size_of::<$name<u64>>() % 8 == 0 && align_of::<$name<u64>>() == 8,
            "a ledger is made of 64-bit words"
        );
        // SAFETY: repr(C) and made of u64 only (asserted: no odd size, no
        // other alignment), so every bit pattern is a value and there is no padding.
        unsafe impl Zeroable for $name<u64> {}
        // SAFETY: as above.
        unsafe impl Pod for $name<u64> {}

        impl $name<u64> {
            /// The copy, with the law's methods.
            pub fn view(self) -> $name<Copied> {
                // SAFETY: `Copied` is a transparent wrapper of `u64`, and the
                // ledger is repr(C) over its cells: same size, same layout.
                unsafe { core::mem::transmute_copy(&self) }
            }
        }
    )*};
}
plain!(
    EndpointLedger,
    WorkloadLedger,
    DestinationLedger,
    Lease,
    ThreadHistory,
    Chain
);

/// A ledger read by the daemon is a copy: plain words, which only it writes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Copied(core::cell::Cell<u64>);

impl Cell for Copied {
    fn load(&self) -> u64 {
        self.0.get()
    }
    fn store(&self, value: u64) {
        self.0.set(value);
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        let seen = self.0.get();
        if seen == current {
            self.0.set(new);
            Ok(seen)
        } else {
            Err(seen)
        }
    }
    fn add(&self, amount: u64) -> u64 {
        let seen = self.0.get();
        self.0.set(seen.wrapping_add(amount));
        seen
    }
}
