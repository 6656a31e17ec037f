//! HTTP/1 as it passes by: the heads of requests and of answers, read byte by
//! byte, from segments cut anywhere.
//!
//! A scan keeps its state between segments, in the record of its socket. It
//! reads chunks of [`CHUNK`] bytes, the size in which the kernel programs load
//! packets. The same source runs in the kernel and in the fuzzers.
//!
//! | file | holds |
//! |---|---|
//! | [`mod@line`] | the loop over bytes, and what is kept between two of them |
//! | [`request`], [`answer`] | what each head says |
//! | `names`, `value` | which headers of a request say something, and what |
//! | `hash`, `date` | hashes of names and values; dates |
//! | [`sample`] | one reading as bytes, for the tests of the scans in the kernel |

pub mod answer;
mod date;
mod hash;
pub mod line;
mod names;
pub mod request;
pub mod sample;
mod value;

pub use answer::AnswerScan;
pub use request::RequestScan;

/// Bytes that are read at a time.
pub const CHUNK: usize = 64;

/// Methods, as numbers.
pub mod method {
    /// One of none of the following.
    pub const OTHER: u32 = 0;
    /// `GET`
    pub const GET: u32 = 1;
    /// `HEAD`
    pub const HEAD: u32 = 2;
    /// `POST`
    pub const POST: u32 = 3;
    /// `PUT`
    pub const PUT: u32 = 4;
    /// `DELETE`
    pub const DELETE: u32 = 5;
    /// `PATCH`
    pub const PATCH: u32 = 6;
    /// `OPTIONS`
    pub const OPTIONS: u32 = 7;
    /// `TRACE`
    pub const TRACE: u32 = 8;
    /// `CONNECT`
    pub const CONNECT: u32 = 9;
}

/// How far a scan has come.
pub mod state {
    /// The first bytes are not here yet.
    pub const START: u32 = 0;
    /// In the head.
    pub const HEAD: u32 = 1;
    /// The head is complete: the facts are valid.
    pub const DONE: u32 = 2;
    /// It is not HTTP/1.
    pub const FOREIGN: u32 = 3;
    /// It is, and can not be read (too long, or malformed).
    pub const UNREADABLE: u32 = 4;
}

/// Zeroes a scan, or a whole record, word by word: of a plain assignment LLVM makes a call of
/// memset, which in the kernel programs is a loop over bytes (80 ns for two scans).
#[inline(always)]
pub(crate) fn clear<const N: usize>(words: &mut [u64; N]) {
    let mut at = 0;
    while at < N {
        // SAFETY: a word of the array, through a reference to it.
        unsafe { core::ptr::write_volatile(&raw mut words[at], 0) };
        at += 1;
    }
}
