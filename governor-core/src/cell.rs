//! The atomic word the law is written over.

use crate::breaker::Move;
use crate::budget::{Budget, Share};
use crate::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use crate::limiter::Limiter;
use crate::params::Params;
use crate::settle::{self, Ending};
use crate::units::Nanos;
use crate::window::Window;

/// A 64-bit word shared by every CPU.
///
/// All operations are sequentially consistent. Weaker orders are not offered:
/// a relaxed fetch-add whose result is used is miscompiled for BPF (LLVM
/// issue 210280), and the law never runs often enough to need them.
pub trait Cell: Default + Sized {
    /// The current value.
    fn load(&self) -> u64;
    /// Overwrites the value. Only for words whose last writer may win.
    fn store(&self, value: u64);
    /// Overwrites the value, unless that is what it is: a line of the cache that
    /// is only read stays with every CPU that reads it.
    #[inline(always)]
    fn keep(&self, value: u64) {
        if self.load() != value {
            self.store(value);
        }
    }
    /// Replaces `current` by `new`; on failure returns what was there.
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
    /// Adds, wrapping; returns the value before.
    fn add(&self, amount: u64) -> u64;
    /// Subtracts, wrapping; returns the value before.
    #[inline(always)]
    fn sub(&self, amount: u64) -> u64 {
        self.add(amount.wrapping_neg())
    }
    /// [`Window::change`], called. The kernel makes a function of its own of
    /// it, and of those that follow, that its verifier walks once and not at each
    /// call: walked at each call, the law exceeds a million instructions.
    #[inline(always)]
    fn change(window: &Window<Self>, epoch: u64, delta: i32, bound: u64) -> u64 {
        window.change(epoch, delta, bound)
    }
    /// [`Window::advance`], called.
    #[inline(always)]
    fn advance(window: &Window<Self>, epoch: u64) {
        window.advance(epoch);
    }
    /// [`Window::sum`], called.
    #[inline(always)]
    fn sum(window: &Window<Self>, epoch: u64) -> u64 {
        window.sum(epoch)
    }
    /// [`Limiter::finish_tick`], called.
    #[inline(always)]
    fn finish_tick(limiter: &Limiter<Self>, p: &Params, last: u64, tick: u64) {
        limiter.finish_tick(p, last, tick);
    }
    /// [`Limiter::remember`], called.
    #[inline(always)]
    fn remember(limiter: &Limiter<Self>, last: u64, tick: u64, outcomes: u64) {
        limiter.remember(last, tick, outcomes);
    }
    /// [`Limiter::recent`], called.
    #[inline(always)]
    fn recent(limiter: &Limiter<Self>) -> u64 {
        limiter.recent()
    }
    /// [`Limiter::take_median`], called.
    #[inline(always)]
    fn take_median(limiter: &Limiter<Self>, tick: u64, enough: u64) -> u64 {
        limiter.take_median(tick, enough)
    }
    /// [`Budget::try_charge`], called.
    #[inline(always)]
    fn charge(budget: &Budget<Self>, share: &Share<Self>, p: &Params, now: Nanos) -> bool {
        budget.try_charge(share, p, now)
    }
    /// [`settle::settle_at`], called.
    #[inline(always)]
    fn settle(
        p: &Params,
        e: &Ending,
        endpoint: &EndpointLedger<Self>,
        workload: &WorkloadLedger<Self>,
        destination: &DestinationLedger<Self>,
    ) -> Move {
        settle::settle_at(p, e, endpoint, workload, destination)
    }
    /// An index, unchanged. In the kernel the compiler can not see through it,
    /// and so keeps the bounds check after it, which the verifier needs.
    #[inline(always)]
    fn opaque(index: usize) -> usize {
        index
    }
    /// Raises the value to at least `value`. Gives up after a few lost races:
    /// a peak that is one sample short decides nothing.
    #[inline(always)]
    fn raise(&self, value: u64) {
        for _ in 0..3 {
            let seen = self.load();
            if seen >= value || self.compare_exchange(seen, value).is_ok() {
                return;
            }
        }
    }
}

#[cfg(target_has_atomic = "64")]
impl Cell for core::sync::atomic::AtomicU64 {
    fn load(&self) -> u64 {
        self.load(core::sync::atomic::Ordering::SeqCst)
    }
    fn store(&self, value: u64) {
        self.store(value, core::sync::atomic::Ordering::SeqCst);
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        use core::sync::atomic::Ordering::SeqCst;
        self.compare_exchange(current, new, SeqCst, SeqCst)
    }
    fn add(&self, amount: u64) -> u64 {
        self.fetch_add(amount, core::sync::atomic::Ordering::SeqCst)
    }
}
