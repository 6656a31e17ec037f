//! A rolling count that one compare-and-swap decides on.
//!
//! Ten epochs make the window. One word holds the epoch, how many epochs up to
//! it are live, and the count in the window; it is the only authority. Sixteen
//! slots remember what each epoch added, so that the same compare-and-swap that
//! opens a new epoch can subtract what expired.
//!
//! Deciding on a fresh sum of the slots would overshoot: a writer that was
//! admitted but has not yet added to its slot would be missed. Here every
//! change is first made to the word and then to a slot, and all slot changes
//! are additions, which commute: at rest, the window count is the sum of the
//! slots, whatever raced. A slot update that comes late (a preempted CPU) is
//! found again when its slot comes round, or after sixteen idle epochs.
//!
//! Only live epochs expire. After an idle time the new window begins with one;
//! otherwise the next CPU, one epoch later, could subtract a second time what
//! the first has taken out of the word but not yet out of its slot.
//!
//! The sliding window in tenths is tower's `TpsBudget` and Finagle's
//! `RetryBudget`; the single word is ours (DataDog's `rate_limiter.h` packs
//! period and counter into one for the same reason).

use crate::cell::Cell;

/// Epochs in a window.
pub const SPAN: u32 = 10;
/// Slots: more than the window, so that a late writer finds its own.
pub const SLOTS: usize = 16;

const EPOCH_BITS: u32 = 28;
const LIVE_BITS: u32 = 4;
const TOTAL_BITS: u32 = 32;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;
const LIVE_MASK: u32 = (1 << LIVE_BITS) - 1;
/// Most that a window can count (the top bits are the sign and room for a race).
pub const TOTAL_MAX: u32 = (1 << (TOTAL_BITS - 2)) - 1;

/// How often a change tries again when another CPU was first.
const TRIES: u32 = 6;
/// How often it tries to open the new epoch.
const ADVANCES: u32 = 2;

/// A rolling count over [`SPAN`] epochs. Counts to [`TOTAL_MAX`].
///
/// An epoch number is any clock divided by the epoch's length; numbers repeat
/// after 2^28 epochs (310 days at 100 ms).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Window<C = u64> {
    word: C,
    slots: [C; SLOTS],
}

/// The most a change may lead to. `ANY` never refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cap(pub u64);

impl Cap {
    /// No bound but the counter's own.
    pub const ANY: Self = Self(u64::MAX);

    /// At most `total` in the window.
    #[inline(always)]
    pub const fn total(total: u64) -> Self {
        Self::both(total, u32::MAX as u64)
    }

    /// At most `total` in the window and `slot` in one epoch. The first is
    /// exact; the second may be passed by as many CPUs as race.
    #[inline(always)]
    pub const fn both(total: u64, slot: u64) -> Self {
        let total = if total > TOTAL_MAX as u64 {
            TOTAL_MAX as u64
        } else {
            total
        };
        let slot = if slot > u32::MAX as u64 {
            u32::MAX as u64
        } else {
            slot
        };
        Self(total << 32 | slot)
    }

    /// At most `total` in the window, and only in the epoch that the bound was
    /// worked out for.
    #[inline(always)]
    pub const fn strict(total: u64) -> Self {
        Self(Self::total(total).0 | STRICT)
    }
}

/// Marks a cap that holds for one epoch only.
const STRICT: u64 = 1 << 63;

/// Marks, in the place of a cap, the epoch of what is added late. No cap is so large.
const LATE: u64 = 1 << 62;

/// Whether something is added late.
#[inline(always)]
const fn is_late(bound: u64) -> bool {
    bound & (STRICT | LATE) == LATE
}

/// The word, unpacked.
#[derive(Clone, Copy)]
struct Word {
    epoch: u32,
    /// Epochs up to `epoch` that the window holds; 0: it was never used.
    live: u32,
    total: i32,
}

impl Word {
    #[inline(always)]
    const fn unpack(word: u64) -> Self {
        Self {
            epoch: (word >> (LIVE_BITS + TOTAL_BITS)) as u32,
            live: (word >> TOTAL_BITS) as u32 & LIVE_MASK,
            total: word as u32 as i32,
        }
    }
    #[inline(always)]
    const fn pack(self) -> u64 {
        (self.epoch as u64) << (LIVE_BITS + TOTAL_BITS)
            | (self.live as u64) << TOTAL_BITS
            | self.total as u32 as u64
    }

