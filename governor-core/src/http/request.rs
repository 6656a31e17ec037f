//! The head of a request.

use bytemuck::{Pod, Zeroable};

use super::hash::{FOLD, exact, finish, folded, join, unstep};
use super::line::{self, BLANK, CR, Head, LF, Line, Marks, NONE, next};
use super::names::{class, class_of};
use super::{CHUNK, clear, date, method, state};

/// A request's head while it is read, and what it said once it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RequestScan {
    /// Hash of method, target and lasting headers; of the body bytes seen with
    /// the end of the head, too.
    pub fingerprint: u64,
    /// Hash of a value that names the operation by itself; 0: none.
    pub key: u64,
    /// Hash of a value that names it together with the fingerprint; 0: none.
    pub weak_key: u64,
    /// Bytes of body that follow, unless it is chunked.
    pub length: u64,
    /// When its caller stops waiting, s since 1970; 0: not said.
    pub expires: u64,
    /// How long its caller waits, ms; 0: not said.
    pub patience: u32,
    /// Which try it says it is, from 1; 0: not said.
    pub attempt: u32,
    /// [`super::method`].
    pub method: u32,
    /// [`flag`].
    pub flags: u32,
    /// [`super::state`].
    pub state: u32,
    /// Bytes of body in the fingerprint.
    pub body: u32,
    line: Line,
}

/// Bits of [`RequestScan::flags`].
pub mod flag {
    /// The body is chunked.
    pub const CHUNKED: u32 = 1;
    /// It carries an `Idempotency-Key`, or another header that makes a
    /// repetition safe.
    pub const IDEMPOTENT: u32 = 2;
    /// It asks to speak another protocol.
    pub const UPGRADE: u32 = 4;
}

/// Bytes of body that go into the fingerprint, at most.
pub const VISIBLE: u32 = 256;

/// A longer token is no method.
const LONGEST_METHOD: u16 = 20;

/// The largest [`RequestScan::attempt`].
const MOST_ATTEMPTS: u64 = 65_535;

/// Units of `grpc-timeout`.
const HOURS: u32 = b'H' as u32;
const MINUTES: u32 = b'M' as u32;
const SECONDS: u32 = b'S' as u32;
const MILLIS: u32 = b'm' as u32;
const MICROS: u32 = b'u' as u32;
const NANOS: u32 = b'n' as u32;

/// [`Line::stage`].
mod stage {
    /// Zero: where a request begins.
    pub const METHOD: u16 = 0;
    pub const TARGET: u16 = 1;
    pub const VERSION: u16 = 2;
    pub const NAME: u16 = 3;
    pub const VALUE: u16 = 4;
}

impl Head for RequestScan {
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
            stage::METHOD => self.method(byte),
            stage::TARGET => self.target(byte),
            stage::VERSION => self.version(byte),
            stage::NAME => self.name(byte),
            _ => self.value(byte),
        }
    }
}

impl RequestScan {
    /// Forgets everything: the next byte begins a request.
    #[inline(always)]
    pub fn begin(&mut self) {
        clear(bytemuck::cast_mut::<Self, [u64; size_of::<Self>() / 8]>(
            self,
        ));
    }

    /// Reads on, `count` bytes at most; how many it took. It stops after the
    /// blank line that ends the head, and where it sees that it can not read.
    pub fn chunk(&mut self, bytes: &[u8; CHUNK], count: u32) -> u32 {
        self.chunk_with(bytes, count, Self::mark)
    }

    /// The same, with [`RequestScan::mark`] by another way: the kernel's.
    #[inline(always)]
    pub fn chunk_with(
        &mut self,
        bytes: &[u8; CHUNK],
        count: u32,
        mark: impl Fn(&mut Self, u32) -> u32,
    ) -> u32 {
        if line::reads_on(self.state) {
            line::read(self, bytes, count, mark)
        } else {
            0
        }
    }

    /// Handles a byte that decides something: [`next`].
    #[inline(always)]
    pub fn mark(&mut self, byte: u32) -> u32 {
        Head::mark(self, byte)
    }

    /// Mixes body bytes into the fingerprint, those that came in the segment
    /// in which the head ended: [`VISIBLE`] at most. Always whole chunks, but
    /// for the last one.
    #[inline(always)]
    pub fn body(&mut self, bytes: &[u8; CHUNK], count: u32) {
        let room = VISIBLE.saturating_sub(self.body);
        let count = if count < room { count } else { room };
        if count == 0 {
            return;
        }
        let mut hash = self.fingerprint ^ u64::from(count);
        let (words, _) = bytes.as_chunks::<8>();
        let mut at = 0;
        while at < CHUNK / 8 {
            let left = count.saturating_sub(at as u32 * 8);
            if left == 0 {
                break;
            }
            let mut word = u64::from_le_bytes(words[at]);
            if left < 8 {
                word &= (1 << (8 * left)) - 1;
            }
            hash = join(hash, word);
            at += 1;
        }
        self.fingerprint = finish(hash);
        self.body += count;
    }

