//! The head of an answer.

use bytemuck::{Pod, Zeroable};

use super::date::Parts;
use super::hash::{FOLD, folded};
use super::line::{self, BLANK, CR, Head, LF, Line, Marks, NONE, next};
use super::{CHUNK, clear, state};

/// An answer's head while it is read, and what it said once it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AnswerScan {
    /// Numbers of the date that is being read.
    numbers: u64,
    /// `Retry-After` as a date, s since 1970; 0: not said.
    pub retry_at: u64,
    /// `Date`, s since 1970; 0: not said.
    pub date: u64,
    /// How long to wait before another try, ms; 0: not said, or at once.
    pub retry_after: u32,
    /// The status; 0 while unknown.
    pub status: u32,
    /// [`flag`].
    pub flags: u32,
    /// [`super::state`].
    pub state: u32,
    line: Line,
}

/// Bits of [`AnswerScan::flags`].
pub mod flag {
    /// It says not to try again.
    pub const NO_RETRY: u32 = 1;
    /// It is a governor's own refusal, perhaps relayed: no evidence.
    pub const OURS: u32 = 2;
    /// The wait was said in ms, which counts more than seconds.
    pub(super) const IN_MS: u32 = 4;
}

/// How an answer begins, byte 0 lowest.
const PROTOCOL: u64 = u64::from_le_bytes(*b"HTTP/1.\0");
/// How many bytes of it, with the minor version.
const PROTOCOL_BYTES: u16 = 8;
/// `HTTP/1.1 200`
const USUAL_BYTES: u32 = 12;

/// [`Line::stage`].
mod stage {
    /// Zero: where an answer begins.
    pub const PROTOCOL: u16 = 0;
    pub const STATUS: u16 = 1;
    pub const NAME: u16 = 2;
    pub const VALUE: u16 = 3;
}

/// What a header is to an answer.
mod class {
    pub const PLAIN: u16 = 0;
    pub const RETRY_AFTER: u16 = 1;
    pub const RETRY_SECONDS: u16 = 2;
    pub const RETRY_DATE: u16 = 3;
    pub const RETRY_MS: u16 = 4;
    pub const DATE: u16 = 5;
    pub const SHOULD_RETRY: u16 = 6;
    pub const OURS: u16 = 7;
}

impl Head for AnswerScan {
    #[inline(always)]
    fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    #[inline(always)]
    fn unreadable(&mut self) {
        if line::reads_on(self.state) {
            self.state = state::UNREADABLE;
        }
    }

    #[inline(always)]
    fn mark(&mut self, byte: u32) -> u32 {
        match self.line.stage {
            stage::PROTOCOL => self.protocol(byte),
            stage::STATUS => self.status(byte),
            stage::NAME => self.name(byte),
            _ => self.value(byte),
        }
    }
}

impl AnswerScan {
    /// Forgets everything: the next byte begins an answer.
    #[inline(always)]
    pub fn begin(&mut self) {
        clear(bytemuck::cast_mut::<Self, [u64; size_of::<Self>() / 8]>(
            self,
        ));
    }

    /// Reads on, `count` bytes at most; how many it took. It stops after the
    /// status, after the blank line that ends the head, and where it sees that
    /// it can not read. Answers before the last one (1xx) end like others.
    pub fn chunk(&mut self, bytes: &[u8; CHUNK], count: u32) -> u32 {
        self.chunk_with(bytes, count, Self::mark)
    }

    /// The same, with [`AnswerScan::mark`] by another way: the kernel's.
    #[inline(always)]
    pub fn chunk_with(
        &mut self,
        bytes: &[u8; CHUNK],
        count: u32,
        mark: impl Fn(&mut Self, u32) -> u32,
    ) -> u32 {
        if self.begins_as_usual(bytes, count) {
            USUAL_BYTES
        } else if line::reads_on(self.state) {
            line::read(self, bytes, count, mark)
        } else {
            0
        }
    }

