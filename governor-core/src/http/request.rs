//! The head of a request.

use bytemuck::{Pod, Zeroable};

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
    /// Bytes of body that follow.
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
    /// Zero.
    pub reserved: u32,
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
