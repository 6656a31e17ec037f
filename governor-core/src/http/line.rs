//! What requests and answers have in common: lines, read byte by byte.
//!
//! Most bytes belong to a name or a value and are only hashed: that loop is
//! what a request costs (2-3 ns a byte, docs/cost.md). The few that
//! decide something, [`Head::mark`]s, are handled apart: in the kernel by a
//! function that the verifier walks once, not once for each of [`CHUNK`] bytes.
//! All state between two marks is in [`Line`], which zeroed is at a beginning.

use bytemuck::{Pod, Zeroable};

use super::hash::{FOLD, SPACE, step};
use super::{CHUNK, state};

/// Bytes of a head that are read; servers refuse a quarter of that.
pub const LONGEST: u32 = 65_536;

/// No byte stops the reading of a name or value.
pub(super) const NONE: u32 = 0x1ff;
/// White space, and what controls: no byte of a name or value.
pub(super) const BLANK: u32 = 0x20;

/// Which bytes are marks, besides the line's end and the one that stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    /// No others: white space, CR among it, counts as one blank, and not at
    /// all at the end.
    Ends,
    /// White space.
    Blanks,
    /// Every byte.
    All,
}

/// The highest byte.
const ALL: u32 = 0xff;
pub(super) const LF: u32 = 0x0a;
pub(super) const CR: u32 = 0x0d;
pub(super) const COLON: u32 = b':' as u32;

/// [`Line::unit`]: white space followed the number.
pub(super) const SPACED: u16 = 0x20;
/// [`Line::unit`]: it is no number.
const GARBAGE: u16 = 0x1ff;
/// More digits than any number that is meant.
const MOST_DIGITS: u16 = 18;

/// What a mark leads to, a number for the kernel's sake.
pub mod next {
    /// Read on.
    pub const ON: u32 = 0;
    /// Stop after this byte.
    pub const STOP: u32 = 1;
}

/// Where a line is read, between two marks and between two segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Line {
    // Words that are cleared together are apart: of two stores of 0 side by
    // side LLVM makes a call of memset.
    /// What a scan counts within a line.
    pub(super) parts: u32,
    /// How many digits.
    pub(super) digits: u16,
    /// What follows the digits.
    pub(super) unit: u16,
    /// What each byte is taken for.
    gear: u64,
    /// The digits so far.
    pub(super) number: u64,
    /// Bytes of the head so far.
    size: u32,
    /// Where in the head, by the scan.
    pub(super) stage: u16,
    /// What the header means, by the scan.
    pub(super) class: u16,
    /// Letters of a date.
    pub(super) word: u64,
    /// Of the name or value so far; 0: nothing yet.
    pub(super) hash: u64,
}

/// What each byte is taken for. In the record it is one word, since it is set
/// at every mark.
#[derive(Clone, Copy)]
struct Gear {
    /// This byte is a mark, too.
    stop: u32,
    /// Ored into the next byte.
    add: u32,
    /// Ored into every byte.
    fold: u32,
    /// Up to this byte, all are marks or white space.
    limit: u32,
    /// Bytes below this one are white space and no marks.
    soft: u32,
}

impl Gear {
    const ADD: u32 = 16;
    const FOLD: u32 = 32;
    const QUICK: u32 = 40;
    const SOFT: u32 = 48;

    #[inline(always)]
    const fn pack(self) -> u64 {
        // Turned round, so that 0 is where a head begins: every byte a mark.
        let quick = ALL - self.limit;
        self.stop as u64
            | (self.add as u64) << Self::ADD
            | (self.fold as u64) << Self::FOLD
            | (quick as u64) << Self::QUICK
            | (self.soft as u64) << Self::SOFT
    }

    #[inline(always)]
    const fn unpack(word: u64) -> Self {
        Self {
            stop: (word & 0xffff) as u32,
            add: (word >> Self::ADD & 0xffff) as u32,
            fold: (word >> Self::FOLD & 0xff) as u32,
            limit: ALL - (word >> Self::QUICK & 0xff) as u32,
            soft: (word >> Self::SOFT) as u32,
        }
    }
}

/// A head that is read by lines.
pub(super) trait Head {
    /// Its line.
    fn line(&mut self) -> &mut Line;
    /// It can not be read.
    fn unreadable(&mut self);
    /// Handles a byte that decides something: [`next`].
    fn mark(&mut self, byte: u32) -> u32;
}

