//! What requests and answers have in common: lines, read byte by byte.
//!
//! Most bytes belong to a name or a value and are only hashed: that loop is
//! what a request costs (2 ns a byte at most, docs/cost.md). The few that
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
/// Bytes above this one need no mark.
pub(super) const BLANK: u32 = 0x20;
/// The same, and white space is a mark: the value is read word by word.
pub(super) const WORDS: u32 = 0x21;
/// Every byte is a mark.
pub(super) const ALL: u32 = 0xff;

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
    /// Of the name or value so far; 0: nothing yet.
    pub(super) hash: u64,
    /// Of the word before, or letters of a date.
    pub(super) word: u64,
    /// The digits so far.
    pub(super) number: u64,
    /// Bytes of the head so far.
    size: u32,
    /// What a scan counts within a line.
    pub(super) parts: u32,
    /// Where in the head, by the scan.
    pub(super) stage: u16,
    /// What the header means, by the scan.
    pub(super) class: u16,
    /// This byte is a mark, too.
    stop: u16,
    /// Ored into the next byte.
    add: u16,
    /// Ored into every byte.
    fold: u16,
    /// How many of the highest bytes are no marks, so that 0 is a beginning.
    quick: u16,
    /// How many digits.
    pub(super) digits: u16,
    /// What follows the digits.
    pub(super) unit: u16,
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
    let room = LONGEST.saturating_sub(line.size);
    let count = if count < room { count } else { room };
    let mut hash = line.hash;
    let (mut add, mut fold, mut stop, mut limit) = line.registers();
    let mut at = 0;
    while at < CHUNK {
        if at as u32 >= count {
            break;
        }
        let byte = bytes[at] as u32;
        at += 1;
        if byte > limit && byte != stop {
            hash = step(hash, byte | add);
            add = fold;
            continue;
        }
        // White space, CR among it, counts as one blank, and not at all at
        // the end. Only where a line begins with it, it says something.
        let folds = stop == COLON && hash == 0 && byte != CR;
        if limit == BLANK && byte != LF && byte != stop && !folds {
            add = fold | SPACE;
            continue;
        }
        let line = head.line();
        line.hash = hash;
        line.add = add as u16;
        if mark(head, byte) != next::ON {
            head.line().size += at as u32;
            return at as u32;
        }
        hash = head.line().hash;
        (add, fold, stop, limit) = head.line().registers();
    }
    let line = head.line();
    line.hash = hash;
    line.add = add as u16;
    line.size += at as u32;
    if line.size >= LONGEST {
        head.unreadable();
    }
    at as u32
}

impl Line {
    #[inline(always)]
    const fn registers(&self) -> (u32, u32, u32, u32) {
        (
            self.add as u32,
            self.fold as u32,
            self.stop as u32,
            ALL - self.quick as u32,
        )
    }

    /// From here on: which byte is a mark, up to which all are, and what is
    /// ored into each.
    #[inline(always)]
    pub(super) const fn expect(&mut self, stop: u32, limit: u32, fold: u32) {
        self.stop = stop as u16;
        self.quick = (ALL - limit) as u16;
        self.fold = fold as u16;
        self.add = fold as u16;
    }

    /// A line begins: a header, or the blank one that ends the head.
    #[inline(always)]
    pub(super) const fn begin(&mut self) {
        self.hash = 0;
        self.expect(COLON, BLANK, FOLD);
    }

    /// A value begins that goes on with the hash of its name.
    #[inline(always)]
    pub(super) const fn begin_value(&mut self) {
        self.expect(NONE, BLANK, 0);
        // As if there always was a blank after the colon.
        self.add = SPACE as u16;
    }

    /// A number begins.
    #[inline(always)]
    pub(super) const fn begin_number(&mut self) {
        self.expect(NONE, ALL, 0);
        self.number = 0;
        self.digits = 0;
        self.unit = 0;
    }

    /// Takes a byte that is marked and belongs to the name or value.
    #[inline(always)]
    pub(super) const fn take(&mut self, byte: u32) {
        self.hash = step(self.hash, byte | self.add as u32);
        self.add = self.fold;
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