    /// Takes protocol and status at once where they are as usual and all here:
    /// byte by byte each would be a mark. What is left is the same.
    #[inline(always)]
    fn begins_as_usual(&mut self, bytes: &[u8; CHUNK], count: u32) -> bool {
        if self.line.size() != 0 || self.state != state::START || count < USUAL_BYTES {
            return false;
        }
        let (words, _) = bytes.as_chunks::<8>();
        let protocol = u64::from_le_bytes(words[0]);
        let minor = (protocol >> 56).wrapping_sub(b'0' as u64);
        let (quads, _) = bytes.as_chunks::<4>();
        let [blank, a, b, c] = quads[2];
        let digit = |byte: u8| (byte as u32).wrapping_sub(b'0' as u32);
        let (a, b, c) = (digit(a), digit(b), digit(c));
        let usual = protocol << 8 >> 8 == PROTOCOL
            && minor <= 9
            && blank as u32 == BLANK
            && (1..=9).contains(&a)
            && b <= 9
            && c <= 9;
        if usual {
            let line = &mut self.line;
            line.begin_number();
            line.number = (a * 100 + b * 10 + c) as u64;
            line.digits = 3;
            line.took(USUAL_BYTES);
            self.state = state::HEAD;
            self.status_is_known();
        }
        usual
    }

    /// Handles a byte that decides something: [`next`].
    #[inline(always)]
    pub fn mark(&mut self, byte: u32) -> u32 {
        Head::mark(self, byte)
    }

    /// Whether what follows the status can matter: another answer follows this
    /// one, or it is a failure, which says how to go on.
    #[inline(always)]
    pub const fn has_more_to_say(&self) -> bool {
        line::reads_on(self.state) && (self.status < 200 || self.status >= 400)
    }

    #[inline(always)]
    fn protocol(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        let at = line.digits;
        if at == PROTOCOL_BYTES && byte == BLANK {
            self.state = state::HEAD;
            line.stage = stage::STATUS;
            line.begin_number();
            return next::ON;
        }
        // A server may have ended the body before with a line too many.
        if at == 0 && (byte == CR || byte == LF) {
            return next::ON;
        }
        let fits = if at + 1 < PROTOCOL_BYTES {
            byte as u64 == PROTOCOL >> (8 * (at & 7)) & 0xff
        } else {
            at + 1 == PROTOCOL_BYTES && byte.wrapping_sub(b'0' as u32) <= 9
        };
        if !fits {
            self.state = state::FOREIGN;
            return next::STOP;
        }
        line.digits += 1;
        next::ON
    }

    #[inline(always)]
    fn status(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        if byte == BLANK && line.digits == 0 {
            return next::ON;
        }
        line.digit(byte);
        if line.unit != 0 || line.digits == 0 || line.number == 0 {
            return self.broken();
        }
        if line.digits == 3 {
            if line.number < 100 {
                return self.broken();
            }
            self.status_is_known();
            return next::STOP;
        }
        next::ON
    }

    /// The number is the status; the rest of its line says nothing.
    #[inline(always)]
    fn status_is_known(&mut self) {
        let line = &mut self.line;
        self.status = line.number as u32;
        line.stage = stage::VALUE;
        line.class = class::PLAIN;
        line.begin_value();
    }

    #[inline(always)]
    fn broken(&mut self) -> u32 {
        self.state = state::UNREADABLE;
        next::STOP
    }

    #[inline(always)]
    fn name(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        if byte == LF {
            self.state = if line.hash == 0 {
                state::DONE
            } else {
                state::UNREADABLE
            };
            return next::STOP;
        }
        if byte != line::COLON && (byte == CR || line.hash != 0) {
            return next::ON;
        }
        line.stage = stage::VALUE;
        // Else the line before goes on (obs-fold), which nobody needs.
        let class = if byte == line::COLON {
            class_of(line.hash)
        } else {
            class::PLAIN
        };
        line.class = class;
        match class {
            class::PLAIN => line.begin_value(),
            class::OURS => {
                self.flags |= flag::OURS;
                line.begin_value();
            }
            class::SHOULD_RETRY => {
                line.hash = 0;
                line.expect(NONE, Marks::Blanks, FOLD);
            }
            class::DATE | class::RETRY_AFTER => {
                line.begin_number();
                line.begin_date();
                self.numbers = 0;
            }
            _ => line.begin_number(),
        }
        next::ON
    }

