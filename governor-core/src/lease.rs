//! The probe lease of one ip:port on this node: at most one probe of all
//! workloads whose breaker is open for it reaches the network at a time.
//!
//! A lease has a deadline, so a probe that never reports (no route, caller
//! killed) frees it; a generation, so a late report cannot free another's; and
//! a place for the one that has waited longest: until it has had its turn, or
//! was not seen for a second, the others leave the lease to it. One probe
//! schedule for all, or first come first served, lets workloads that are
//! broken for good starve the others (simulated: back after 11 s to over 88 s
//! against 1-8 s).
//!
//! A second is not enough where the last holder let the lease lapse: a busy
//! workload whose probes hang took it again at each deadline, and one that
//! tries every two seconds found it held for ever. After a lapse those who came
//! due later leave it, about as long as they would hold it, to who was turned away.
//!
//! Since when one waits is counted later by a multiple of what its last probe took
//! ([`crate::breaker::Breaker::turn`]): short probes first, and nobody starves.

use crate::cell::Cell;
use crate::units::Millis;

const GENERATION_BITS: u32 = 24;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// How long others leave the lease to a workload that was seen waiting, ms.
const YIELD: Millis = Millis(1_000);
/// How long they remember it after the lease has lapsed, ms: callers that come
/// once a minute are the slowest that are helped.
const REMEMBERED: Millis = Millis(60_000);

/// The lease of one ip:port.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Lease<C = u64> {
    /// Deadline, ms, 40 bits | generation, 24 bits. Free once the deadline is past.
    word: C,
    /// Since when the one that waits could have probed, ms.
    since: C,
    /// When a probe last succeeded, ms.
    proven: C,
    /// When the one that waits was last refused it, ms.
    waited: C,
    /// Which workload has waited longest.
    waiter: C,
    /// When it was last used, ms (for garbage collection).
    touched: C,
}

/// How long a lapsed lease is left to who was turned away: half to one and a half
/// times what a probe may take. Uneven, or callers that come every ten seconds
/// would find it held each time.
#[inline(always)]
const fn pause(hold: u64, generation: u64) -> u64 {
    let part = generation.wrapping_mul(0x9e37_79b9) & 0xffff;
    hold / 2 + ((hold * part) >> 16)
}

impl<C: Cell> Lease<C> {
    /// When a probe last found the ip:port alive.
    #[inline(always)]
    pub fn proven(&self) -> Millis {
        Millis(self.proven.load())
    }

    /// Takes the lease until `deadline`; the generation to release it with.
    /// `due` is since when the workload could have probed, see
    /// [`crate::breaker::Breaker::turn`].
    #[inline(always)]
    pub fn claim(&self, workload: u64, due: Millis, now: Millis, deadline: Millis) -> Option<u32> {
        self.touched.store(now.0);
        let seen = self.word.load();
        let generation = (seen + 1) & GENERATION_MASK;
        let word = deadline.0 << GENERATION_BITS | generation;
        let ours = self.waiter.load() == workload;
        // Another has waited longer. (The three words may be of two waiters;
        // that costs one of them a turn.)
        let held_until = seen >> GENERATION_BITS;
        let waited = Millis(self.waited.load());
        // Not given back (that leaves no deadline), and lapsed only now or not yet.
        let lapsed = held_until != 0
            && now.0 < held_until + pause(deadline.0.saturating_sub(now.0), generation);
        let another = !ours
            && self.since.load() <= due.0
            && (!now.quiet_for(waited, YIELD) || lapsed && !now.quiet_for(waited, REMEMBERED));
        let free = now.0 >= held_until;
        if !free || another || self.word.compare_exchange(seen, word).is_err() {
            if !another {
                self.waiter.store(workload);
                self.since.store(due.0);
                self.waited.store(now.0);
            }
            return None;
        }
        if ours {
            self.waited.store(0);
        }
        Some(generation as u32)
    }

    /// Gives the lease back, if `generation` still holds it.
    #[inline(always)]
    pub fn release(&self, generation: u32) {
        let seen = self.word.load();
        if seen & GENERATION_MASK == generation as u64 & GENERATION_MASK {
            // Lost race: it expired and another took it.
            let _ = self
                .word
                .compare_exchange(seen, generation as u64 & GENERATION_MASK);
        }
    }

    /// A probe succeeded: every workload that opened before may probe now.
    #[inline(always)]
    pub fn prove(&self, now: Millis) {
        self.proven.store(now.0);
    }

    /// When the lease was last asked for.
    #[inline(always)]
    pub fn touched(&self) -> Millis {
        Millis(self.touched.load())
    }
}