    /// The oldest live epoch.
    #[inline(always)]
    const fn oldest(self) -> u32 {
        self.epoch.wrapping_add(1).wrapping_sub(self.live)
    }

    /// How many slots, from the oldest, expire on the way to `epoch`, and how
    /// many epochs are live there; `None` where the word stays as it is.
    ///
    /// A clock of another CPU that is a few epochs behind does not turn it back.
    #[inline(always)]
    const fn advance(self, epoch: u32) -> Option<(u32, u32)> {
        let ahead = epoch.wrapping_sub(self.epoch) & EPOCH_MASK;
        let reach = self.live + ahead;
        if self.live == 0 {
            Some((0, 1))
        } else if ahead == 0 || ahead > EPOCH_MASK - SLOTS as u32 {
            None
        } else if ahead >= SLOTS as u32 {
            // All of them, with what late writers have left behind.
            Some((SLOTS as u32, 1))
        } else if ahead >= SPAN {
            Some((self.live, 1))
        } else if reach > SPAN {
            Some((reach - SPAN, SPAN))
        } else {
            Some((0, reach))
        }
    }
}

impl<C: Default> Default for Window<C> {
    fn default() -> Self {
        Self {
            word: C::default(),
            slots: core::array::from_fn(|_| C::default()),
        }
    }
}

impl<C: Cell> Window<C> {
    #[inline(always)]
    fn slot(&self, epoch: u32) -> Option<&C> {
        self.slots.get((epoch & (SLOTS as u32 - 1)) as usize)
    }

    /// The count of the window that ends with `epoch`.
    #[inline(always)]
    pub fn count(&self, epoch: u64) -> u64 {
        C::sum(self, epoch)
    }

    /// [`Self::count`], worked out here.
    #[inline(always)]
    pub fn sum(&self, epoch: u64) -> u64 {
        let word = Word::unpack(self.word.load());
        let gone = match word.advance(epoch as u32 & EPOCH_MASK) {
            Some((expired, _)) => expired,
            None => 0,
        };
        let mut total = word.total;
        let oldest = word.oldest();
        let mut i = 0;
        while i < SLOTS as u32 {
            if i >= gone {
                break;
            }
            if let Some(slot) = self.slot(oldest.wrapping_add(i)) {
                total = total.wrapping_sub(slot.load() as i32);
            }
            i += 1;
        }
        if total < 0 { 0 } else { total as u64 }
    }

    /// What was added in `epoch` alone, so far.
    #[inline(always)]
    pub fn within(&self, epoch: u64) -> u64 {
        let word = Word::unpack(self.word.load());
        // In another epoch the slot may still hold what was there sixteen ago.
        if word.epoch != epoch as u32 & EPOCH_MASK {
            return 0;
        }
        let count = match self.slot(word.epoch) {
            Some(slot) => slot.load() as i32,
            None => 0,
        };
        if count < 0 { 0 } else { count as u64 }
    }

    /// Adds `amount` in `epoch`: the count after it, or `None` where every race was lost.
    #[inline(always)]
    pub fn add(&self, epoch: u64, amount: u32) -> Option<u64> {
        let after = self.open_and_change(epoch, amount as i32, Cap::ANY.0);
        if after == REFUSED { None } else { Some(after) }
    }

    /// Adds `amount` in the epoch `added` of the window that ends with `epoch`: the count
    /// after it, or `None` where that has expired. It is no more than is told late.
    #[inline(always)]
    pub fn add_late(&self, epoch: u64, added: u64, amount: u32) -> Option<u64> {
        let after = self.open_and_change(epoch, amount as i32, LATE | added & EPOCH_MASK as u64);
        if after == REFUSED { None } else { Some(after) }
    }

    /// Adds one, unless that would exceed `cap`: the count after it, or `None`.
    #[inline(always)]
    pub fn reserve(&self, epoch: u64, cap: Cap) -> Option<u64> {
        let after = self.open_and_change(epoch, 1, cap.0);
        if after == REFUSED { None } else { Some(after) }
    }

    /// Takes back one that was added at `added`, if it has not expired.
    #[inline(always)]
    pub fn remove(&self, epoch: u64, added: u64) {
        self.open_and_change(epoch, -1, added);
    }

