//! The head of an answer.

use bytemuck::{Pod, Zeroable};

/// An answer's head while it is read, and what it said once it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AnswerScan {
    /// `Retry-After` as a date, s since 1970; 0: not said.
    pub retry_at: u64,
    /// `Date`, s since 1970; 0: not said. Read only with `retry_at`.
    pub date: u64,
    /// How long to wait before another try, ms; 0: not said, or at once.
    pub retry_after: u32,
    /// The status; 0 while unknown.
    pub status: u32,
    /// [`flag`].
    pub flags: u32,
    /// [`super::state`].
    pub state: u32,
}

/// Bits of [`AnswerScan::flags`].
pub mod flag {
    /// It says not to try again.
    pub const NO_RETRY: u32 = 1;
    /// It is a governor's own refusal, perhaps relayed: no evidence.
    pub const OURS: u32 = 2;
}
