//! What the kernel programs tell the daemon.

use bytemuck::{Pod, Zeroable};

use crate::key::EndpointKey;

/// Kinds of events.
pub mod kind {
    /// An attempt was denied. At most one per endpoint and second.
    pub const DENIED: u32 = 1;
    /// Audit: it would have been. At most one per endpoint and second.
    pub const WOULD_DENY: u32 = 2;
    /// A breaker moved.
    pub const BREAKER: u32 = 3;
    /// A cgroup that the daemon has not named yet connected.
    pub const NEW_CGROUP: u32 = 4;
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    /// When, `CLOCK_MONOTONIC`, ns.
    pub at: u64,
    /// Whom and where.
    pub endpoint: EndpointKey,
    /// [`kind`].
    pub kind: u32,
    /// DENIED: the reason. BREAKER: the move.
    pub what: u32,
    /// Destination group.
    pub group: u32,
    /// Process that attempted.
    pub pid: u32,
    /// DENIED, WOULD_DENY: denials of this endpoint in this second. BREAKER: failures in a row.
    pub count: u64,
    /// BREAKER: when the next probe may go, ms of the same clock.
    pub until: u64,
}