    #[inline(always)]
    fn open_and_change(&self, epoch: u64, delta: i32, bound: u64) -> u64 {
        let now = epoch as u32 & EPOCH_MASK;
        let mut tries = 0;
        while tries < ADVANCES {
            if Word::unpack(self.word.load()).advance(now).is_none() {
                break;
            }
            C::advance(self, epoch);
            tries += 1;
        }
        C::change(self, epoch, delta, bound)
    }

    /// Brings the word to `epoch`; whoever loses the race has nothing to do.
    ///
    /// Apart from [`Self::change`], and not called by it: the kernel allows 512
    /// bytes of stack for a whole chain of calls, and the verifier would walk
    /// these loops once per try.
    #[inline(always)]
    pub fn advance(&self, epoch: u64) {
        let now = epoch as u32 & EPOCH_MASK;
        let seen = self.word.load();
        let old = Word::unpack(seen);
        let Some((expired, live)) = old.advance(now) else {
            return;
        };
        let oldest = old.oldest();
        let mut new = Word {
            epoch: now,
            live,
            total: old.total,
        };
        // Not a plain zero: that is a call to `memset` in the kernel, one more
        // frame, and Linux 6.1 counts 32 bytes of stack for it.
        let mut gone = [C::opaque(0) as i32; SLOTS];
        let mut i = 0;
        while i < SLOTS as u32 {
            if i >= expired {
                break;
            }
            let was = match self.slot(oldest.wrapping_add(i)) {
                Some(slot) => slot.load() as i32,
                None => 0,
            };
            if let Some(kept) = gone.get_mut(i as usize & (SLOTS - 1)) {
                *kept = was;
            }
            new.total = new.total.wrapping_sub(was);
            i += 1;
        }
        if self.word.compare_exchange(seen, new.pack()).is_err() {
            return;
        }
        let mut i = 0;
        while i < SLOTS as u32 {
            if i >= expired {
                break;
            }
            if let (Some(cell), Some(was)) = (
                self.slot(oldest.wrapping_add(i)),
                gone.get(i as usize & (SLOTS - 1)),
            ) {
                cell.sub(*was as i64 as u64);
            }
            i += 1;
        }
    }

    /// Adds `delta` within the [`Cap`] `bound` or late, or takes one back that was added
    /// in the epoch `bound`; returns the window's count after it, or [`REFUSED`].
    /// The word must have been brought to `epoch` before.
    #[inline(always)]
    pub fn change(&self, epoch: u64, delta: i32, bound: u64) -> u64 {
        let now = epoch as u32 & EPOCH_MASK;
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            let seen = self.word.load();
            let mut word = Word::unpack(seen);
            // An addition counts in the word's epoch even where this CPU's
            // clock is behind. A removal counts where the addition was, and so does
            // what is added late, unless that has expired: then there is nothing left
            // to take back, or to add.
            let past = delta < 0 || is_late(bound);
            let slot = if past {
                bound as u32 & EPOCH_MASK
            } else {
                word.epoch
            };
            if past {
                if word.epoch.wrapping_sub(slot) & EPOCH_MASK >= word.live {
                    return REFUSED;
                }
            } else if !self.fits(word, now, delta as u64, Cap(bound)) {
                return REFUSED;
            }
            word.total = word.total.wrapping_add(delta);
            if self.word.compare_exchange(seen, word.pack()).is_err() {
                continue;
            }
            if let Some(cell) = self.slot(slot) {
                cell.add(delta as i64 as u64);
            }
            return if word.total < 0 { 0 } else { word.total as u64 };
        }
        REFUSED
    }

    /// Whether `more` may be added.
    #[inline(always)]
    fn fits(&self, word: Word, now: u32, more: u64, cap: Cap) -> bool {
        // Still in an old epoch: every race to open the new one was lost.
        if word.advance(now).is_some() {
            return false;
        }
        if cap.0 != Cap::ANY.0 && cap.0 & STRICT != 0 && word.epoch != now {
            return false;
        }
        let used = match self.slot(word.epoch) {
            Some(cell) => cell.load() as i32,
            None => 0,
        };
        let used = if used < 0 { 0 } else { used as u64 };
        let count = if word.total < 0 { 0 } else { word.total as u64 };
        let most = cap.0 >> 32 & 0x7fff_ffff;
        used + more <= cap.0 & 0xffff_ffff
            && count + more <= most
            && count + more <= TOTAL_MAX as u64
    }
}

/// [`Window::change`] did nothing: over the cap, expired, or lost every race.
pub const REFUSED: u64 = u64::MAX;
