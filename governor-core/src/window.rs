//! A rolling count that one compare-and-swap decides on.
//!
//! Ten epochs make the window. One word holds the epoch, the count in this
//! epoch and the count in the window; it is the only authority. Sixteen slots
//! remember what each epoch added, so that the same compare-and-swap that
//! opens a new epoch can subtract what expired.
//!
//! Deciding on a fresh sum of the slots would overshoot: a writer that was
//! admitted but has not yet added to its slot would be missed. Here every
//! change is first made to the word and then to a slot, and all slot changes
//! are additions, which commute: at rest, the window count is the sum of the
//! slots, whatever raced. A slot update that comes late (a preempted CPU) is
//! found again when its slot comes round.
//!
//! The sliding window in tenths is tower's `TpsBudget` and Finagle's
//! `RetryBudget`; the single word is ours (DataDog's `rate_limiter.h` packs
//! period and counter into one for the same reason).

use crate::cell::Cell;

/// Epochs in a window.
pub const SPAN: u32 = 10;
/// Slots: more than the window, so that a late writer finds its own.
pub const SLOTS: usize = 16;

const EPOCH_BITS: u32 = 20;
const SLOT_BITS: u32 = 18;
const TOTAL_BITS: u32 = 26;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;
/// Most that one epoch can count.
pub const SLOT_MAX: u32 = (1 << SLOT_BITS) - 1;
/// Most that a window can count (the top bit is the sign).
pub const TOTAL_MAX: u32 = (1 << (TOTAL_BITS - 1)) - 1;

/// How often a change tries again when another CPU was first.
const TRIES: u32 = 6;

/// A rolling count over [`SPAN`] epochs. Counts to [`TOTAL_MAX`].
///
/// An epoch number is any clock divided by the epoch's length; numbers repeat
/// after 2^20 epochs, so a window left alone for exactly that long (29 hours
/// at 100 ms) may show its old count until it moves.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Window<C = u64> {
    word: C,
    slots: [C; SLOTS],
}

/// The most a change may lead to. `ANY` never refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cap(u64);

impl Cap {
    /// No bound but the counter's own.
    pub const ANY: Self = Self(u64::MAX);

    /// At most `total` in the window.
    #[inline(always)]
    pub const fn total(total: u64) -> Self {
        Self::both(total, SLOT_MAX as u64)
    }

    /// At most `total` in the window and `slot` in one epoch, and only in the
    /// epoch that the bound was worked out for.
    #[inline(always)]
    pub const fn strict(total: u64, slot: u64) -> Self {
        Self(Self::both(total, slot).0 | STRICT)
    }

    #[inline(always)]
    const fn both(total: u64, slot: u64) -> Self {
        let total = if total > TOTAL_MAX as u64 {
            TOTAL_MAX as u64
        } else {
            total
        };
        let slot = if slot > SLOT_MAX as u64 {
            SLOT_MAX as u64
        } else {
            slot
        };
        Self(total << 32 | slot)
    }
}

/// Marks a cap that holds for one epoch only.
const STRICT: u64 = 1 << 63;

/// The word, unpacked.
#[derive(Clone, Copy)]
struct Word {
    epoch: u32,
    slot: u32,
    total: i32,
}

impl Word {
    #[inline(always)]
    const fn unpack(word: u64) -> Self {
        Self {
            epoch: (word >> (SLOT_BITS + TOTAL_BITS)) as u32,
            slot: (word >> TOTAL_BITS) as u32 & SLOT_MAX,
            // The sign of the 26-bit count: shift up, then arithmetically down.
            total: ((word as u32) << (32 - TOTAL_BITS)) as i32 >> (32 - TOTAL_BITS),
        }
    }
    #[inline(always)]
    const fn pack(self) -> u64 {
        (self.epoch as u64) << (SLOT_BITS + TOTAL_BITS)
            | (self.slot as u64 & SLOT_MAX as u64) << TOTAL_BITS
            | self.total as u64 & ((1 << TOTAL_BITS) - 1)
    }
}