    #[inline(always)]
    fn foreign(&mut self) -> u32 {
        self.state = state::FOREIGN;
        next::STOP
    }

    #[inline(always)]
    fn broken(&mut self) -> u32 {
        self.state = state::UNREADABLE;
        next::STOP
    }

    #[inline(always)]
    fn method(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        let first = line.hash == 0;
        if byte == BLANK && !first {
            self.method = known(line.hash);
            // HTTP/2 with prior knowledge begins with what HTTP/1 refuses.
            if line.hash == const { exact("PRI") } {
                return self.foreign();
            }
            if self.method != method::OTHER {
                self.state = state::HEAD;
            }
            self.fingerprint = join(0, line.hash);
            line.stage = stage::TARGET;
            line.hash = 0;
            line.expect(BLANK, Marks::Ends, 0);
            return next::ON;
        }
        // RFC 9112 2.2: blank lines before a request are left out.
        if first && (byte == CR || byte == LF) {
            return next::ON;
        }
        let letter = byte.wrapping_sub(b'A' as u32) < 26;
        let dash = byte == b'-' as u32 || byte == b'_' as u32;
        if !(letter || dash && !first) || line.digits >= LONGEST_METHOD {
            return self.foreign();
        }
        line.digits += 1;
        line.take(byte);
        next::ON
    }

    #[inline(always)]
    fn target(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        if byte == LF {
            return self.foreign();
        }
        if byte != BLANK {
            line.take(byte);
        } else if line.hash != 0 {
            self.fingerprint = join(self.fingerprint, line.hash);
            line.hash = 0;
            line.stage = stage::VERSION;
            line.expect(BLANK, Marks::Ends, 0);
        }
        next::ON
    }

    #[inline(always)]
    fn version(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        if byte == LF {
            if !is_version(line.hash) {
                return self.foreign();
            }
            self.state = state::HEAD;
            line.stage = stage::NAME;
            line.begin();
        } else if byte != BLANK {
            line.take(byte);
        } else if line.hash != 0 {
            // A blank in the target, which some send as it is.
            self.fingerprint = join(self.fingerprint, line.hash);
            line.hash = 0;
            line.expect(BLANK, Marks::Ends, 0);
        }
        next::ON
    }

    #[inline(always)]
    fn name(&mut self, byte: u32) -> u32 {
        let line = &mut self.line;
        if byte == LF {
            if line.hash != 0 {
                return self.broken();
            }
            self.fingerprint = finish(self.fingerprint);
            if self.flags & flag::CHUNKED != 0 {
                self.length = 0;
            }
            self.state = state::DONE;
            return next::STOP;
        }
        if byte != line::COLON && (byte == CR || line.hash != 0) {
            return next::ON;
        }
        line.stage = stage::VALUE;
        if byte == line::COLON {
            let class = class_of(line.hash);
            if class == class::UPGRADE {
                self.flags |= flag::UPGRADE;
            }
            self.begin_value(class);
        } else {
            // The line before goes on (obs-fold).
            let class = line.class;
            line.hash = 0;
            self.begin_value(class);
        }
        next::ON
    }

    #[inline(always)]
    fn begin_value(&mut self, class: u16) {
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
    fn value(&mut self, byte: u32) -> u32 {
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

#[inline(always)]
const fn known(hash: u64) -> u32 {
    match hash {
        it if it == const { exact("GET") } => method::GET,
        it if it == const { exact("HEAD") } => method::HEAD,
        it if it == const { exact("POST") } => method::POST,
        it if it == const { exact("PUT") } => method::PUT,
        it if it == const { exact("DELETE") } => method::DELETE,
        it if it == const { exact("PATCH") } => method::PATCH,
        it if it == const { exact("OPTIONS") } => method::OPTIONS,
        it if it == const { exact("TRACE") } => method::TRACE,
        it if it == const { exact("CONNECT") } => method::CONNECT,
        _ => method::OTHER,
    }
}

/// Whether this is HTTP/1 of any minor version.
#[inline(always)]
const fn is_version(hash: u64) -> bool {
    // A step can be undone: what is left is the last byte.
    let minor = unstep(hash) ^ const { exact("HTTP/1.") };
    minor.wrapping_sub(b'0' as u64) <= 9
}
