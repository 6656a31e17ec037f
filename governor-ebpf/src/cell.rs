//! The law's atomic word in the kernel.

use core::{
    cell::UnsafeCell,
    intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd},
};

use governor_core::{
    breaker::Move,
    budget::{Budget, Share},
    cell::Cell,
    ledger::{DestinationLedger, EndpointLedger, WorkloadLedger},
    limiter::Limiter,
    params::Params,
    settle::{self, Ending},
    units::Nanos,
    window::{REFUSED, Window},
};

/// A 64-bit word in a map.
///
/// Every read-modify-write is sequentially consistent on purpose: a relaxed
/// fetch-add whose result is used is silently lowered to one that returns the
/// addend (LLVM issue 210280, seen with LLVM 22 at `-C target-cpu=v3`).
#[repr(transparent)]
#[derive(Default)]
pub struct MapCell(UnsafeCell<u64>);

impl Cell for MapCell {
    #[inline(always)]
    fn load(&self) -> u64 {
        // SAFETY: the word is live and aligned for as long as `self` is; an
        // aligned 64-bit load does not tear. Volatile, since other CPUs write.
        unsafe { core::ptr::read_volatile(self.0.get()) }
    }
    #[inline(always)]
    fn store(&self, value: u64) {
        // SAFETY: as for `load`.
        unsafe { core::ptr::write_volatile(self.0.get(), value) }
    }
    #[inline(always)]
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: the word is live and aligned for as long as `self` is.
        let (seen, done) = unsafe {
            atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(
                self.0.get(),
                current,
                new,
            )
        };
        if done { Ok(seen) } else { Err(seen) }
    }
    #[inline(always)]
    fn add(&self, amount: u64) -> u64 {
        // SAFETY: as for `compare_exchange`.
        unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(self.0.get(), amount) }
    }
    #[inline(always)]
    fn change(window: &Window<Self>, epoch: u64, delta: i32, bound: u64) -> u64 {
        window_change(window, epoch, delta as i64, bound)
    }
    #[inline(always)]
    fn opaque(index: usize) -> usize {
        let mut index = index;
        // SAFETY: one register, no memory. No index of ours exceeds the mask.
        unsafe { core::arch::asm!("{0} &= 0xffff", inout(reg) index) };
        index
    }
    #[inline(always)]
    fn advance(window: &Window<Self>, epoch: u64) {
        window_advance(window, epoch);
    }
    #[inline(always)]
    fn sum(window: &Window<Self>, epoch: u64) -> u64 {
        window_sum(window, epoch)
    }
    #[inline(always)]
    fn finish_tick(limiter: &Limiter<Self>, p: &Params, last: u64, tick: u64) {
        limiter_tick(limiter, p, last, tick);
    }
    #[inline(always)]
    fn remember(limiter: &Limiter<Self>, last: u64, tick: u64, outcomes: u64) {
        limiter_remember(limiter, last, tick, outcomes);
    }
    #[inline(always)]
    fn recent(limiter: &Limiter<Self>) -> u64 {
        limiter_recent(limiter)
    }
    #[inline(always)]
    fn take_median(limiter: &Limiter<Self>, tick: u64, enough: u64) -> u64 {
        limiter_median(limiter, tick, enough)
    }
    #[inline(always)]
    fn charge(budget: &Budget<Self>, share: &Share<Self>, p: &Params, now: Nanos) -> bool {
        budget_charge(budget, share, p, now.0) != 0
    }
    #[inline(always)]
    fn settle(
        p: &Params,
        e: &Ending,
        endpoint: &EndpointLedger<Self>,
        workload: &WorkloadLedger<Self>,
        destination: &DestinationLedger<Self>,
    ) -> Move {
        Move::from_number(settle_at(p, e, endpoint, workload, destination))
    }
}

// Global functions: the verifier walks each once, with any arguments of the
// right size, and not at each call. It also makes no promise that a pointer is
// not null, so each is checked.

/// [`Window::change`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn window_change(
    window: *const Window<MapCell>,
    epoch: u64,
    delta: i64,
    bound: u64,
) -> u64 {
    // SAFETY: null, or a window in a map: the verifier checks the size.
    match unsafe { window.as_ref() } {
        Some(window) => window.change(epoch, delta as i32, bound),
        None => REFUSED,
    }
}

/// [`Window::advance`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn window_advance(window: *const Window<MapCell>, epoch: u64) -> u64 {
    // SAFETY: as for `window_change`.
    if let Some(window) = unsafe { window.as_ref() } {
        window.advance(epoch);
    }
    0
}

/// [`Window::sum`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn window_sum(window: *const Window<MapCell>, epoch: u64) -> u64 {
    // SAFETY: as for `window_change`.
    match unsafe { window.as_ref() } {
        Some(window) => window.sum(epoch),
        None => 0,
    }
}

/// [`Limiter::finish_tick`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn limiter_tick(
    limiter: *const Limiter<MapCell>,
    p: *const Params,
    last: u64,
    tick: u64,
) -> u64 {
    // SAFETY: as for `window_change`.
    if let (Some(limiter), Some(p)) = unsafe { (limiter.as_ref(), p.as_ref()) } {
        limiter.finish_tick(p, last, tick);
    }
    0
}

/// [`Limiter::remember`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn limiter_remember(
    limiter: *const Limiter<MapCell>,
    last: u64,
    tick: u64,
    outcomes: u64,
) -> u64 {
    // SAFETY: as for `window_change`.
    if let Some(limiter) = unsafe { limiter.as_ref() } {
        limiter.remember(last, tick, outcomes);
    }
    0
}

/// [`Limiter::recent`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn limiter_recent(limiter: *const Limiter<MapCell>) -> u64 {
    // SAFETY: as for `window_change`.
    match unsafe { limiter.as_ref() } {
        Some(limiter) => limiter.recent(),
        None => 0,
    }
}

/// [`Limiter::take_median`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn limiter_median(limiter: *const Limiter<MapCell>, tick: u64, enough: u64) -> u64 {
    // SAFETY: as for `window_change`.
    match unsafe { limiter.as_ref() } {
        Some(limiter) => limiter.take_median(tick, enough),
        None => 0,
    }
}

/// [`Budget::try_charge`]: 1 if the retry may go.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn budget_charge(
    budget: *const Budget<MapCell>,
    share: *const Share<MapCell>,
    p: *const Params,
    now: u64,
) -> u64 {
    // SAFETY: as for `window_change`.
    match unsafe { (budget.as_ref(), share.as_ref(), p.as_ref()) } {
        (Some(budget), Some(share), Some(p)) => budget.try_charge(share, p, Nanos(now)) as u64,
        _ => 1,
    }
}

/// [`settle::settle_at`]: the breaker's move.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn settle_at(
    p: *const Params,
    e: *const Ending,
    endpoint: *const EndpointLedger<MapCell>,
    workload: *const WorkloadLedger<MapCell>,
    destination: *const DestinationLedger<MapCell>,
) -> u64 {
    // SAFETY: as for `window_change`.
    let (p, e, endpoint) = unsafe { (p.as_ref(), e.as_ref(), endpoint.as_ref()) };
    // SAFETY: as for `window_change`.
    let (workload, destination) = unsafe { (workload.as_ref(), destination.as_ref()) };
    match (p, e, endpoint, workload, destination) {
        (Some(p), Some(e), Some(endpoint), Some(workload), Some(destination)) => {
            settle::settle_at(p, e, endpoint, workload, destination) as u64
        }
        _ => Move::None as u64,
    }
}

// SAFETY: the only accesses are volatile or atomic.
unsafe impl Sync for MapCell {}
