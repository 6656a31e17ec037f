//! Times and shares that say their unit.

/// A time or a duration in nanoseconds (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Nanos(pub u64);

/// A time or a duration in milliseconds. As a stored time, 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Millis(pub u64);

/// A share in basis points: 10,000 is the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BasisPoints(pub u32);

impl Nanos {
    /// From seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }
    /// From milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
    /// As a time stamp in milliseconds; never 0, which means "never".
    #[inline(always)]
    pub const fn stamp(self) -> Millis {
        Millis(self.0 / 1_000_000 + 1)
    }
    /// Whole microseconds.
    #[inline(always)]
    pub const fn micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Time since `earlier`; 0 when that lies ahead (clocks of two CPUs).
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Millis {
    /// Never: the value of a time stamp that was not set.
    pub const NEVER: Self = Self(0);

    /// Time since `earlier`; 0 when that lies ahead; `None` if it never was.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> Option<Self> {
        if earlier.0 == 0 {
            None
        } else {
            Some(Self(self.0.saturating_sub(earlier.0)))
        }
    }
    /// Whether at least `duration` has passed since `earlier`, or it never was.
    #[inline(always)]
    pub const fn quiet_for(self, earlier: Self, duration: Self) -> bool {
        earlier.0 == 0 || self.0.saturating_sub(earlier.0) >= duration.0
    }
}

impl BasisPoints {
    /// The whole.
    pub const WHOLE: Self = Self(10_000);

    /// This share of `amount`, rounded down.
    #[inline(always)]
    pub const fn of(self, amount: u64) -> u64 {
        amount.wrapping_mul(self.0 as u64) / 10_000
    }
    /// This share of `amount`, rounded up.
    #[inline(always)]
    pub const fn of_up(self, amount: u64) -> u64 {
        amount.wrapping_mul(self.0 as u64).div_ceil(10_000)
    }
    /// Whether a uniform 32-bit random number falls within this share.
    #[inline(always)]
    pub const fn hit(self, random: u32) -> bool {
        ((random as u64 * 10_000) >> 32) < self.0 as u64
    }
}
