//! What the headers of a request say, by their class.

use super::date;
use super::hash::{FOLD, finish, folded, join};
use super::line::{BLANK, LF, Line, Marks, NONE, next};
use super::names::class;
use super::request::{RequestScan, flag, stage};

/// The largest [`RequestScan::attempt`].
const MOST_ATTEMPTS: u64 = 65_535;

/// How `Basic` and `Bearer` begin.
const LASTING_B: u32 = b'b' as u32;
/// How `Token` begins.
const LASTING_T: u32 = b't' as u32;

/// Units of `grpc-timeout`.
const HOURS: u32 = b'H' as u32;
const MINUTES: u32 = b'M' as u32;
const SECONDS: u32 = b'S' as u32;
const MILLIS: u32 = b'm' as u32;
const MICROS: u32 = b'u' as u32;
const NANOS: u32 = b'n' as u32;

impl RequestScan {
    #[inline(always)]
    pub(super) fn begin_value(&mut self, class: u16) {
        let line = &mut self.line;
        line.class = class;
        match class {
            class::PLAIN | class::VOLATILE | class::UPGRADE => line.begin_value(),
            class::KEY | class::SAFE_KEY | class::WEAK_KEY => {
                line.hash = 0;
                line.begin_value();
            }
            class::TRACE => {
                line.hash = 0;
                line.parts = 0;
                line.expect(b'-' as u32, Marks::Ends, FOLD);
            }
            class::CODING => {
                line.hash = 0;
                line.expect(b',' as u32, Marks::Blanks, FOLD);
            }
            class::AWS => line.begin_words(b'='),
            class::GOOGLE => line.begin_words(b'/'),
            class::GOOGLE_KEY | class::GOOGLE_OTHER => line.begin_word(NONE),
            class::AWS_OTHER => line.begin_word(b';' as u32),
            _ => line.begin_number(),
        }
    }

    #[inline(always)]
    pub(super) fn value(&mut self, byte: u32) -> u32 {
        if byte == LF {
            let end = self.end_value();
            let line = &mut self.line;
            line.stage = stage::NAME;
            line.begin();
            return end;
        }
        let line = &mut self.line;
        let blank = byte <= BLANK;
        match line.class {
            class::TRACE => {
                // version-trace-parent-flags
                line.parts += 1;
                if line.parts == 1 {
                    line.hash = 0;
                } else {
                    self.end_trace();
                }
            }
            class::CODING => {
                if !blank && byte != b',' as u32 {
                    line.take(byte);
                } else if line.hash != 0 {
                    self.end_coding();
                }
            }
            class::AWS => {
                if byte == b'=' as u32 {
                    let class = match line.hash {
                        it if it == const { folded("attempt") } => class::AWS_ATTEMPT,
                        it if it == const { folded("ttl") } => class::AWS_EXPIRES,
                        _ => class::AWS_OTHER,
                    };
                    self.begin_value(class);
                } else if blank {
                    line.begin_words(b'=');
                } else {
                    line.take(byte);
                }
            }
            class::GOOGLE => {
                if byte == b'/' as u32 {
                    let class = match line.hash {
                        it if it == const { folded("gccl-invocation-id") } => class::GOOGLE_KEY,
                        it if it == const { folded("gccl-attempt-count") } => class::GOOGLE_ATTEMPT,
                        _ => class::GOOGLE_OTHER,
                    };
                    self.begin_value(class);
                } else if blank {
                    line.begin_words(b'/');
                } else {
                    line.take(byte);
                }
            }
            class::CREDENTIALS if blank => {}
            class::CREDENTIALS => {
                // Basic, Bearer, Token: else two users' requests would be equal.
                line.class = match byte | FOLD {
                    LASTING_B | LASTING_T => class::PLAIN,
                    _ => class::VOLATILE,
                };
                line.begin_value();
                line.take(byte);
            }
            class::AWS_ATTEMPT | class::AWS_EXPIRES | class::AWS_OTHER => {
                if blank || byte == b';' as u32 {
                    self.end_value();
                    self.begin_value(class::AWS);
                } else if line.class == class::AWS_OTHER {
                    line.take(byte);
                } else if line.class != class::AWS_EXPIRES || byte != b'T' as u32 {
                    line.digit(byte);
                }
            }
            class::GOOGLE_KEY | class::GOOGLE_ATTEMPT | class::GOOGLE_OTHER => {
                if blank {
                    self.end_value();
                    self.begin_value(class::GOOGLE);
                } else if line.class == class::GOOGLE_ATTEMPT {
                    line.digit(byte);
                } else {
                    line.take(byte);
                }
            }
            class::PLAIN
            | class::VOLATILE
            | class::UPGRADE
            | class::KEY
            | class::SAFE_KEY
            | class::WEAK_KEY => line.take(byte),
            _ => line.digit(byte),
        }
        next::ON
    }

