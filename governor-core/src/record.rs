//! What a socket carries from hook to hook (socket storage).

use bytemuck::{Pod, Zeroable};

use crate::key::EndpointKey;
use crate::verdict::Ticket;

/// Bits of [`Record::flags`].
pub mod flag {
    /// Audit would have denied it: its outcome never feeds the law.
    pub const WOULD_DENY: u32 = 1;
    /// It is a probe.
    pub const PROBE: u32 = 2;
    /// The handshake is done.
    pub const CONNECTED: u32 = 4;
    /// A turn was answered on this connection.
    pub const ANSWERED: u32 = 8;
    /// The caller has sent its FIN.
    pub const CLOSING: u32 = 16;
    /// The connection is over; nothing more is reported.
    pub const OVER: u32 = 32;
    /// The SYN was sent again.
    pub const SYN_REPEATED: u32 = 64;
    /// The policy only observes.
    pub const WATCHED: u32 = 128;
    /// The thread's history has it that this attempt succeeded.
    pub const TOLD: u32 = 256;
}

/// The record of one governed socket. Overwritten whole at each connect:
/// storage survives a reconnect of the same descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Record {
    /// The endpoint it talks to.
    pub endpoint: EndpointKey,
    /// When it connected, ns.
    pub connected_at: u64,
    /// When what is in flight began, ns; 0: nothing is.
    pub entered: u64,
    /// When the caller first sent what is not answered yet, ns; 0: nothing is outstanding.
    pub asked: u64,
    /// When the caller last sent payload, ns.
    pub spoke: u64,
    /// Thread that connected.
    pub thread: u64,
    /// Number of its attempt.
    pub thread_attempt: u32,
    /// Destination group.
    pub group: u32,
    /// Index of the parameters, with the generation's half.
    pub rule: u32,
    /// [`flag`].
    pub flags: u32,
    /// The probe's ticket.
    pub probe_breaker: u32,
    /// As above.
    pub probe_lease: u32,
    /// Sequence number after the last payload sent: what ends before it is a
    /// retransmission.
    pub sent: u32,
    /// Zero.
    pub reserved: u32,
}

impl Record {
    /// The ticket, if it is a probe.
    #[inline(always)]
    pub const fn ticket(&self) -> Option<Ticket> {
        if self.flags & flag::PROBE == 0 {
            None
        } else {
            Some(Ticket {
                breaker: self.probe_breaker,
                lease: self.probe_lease,
            })
        }
    }

    /// Whether a flag is set.
    #[inline(always)]
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
