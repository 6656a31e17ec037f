//! The retry budget of one destination on this node.
//!
//! Retries in the rolling window <= percent x successes in it + reserve. That
//! is Finagle's and Linkerd's budget (deposit on success, a floor for quiet
//! clients), kept once per host instead of once per client: at 100 clients x
//! 1 request/s with the destination down, per-client budgets let 3.9-4.0x
//! through, one for the host 1.1x.
//!
//! Three counts, each decided by one compare-and-swap, taken in this order and
//! given back if a later one refuses:
//!
//! 1. a workload first spends percent x *its own* successes; what it wants
//!    beyond that it borrows from the reserve, and at most a share of the
//!    reserve while another workload retries too;
//! 2. what all workloads have borrowed stays within the reserve;
//! 3. the destination's total: the authority (I5).
//!
//! Own part and reserve are paced apart: no tenth of the window spends more
//! than an eighth of either, else they pay out in herds (simulated: 1.42x every
//! 10 s against 1.13x). Pacing the total instead lets two broken workloads take
//! every tenth's first milliseconds from the healthy ones.
//!
//! An eighth of what a small workload earns is less than one retry, and its
//! failures come two at a time: it may spend a few at once, but only while all
//! workloads of the node have spent little more than an even tenth of what they
//! earned. Without that, workloads whose windows are full when trouble begins
//! spend them in one second, and again every 10 s: simulated at 60 % failing,
//! 20 workloads x 1/s, 1.59x and 1.26x, with it 1.35x and 1.16x; 100 x 1/s,
//! 1.71x and 1.29x, with it 1.36x and 1.17x. Of the retries of healthy
//! workloads, 10/s with 5 % failing, as many as before are refused.

use crate::cell::Cell;
use crate::params::Params;
use crate::units::{BasisPoints, Millis, Nanos};
use crate::window::{Cap, SPAN, Window};

/// The destination's part.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Budget<C = u64> {
    /// Successes, of all workloads: what earns.
    successes: Window<C>,
    /// Retries admitted, of all workloads: the authority.
    retries: Window<C>,
    /// Retries beyond their workload's own allowance.
    borrowed: Window<C>,
    /// First tries, to size the reserve.
    first_tries: Window<C>,
    /// First tries per window when last healthy.
    healthy: C,
    /// When an attempt last failed, ms.
    last_failure: C,
}

/// The workload's part.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Share<C = u64> {
    successes: Window<C>,
    retries: Window<C>,
}

impl<C: Cell> Budget<C> {
    /// Retries allowed in the window beyond what successes earn:
    /// min(`minRetryRate`, max(1/s, 10 % of the healthy first-try rate)).
    #[inline(always)]
    pub fn reserve(&self, p: &Params) -> u64 {
        let tenth = self.healthy.load() / 10;
        let floor = p.reserve_floor as u64;
        let wanted = if tenth > floor { tenth } else { floor };
        let ceiling = p.reserve_ceiling as u64;
        if wanted < ceiling { wanted } else { ceiling }
    }

    /// What all successes of the window have earned.
    #[inline(always)]
    fn earned(&self, p: &Params, epoch: u64) -> u64 {
        p.percent().of(self.successes.count(epoch))
    }

    /// Retries allowed in the window now.
    pub fn allowance(&self, p: &Params, now: Nanos) -> u64 {
        self.earned(p, p.budget_epoch(now)) + self.reserve(p)
    }

    /// Retries admitted in the window now.
    pub fn spent(&self, p: &Params, now: Nanos) -> u64 {
        self.retries.count(p.budget_epoch(now))
    }

    /// Notes a first try, and the rate of first tries while nothing fails.
    #[inline(always)]
    pub fn first_try(&self, p: &Params, now: Nanos) {
        if let Some(count) = self.first_tries.add(p.budget_epoch(now), 1) {
            self.learn(p, now, count);
        }
    }

    /// Notes several that were then, and are told late.
    #[inline(always)]
    pub fn first_tries(&self, p: &Params, now: Nanos, then: Nanos, number: u32) {
        let (epoch, added) = (p.budget_epoch(now), p.budget_epoch(then));
        if let Some(count) = self.first_tries.add_late(epoch, added, number) {
            self.learn(p, now, count);
        }
    }

