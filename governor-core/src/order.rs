//! What an operator ordered. Every order has an expiry that the kernel checks,
//! so that none outlives the incident, daemon or not.

use bytemuck::{Pod, Zeroable};

use crate::units::{BasisPoints, Nanos};
use crate::verdict::Reason;

/// Most stages of a restore.
pub const STAGES: usize = 8;

/// A breaker that an operator holds.
pub mod hold {
    /// Not held.
    pub const NONE: u32 = 0;
    /// Held open: everything is refused.
    pub const OPEN: u32 = 1;
    /// Held closed: nothing is refused by the breaker.
    pub const CLOSED: u32 = 2;
}

/// A share that may be missing: basis points + 1, so that all zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Told(u16);

impl Told {
    /// None.
    pub const NOTHING: Self = Self(0);

    /// This share, the whole at most.
    pub const fn share(share: BasisPoints) -> Self {
        let most = BasisPoints::WHOLE.0;
        Self(if share.0 < most { share.0 } else { most } as u16 + 1)
    }

    /// The share, if there is one.
    pub const fn get(self) -> Option<BasisPoints> {
        match self.0 {
            0 => None,
            word => Some(BasisPoints(word as u32 - 1)),
        }
    }
}

/// Orders for one scope: the node, a destination, or a workload at one. All
/// zero is no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Order {
    /// Shed until then, ns.
    pub shed_until: u64,
    /// Retries are off from then, ns; 0 is not ordered.
    pub off_from: u64,
    /// Retries are off until then; the restore starts there, ns.
    pub off_until: u64,
    /// Length of a stage of the restore, ns.
    pub stage_every: u64,
    /// Percent of retries admitted in each stage; the first 0 ends the list.
    pub stages: [u8; STAGES],
    /// The breaker is held until then, ns.
    pub hold_until: u64,
    /// [`hold`].
    pub hold: u32,
    /// Share of attempts to refuse, basis points.
    pub shed_share: u32,
    /// 1: shed retries only.
    pub shed_retries_only: u32,
    /// By how much the failure rate may exceed `began_with` before the daemon holds a stage. The
    /// kernel reads neither: they are here to survive the daemon.
    pub hold_above: Told,
    /// The failure rate when the stage began.
    pub began_with: Told,
}

/// Whether an attempt repeats a failed one, as far as orders and budgets care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A first try, or one that is only guessed to be a retry.
    First,
    /// A retry, on evidence good enough to refuse on.
    Retry,
}

impl Order {
    /// Percent of retries admitted now.
    #[inline(always)]
    pub fn retries_percent(&self, now: Nanos) -> u32 {
        if self.off_from == 0 || now.0 < self.off_from {
            return 100;
        }
        if now.0 < self.off_until {
            return 0;
        }
        match self.stages.get(self.stage(now)) {
            None | Some(0) => 100,
            Some(percent) => *percent as u32,
        }
    }

    /// Number of the stage, once retries are no longer off; [`STAGES`] is beyond the last.
    #[inline(always)]
    fn stage(&self, now: Nanos) -> usize {
        let stage = (now.0 - self.off_until)
            .checked_div(self.stage_every)
            .unwrap_or(STAGES as u64);
        if stage < STAGES as u64 {
            stage as usize
        } else {
            STAGES
        }
    }

    /// The stage of a restore that is going on: its number and its percent.
    pub fn restoring(&self, now: Nanos) -> Option<(usize, u8)> {
        if self.off_from == 0 || now.0 < self.off_from || now.0 < self.off_until {
            return None;
        }
        let stage = self.stage(now);
        match self.stages.get(stage) {
            None | Some(0) => None,
            Some(percent) => Some((stage, *percent)),
        }
    }

    /// Whether the order refuses an attempt.
    #[inline(always)]
    pub fn refuses(&self, now: Nanos, kind: Kind, random: u32) -> Option<Reason> {
        let retry = matches!(kind, Kind::Retry);
        let shed = now.0 < self.shed_until
            && (retry || self.shed_retries_only == 0)
            && BasisPoints(self.shed_share).hit(random);
        let off = retry && !BasisPoints(self.retries_percent(now) * 100).hit(random);
        if shed || off {
            return Some(Reason::Shed);
        }
        None
    }

    /// Whether the order refuses a retry that it let go as a first try before:
    /// what it says of all attempts was asked then.
    #[inline(always)]
    pub fn refuses_retry(&self, now: Nanos, random: u32) -> Option<Reason> {
        let retries_only = Self {
            shed_until: if self.shed_retries_only == 0 {
                0
            } else {
                self.shed_until
            },
            ..*self
        };
        retries_only.refuses(now, Kind::Retry, random)
    }

    /// How the breaker is held now: one of [`hold`].
    #[inline(always)]
    pub fn held(&self, now: Nanos) -> u32 {
        if now.0 < self.hold_until {
            self.hold
        } else {
            hold::NONE
        }
    }
}