    #[inline(always)]
    fn value(&mut self, byte: u32) -> u32 {
        if byte == LF {
            self.end_value();
            self.line.stage = stage::NAME;
            self.line.begin();
            return next::ON;
        }
        let line = &mut self.line;
        match line.class {
            class::PLAIN | class::OURS => line.take(byte),
            class::SHOULD_RETRY if byte > BLANK => {
                line.take(byte);
            }
            class::RETRY_AFTER if byte > BLANK => {
                let digit = byte.wrapping_sub(b'0' as u32) <= 9;
                line.class = if digit {
                    class::RETRY_SECONDS
                } else {
                    class::RETRY_DATE
                };
                if digit {
                    line.digit(byte);
                } else {
                    self.date_byte(byte);
                }
            }
            class::DATE | class::RETRY_DATE => self.date_byte(byte),
            _ => line.digit(byte),
        }
        next::ON
    }

    #[inline(always)]
    fn end_value(&mut self) {
        let line = &mut self.line;
        match line.class {
            class::SHOULD_RETRY if line.hash == const { folded("false") } => {
                self.flags |= flag::NO_RETRY;
            }
            class::RETRY_SECONDS => {
                if let Some(seconds) = line.rounded()
                    && self.flags & flag::IN_MS == 0
                {
                    self.retry_after = millis(seconds, 1_000);
                }
            }
            class::RETRY_MS if let Some(number) = line.rounded() => {
                self.flags |= flag::IN_MS;
                self.retry_after = millis(number, 1);
            }
            class::RETRY_DATE => self.retry_at = self.end_date(),
            class::DATE => self.date = self.end_date(),
            _ => {}
        }
    }

    #[inline(always)]
    fn date_byte(&mut self, byte: u32) {
        let line = &mut self.line;
        if byte.wrapping_sub(b'0' as u32) <= 9 {
            line.digit(byte);
        } else if (byte | FOLD).wrapping_sub(b'a' as u32) < 26 {
            line.word = (line.word << 8 | (byte | FOLD) as u64) & 0xff_ffff;
        } else {
            self.end_part();
        }
    }

    #[inline(always)]
    fn end_part(&mut self) {
        let line = &mut self.line;
        let mut parts = Parts {
            numbers: self.numbers,
            marks: line.parts,
        };
        if line.digits > 0 {
            parts.number(line.number);
        } else {
            parts.word(line.word as u32);
        }
        self.numbers = parts.numbers;
        line.parts = parts.marks;
        line.begin_part();
    }

    #[inline(always)]
    fn end_date(&mut self) -> u64 {
        self.end_part();
        let parts = Parts {
            numbers: self.numbers,
            marks: self.line.parts,
        };
        parts.seconds()
    }
}

impl Line {
    #[inline(always)]
    const fn begin_date(&mut self) {
        self.parts = 0;
        self.word = 0;
    }

    /// The next number or word of a date.
    #[inline(always)]
    const fn begin_part(&mut self) {
        self.word = 0;
        self.number = 0;
        self.digits = 0;
        self.unit = 0;
    }
}

/// So many units of ms, as far as they fit.
#[inline(always)]
const fn millis(number: u64, unit: u64) -> u32 {
    if number < u32::MAX as u64 / unit {
        (number * unit) as u32
    } else {
        u32::MAX
    }
}

/// The class of a header, by the hash of its name.
#[inline(always)]
const fn class_of(hash: u64) -> u16 {
    match hash {
        it if it == const { folded("retry-after") } => class::RETRY_AFTER,
        it if it == const { folded("retry-after-ms") } => class::RETRY_MS,
        it if it == const { folded("x-ms-retry-after-ms") } => class::RETRY_MS,
        it if it == const { folded("x-amz-retry-after") } => class::RETRY_MS,
        it if it == const { folded("x-should-retry") } => class::SHOULD_RETRY,
        it if it == const { folded("stripe-should-retry") } => class::SHOULD_RETRY,
        it if it == const { folded("x-retry-governor") } => class::OURS,
        it if it == const { folded("date") } => class::DATE,
        _ => class::PLAIN,
    }
}