    #[inline(always)]
    fn learn(&self, p: &Params, now: Nanos, count: u64) {
        // Ten epochs in milliseconds.
        let window = p.budget_epoch / 100_000;
        if now
            .stamp()
            .quiet_for(Millis(self.last_failure.load()), Millis(window))
        {
            self.healthy.store(count);
        }
    }

    /// Notes a success: it earns, for its workload and for all.
    #[inline(always)]
    pub fn success(&self, share: &Share<C>, p: &Params, now: Nanos) {
        let epoch = p.budget_epoch(now);
        share.successes.add(epoch, 1);
        self.successes.add(epoch, 1);
    }

    /// Notes several that were then, and are told late: they earn no longer than if
    /// they had been told at once.
    #[inline(always)]
    pub fn successes(&self, share: &Share<C>, p: &Params, now: Nanos, then: Nanos, number: u32) {
        let (epoch, added) = (p.budget_epoch(now), p.budget_epoch(then));
        share.successes.add_late(epoch, added, number);
        self.successes.add_late(epoch, added, number);
    }

    /// Notes a failure.
    #[inline(always)]
    pub fn failure(&self, now: Nanos) {
        self.last_failure.store(now.stamp().0);
    }

    /// Charges a retry, if the budget allows it.
    #[inline(always)]
    pub fn charge(&self, share: &Share<C>, p: &Params, now: Nanos) -> bool {
        C::charge(self, share, p, now)
    }

    /// [`Self::charge`], worked out here.
    #[inline(always)]
    pub fn try_charge(&self, share: &Share<C>, p: &Params, now: Nanos) -> bool {
        let epoch = p.budget_epoch(now);
        let overspent = self.overspent(p, epoch);
        // Rounded up: at 10/s and 10 % the difference is every tenth retry of
        // a healthy workload. What all have earned is rounded down.
        let own = p.percent().of_up(share.successes.count(epoch));
        let few = match own / 2 {
            0 => 1,
            half if half < FEW => half,
            _ => FEW,
        };
        let least = if overspent < few { few } else { 0 };
        let borrows = share.retries.reserve(epoch, paced(own, least)).is_none();
        if borrows && !self.borrow(share, p, epoch, own) {
            return false;
        }
        let allowance = self.earned(p, epoch) + self.reserve(p);
        if self
            .retries
            .reserve(epoch, Cap::strict(allowance))
            .is_none()
        {
            if borrows {
                self.borrowed.remove(epoch, epoch);
            }
            share.retries.remove(epoch, epoch);
            return false;
        }
        true
    }

    /// What all workloads have spent of their own parts in this tenth of the
    /// window, beyond an even tenth of what they earned.
    #[inline(always)]
    fn overspent(&self, p: &Params, epoch: u64) -> u64 {
        let even = self.earned(p, epoch) / SPAN as u64;
        let retries = self.retries.within(epoch);
        // A retry is counted as borrowed before it is counted as a retry.
        retries.saturating_sub(self.borrowed.within(epoch) + even)
    }

    /// Takes a retry that goes beyond the workload's own part.
    #[inline(always)]
    fn borrow(&self, share: &Share<C>, p: &Params, epoch: u64, own: u64) -> bool {
        let reserve = self.reserve(p);
        let others = self.retries.count(epoch) > share.retries.count(epoch);
        let part = if others {
            BasisPoints(p.reserve_share).of(reserve).max(1)
        } else {
            reserve
        };
        if share
            .retries
            .reserve(epoch, paced(own + part, LEAST))
            .is_none()
        {
            return false;
        }
        if self
            .borrowed
            .reserve(epoch, paced(reserve, LEAST))
            .is_none()
        {
            share.retries.remove(epoch, epoch);
            return false;
        }
        true
    }
}

/// What a tenth of the window may always spend of a reserve, if the window may.
const LEAST: u64 = 1;
/// What a small workload may spend at once: at 10/s with 5 % failing, one per
/// second would send every fifth of its retries to the reserve.
const FEW: u64 = 4;

/// At most `total` in the window, an eighth of it in a tenth.
#[inline(always)]
const fn paced(total: u64, least: u64) -> Cap {
    let slot = total / 8;
    Cap::both(total, if slot > least { slot } else { least })
}