    /// A value, or a word of one, is complete.
    #[inline(always)]
    fn end_value(&mut self) -> u32 {
        let line = &mut self.line;
        let whole = line.whole();
        match line.class {
            class::PLAIN | class::UPGRADE => {
                self.fingerprint = join(self.fingerprint, line.hash);
            }
            class::KEY | class::GOOGLE_KEY if line.hash != 0 && self.key == 0 => {
                self.key = finish(line.hash);
            }
            class::SAFE_KEY if line.hash != 0 => {
                self.key = finish(line.hash);
                self.flags |= flag::IDEMPOTENT;
            }
            class::WEAK_KEY if line.hash != 0 => {
                self.weak_key = finish(line.hash);
            }
            class::CODING => self.end_coding(),
            class::LENGTH => match whole {
                Some(length) => {
                    self.length = length;
                    self.fingerprint = join(self.fingerprint, length);
                }
                // Where the body ends is not known.
                None => return self.broken(),
            },
            class::ATTEMPT | class::AWS_ATTEMPT | class::GOOGLE_ATTEMPT => self.try_is(whole),
            class::RETRIES => self.try_is(whole.map(|retries| retries + 1)),
            class::PATIENCE_MS => self.waits(whole, 1_000),
            class::PATIENCE_S => {
                let seconds = line.rounded();
                self.waits(seconds, 1_000_000);
            }
            class::PATIENCE => {
                // The unit is the letter after the digits.
                let number = if line.digits > 0 { line.number } else { 0 };
                let (number, micros) = match line.unit as u32 {
                    HOURS => (number, 3_600_000_000),
                    MINUTES => (number, 60_000_000),
                    SECONDS => (number, 1_000_000),
                    MILLIS => (number, 1_000),
                    MICROS => (number, 1),
                    NANOS => (number.div_ceil(1_000), 1),
                    _ => (0, 1),
                };
                self.waits(Some(number), micros);
            }
            class::AWS_EXPIRES if line.digits == 14 && line.unit == b'Z' as u16 => {
                self.expires = date::basic(line.number);
            }
            _ => {}
        }
        next::ON
    }

    /// The trace of a traceparent is complete.
    #[inline(always)]
    fn end_trace(&mut self) {
        let line = &mut self.line;
        if self.weak_key == 0 && line.hash != 0 {
            self.weak_key = finish(line.hash);
        }
        line.class = class::VOLATILE;
        line.expect(NONE, Marks::Ends, 0);
    }

    /// One coding of the body is named; the last one says how it is framed.
    #[inline(always)]
    fn end_coding(&mut self) {
        let line = &mut self.line;
        if line.hash == 0 {
            return;
        }
        self.fingerprint = join(self.fingerprint, line.hash);
        if line.hash == const { folded("chunked") } {
            self.flags |= flag::CHUNKED;
        } else {
            self.flags &= !flag::CHUNKED;
        }
        line.hash = 0;
    }

    /// Says which try it is; the largest of several is believed.
    #[inline(always)]
    const fn try_is(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            let number = if number < MOST_ATTEMPTS {
                number
            } else {
                MOST_ATTEMPTS
            };
            if number as u32 > self.attempt {
                self.attempt = number as u32;
            }
        }
    }

    /// Says how long its caller waits, in units of so many us; the shortest of
    /// several is believed.
    #[inline(always)]
    const fn waits(&mut self, number: Option<u64>, unit: u64) {
        if let Some(number) = number {
            // gRPC allows eight digits; more of any unit is as good as for ever.
            if number > 0 && number < 100_000_000 {
                let millis = (number * unit).div_ceil(1_000);
                let millis = if millis < u32::MAX as u64 {
                    millis as u32
                } else {
                    u32::MAX
                };
                if self.patience == 0 || millis < self.patience {
                    self.patience = millis;
                }
            }
        }
    }
}

impl Line {
    /// Words begin that are named up to this byte.
    #[inline(always)]
    const fn begin_words(&mut self, named_to: u8) {
        self.hash = 0;
        self.expect(named_to as u32, Marks::Blanks, FOLD);
    }

    /// A word begins whose end is white space, or this byte.
    #[inline(always)]
    const fn begin_word(&mut self, end: u32) {
        self.hash = 0;
        self.expect(end, Marks::Blanks, 0);
    }
}
