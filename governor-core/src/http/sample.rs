//! One reading, as bytes: what the tests feed to the scans in the kernel, to
//! compare with the scans on the host.

use bytemuck::{Pod, Zeroable};

use super::{AnswerScan, RequestScan};

/// What to read; the bytes follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Sample {
    /// [`what`].
    pub what: u32,
    /// Comes out: how many bytes were taken.
    pub taken: u32,
    /// Where the request's scan is, before and after.
    pub request: RequestScan,
    /// Where the answer's scan is, before and after.
    pub answer: AnswerScan,
}

/// [`Sample::what`].
pub mod what {
    /// Bytes of a request.
    pub const REQUEST: u32 = 0;
    /// Bytes of an answer.
    pub const ANSWER: u32 = 1;
    /// Nothing is read: what the rest costs, to compare with.
    pub const NOTHING: u32 = 2;
    /// Added to one of these: the scan begins anew, so that a run can be
    /// repeated on its own result.
    pub const ANEW: u32 = 16;
}