/// Reads on, at most `count` bytes; how many it took.
#[inline(always)]
pub(super) fn read<H: Head>(
    head: &mut H,
    bytes: &[u8; CHUNK],
    count: u32,
    mark: impl Fn(&mut H, u32) -> u32,
) -> u32 {
    let line = head.line();
    let mut hash = line.hash;
    let mut gear = Gear::unpack(line.gear);
    let mut at = 0;
    // One way round: more, or a condition that does not change within it, and
    // LLVM makes loops of it that the verifier walks a million steps.
    while at < CHUNK && (at as u32) < count {
        let byte = bytes[at] as u32;
        if byte > gear.limit && byte != gear.stop {
            hash = step(hash, byte | gear.add);
            gear.add = gear.fold;
        } else if byte < gear.soft && byte != LF && byte != gear.stop {
            gear.add = gear.fold | SPACE;
        } else {
            let line = head.line();
            line.hash = hash;
            line.gear = gear.pack();
            if mark(head, byte) != next::ON {
                let taken = at as u32 + 1;
                let line = head.line();
                line.size += taken;
                if line.size > LONGEST {
                    head.unreadable();
                }
                return taken;
            }
            let line = head.line();
            hash = line.hash;
            gear = Gear::unpack(line.gear);
        }
        at += 1;
    }
    let line = head.line();
    line.hash = hash;
    line.gear = gear.pack();
    line.size += at as u32;
    if line.size >= LONGEST {
        head.unreadable();
    }
    at as u32
}

impl Line {
    /// Bytes of the head so far.
    #[inline(always)]
    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// So many bytes were taken at once.
    #[inline(always)]
    pub(super) const fn took(&mut self, count: u32) {
        self.size += count;
    }

    /// From here on: which bytes are marks, and what is ored into each other.
    #[inline(always)]
    pub(super) const fn expect(&mut self, stop: u32, marks: Marks, fold: u32) {
        self.shift(stop, marks, fold, fold);
    }

    #[inline(always)]
    const fn shift(&mut self, stop: u32, marks: Marks, fold: u32, add: u32) {
        let (limit, soft) = match marks {
            Marks::Ends => (BLANK, BLANK + 1),
            Marks::Blanks => (BLANK, 0),
            Marks::All => (ALL, 0),
        };
        let gear = Gear {
            stop,
            add,
            fold,
            limit,
            soft,
        };
        self.gear = gear.pack();
    }

    /// A line begins: a header, or the blank one that ends the head.
    #[inline(always)]
    pub(super) const fn begin(&mut self) {
        self.hash = 0;
        self.expect(COLON, Marks::Blanks, FOLD);
    }

    /// A value begins that goes on with the hash of its name.
    #[inline(always)]
    pub(super) const fn begin_value(&mut self) {
        // As if there always was a blank after the colon.
        self.shift(NONE, Marks::Ends, 0, SPACE);
    }

    /// A number begins.
    #[inline(always)]
    pub(super) const fn begin_number(&mut self) {
        self.expect(NONE, Marks::All, 0);
        self.number = 0;
        self.digits = 0;
        self.unit = 0;
    }

    /// Takes a byte that is marked and belongs to the name or value.
    #[inline(always)]
    pub(super) const fn take(&mut self, byte: u32) {
        let mut gear = Gear::unpack(self.gear);
        self.hash = step(self.hash, byte | gear.add);
        gear.add = gear.fold;
        self.gear = gear.pack();
    }

    /// A byte of a number, or of what follows it.
    #[inline(always)]
    pub(super) const fn digit(&mut self, byte: u32) {
        let digit = byte.wrapping_sub(b'0' as u32);
        if digit <= 9 {
            if self.unit == 0 && self.digits < MOST_DIGITS {
                self.number = self.number * 10 + digit as u64;
                self.digits += 1;
            } else if self.unit != b'.' as u16 {
                self.unit = GARBAGE;
            }
        } else if byte <= BLANK {
            if self.unit == 0 && self.digits > 0 {
                self.unit = SPACED;
            }
        } else if self.unit == 0 && self.digits > 0 {
            self.unit = byte as u16;
        } else {
            self.unit = GARBAGE;
        }
    }

    /// The number, if it is one and nothing follows.
    #[inline(always)]
    pub(super) const fn whole(&self) -> Option<u64> {
        if self.digits > 0 && (self.unit == 0 || self.unit == SPACED) {
            Some(self.number)
        } else {
            None
        }
    }

    /// The number without its fraction, if it is one.
    #[inline(always)]
    pub(super) const fn rounded(&self) -> Option<u64> {
        if self.digits > 0 && (self.unit == 0 || self.unit == SPACED || self.unit == b'.' as u16) {
            Some(self.number)
        } else {
            None
        }
    }
}

/// Whether a scan in this state reads on.
#[inline(always)]
pub(super) const fn reads_on(at: u32) -> bool {
    at == state::START || at == state::HEAD
}
