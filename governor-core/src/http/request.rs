//! The head of a request.

use bytemuck::{Pod, Zeroable};

use super::hash::{exact, finish, join, unstep};
use super::line::{self, BLANK, CR, Head, LF, Line, Marks, next};
use super::names::{class, class_of};
use super::{CHUNK, clear, method, state};

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
    pub(super) line: Line,
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

/// [`Line::stage`].
pub(super) mod stage {
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

    /// Whether a request can begin with this byte: most other protocols do not.
    #[inline(always)]
    pub const fn may_begin_with(byte: u8) -> bool {
        byte.is_ascii_uppercase() || byte as u32 == CR || byte as u32 == LF
    }

    /// How many bytes of it were read.
    #[inline(always)]
    pub const fn head(&self) -> u32 {
        self.line.size()
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
    pub(super) fn broken(&mut self) -> u32 {
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