/// How many slots expire when `word` moves to `epoch`; `None` where it stays.
///
/// A clock of another CPU that is a few epochs behind does not turn it back.
#[inline(always)]
const fn expiring(word: u32, epoch: u32) -> u32 {
    let ahead = epoch.wrapping_sub(word) & EPOCH_MASK;
    if ahead > EPOCH_MASK - SLOTS as u32 {
        0
    } else if ahead >= SLOTS as u32 {
        SLOTS as u32
    } else if ahead > SPAN {
        SPAN
    } else {
        ahead
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
    #[inline(never)]
    pub fn count(&self, epoch: u64) -> u64 {
        let word = Word::unpack(self.word.load());
        let gone = expiring(word.epoch, epoch as u32 & EPOCH_MASK);
        let mut total = word.total;
        let oldest = word.epoch.wrapping_sub(SPAN - 1);
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

    /// Adds `amount` in `epoch`.
    #[inline(always)]
    pub fn add(&self, epoch: u64, amount: u32) -> bool {
        self.change(epoch, epoch, amount as i32, Cap::ANY) != REFUSED
    }

    /// Adds one, unless that would exceed `cap`: the count after it, or `None`.
    #[inline(always)]
    pub fn reserve(&self, epoch: u64, cap: Cap) -> Option<u64> {
        let after = self.change(epoch, epoch, 1, cap);
        if after == REFUSED { None } else { Some(after) }
    }

    /// Takes back one that was added at `added`, if it has not expired.
    #[inline(always)]
    pub fn remove(&self, epoch: u64, added: u64) {
        self.change(epoch, added, -1, Cap::ANY);
    }

    /// Changes the count of the epoch `at` by `delta`; returns the window's
    /// count after it, or [`REFUSED`].
    #[inline(never)]
    fn change(&self, epoch: u64, at: u64, delta: i32, cap: Cap) -> u64 {
        let now = epoch as u32 & EPOCH_MASK;
        let mut gone = [0i32; SLOTS];
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            let seen = self.word.load();
            let old = Word::unpack(seen);
            let expired = expiring(old.epoch, now);
            let oldest = old.epoch.wrapping_sub(SPAN - 1);
            let mut new = old;
            if expired > 0 {
                new.epoch = now;
                new.slot = 0;
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
            }
            // An addition counts in the word's epoch even where this CPU's
            // clock is behind. A removal counts where the addition was, unless
            // that has expired: then there is nothing left to take back.
            let slot = if delta >= 0 {
                new.epoch
            } else {
                at as u32 & EPOCH_MASK
            };
            let age = new.epoch.wrapping_sub(slot) & EPOCH_MASK;
            if delta < 0 && age >= SPAN {
                return REFUSED;
            }
            let total = new.total.wrapping_add(delta);
            if delta >= 0 {
                if cap.0 != Cap::ANY.0 && cap.0 & STRICT != 0 && new.epoch != now {
                    return REFUSED;
                }
                let count = if new.total < 0 { 0 } else { new.total as u64 };
                let most = cap.0 >> 32 & 0x7fff_ffff;
                if count + delta as u64 > most || count + delta as u64 > TOTAL_MAX as u64 {
                    return REFUSED;
                }
                if new.slot as u64 + delta as u64 > cap.0 & 0xffff_ffff
                    || new.slot as u64 + delta as u64 > SLOT_MAX as u64
                {
                    return REFUSED;
                }
                new.slot = new.slot.wrapping_add(delta as u32);
            } else if age == 0 && new.slot > 0 {
                new.slot -= 1;
            }
            new.total = total;
            if self.word.compare_exchange(seen, new.pack()).is_err() {
                continue;
            }
            let mut i = 0;
            while i < SLOTS as u32 {
                if i >= expired {
                    break;
                }
                if let (Some(cell), Some(was)) = (
                    self.slot(oldest.wrapping_add(i)),
                    gone.get(i as usize & (SLOTS - 1)),
                ) && *was != 0
                {
                    cell.sub(*was as i64 as u64);
                }
                i += 1;
            }
            if let Some(cell) = self.slot(slot) {
                cell.add(delta as i64 as u64);
            }
            return if total < 0 { 0 } else { total as u64 };
        }
        REFUSED
    }
}

/// [`Window::change`] did nothing: over the cap, expired, or lost every race.
const REFUSED: u64 = u64::MAX;
