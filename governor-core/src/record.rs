//! What a socket carries from hook to hook (socket storage).

use bytemuck::{Pod, Zeroable};

use crate::calm::Calm;
use crate::chain::Link;
use crate::http::{AnswerScan, RequestScan, clear};
use crate::key::EndpointKey;
use crate::units::Millis;
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
    /// An executor (tc) has seen this socket: what is refused can be answered.
    pub const REACHED: u32 = 512;
    /// What was sent from [`super::Record::refused`] on is refused; the
    /// executor answers it, and the connection ends.
    pub const REFUSED: u32 = 1024;
    /// The answer waits for the first retransmission: its caller loops without delay.
    pub const LATE: u32 = 2048;
    /// It speaks HTTP/1.
    pub const HTTP: u32 = 4096;
    /// It speaks something else, or what can not be read.
    pub const OPAQUE: u32 = 8192;
    /// No request was sent on it yet: its connect was judged, and pays for the first.
    pub const UNUSED: u32 = 1 << 14;
    /// The connect was counted as a retry.
    pub const RETRIED: u32 = 1 << 15;
    /// What is outstanding is an HTTP request, known by [`super::Record::exchange`].
    pub const REQUEST: u32 = 1 << 16;
    /// The body of the last request is chunked and not known to be over.
    pub const CHUNKED: u32 = 1 << 17;
    /// What is refused is reset, and not answered.
    pub const RESET: u32 = 1 << 18;
    /// The server has sent payload: [`super::Record::heard`] is valid.
    pub const HEARD: u32 = 1 << 19;
    /// The socket is older than the governor: it has no callbacks.
    pub const ADOPTED: u32 = 1 << 20;
    /// The executor has answered what is refused: the server was reset. Until
    /// then the server's packets are still what the caller waits for.
    pub const REPLIED: u32 = 1 << 21;
    /// What is outstanding came without a pause, for what was answered before it.
    pub const STEADY: u32 = 1 << 22;
    /// A stretch of calm is on: [`crate::calm`].
    pub const CALM: u32 = 1 << 23;
}

/// The TCP window of what an executor sends to a caller in the server's name:
/// so ours and the server's own packets are told apart.
pub const SYNTHETIC_WINDOW: u16 = 0x5247;

/// The record of one governed socket. Overwritten whole at each connect:
/// storage survives a reconnect of the same descriptor. What each packet needs lies
/// first: caller and server often run on a CPU each, and lines of the cache travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Record {
    /// When the caller first sent what is not answered yet, ns; 0: nothing is outstanding.
    pub asked: u64,
    /// When the caller last sent payload, ns.
    pub spoke: u64,
    /// Sum of the segment that [`Record::request`] was read from as a whole; 0: of none.
    pub seen: u64,
    /// [`flag`].
    pub flags: u32,
    /// Sequence number after the last payload sent: what ends before it is a
    /// retransmission.
    pub sent: u32,
    /// Sequence number after the last payload heard: what ends before it was
    /// heard before.
    pub heard: u32,
    /// Length of the segment that [`Record::seen`] is of.
    pub seen_length: u16,
    /// Requests in a row that were not like the one before.
    pub unlike: u16,
    /// When what is in flight began, ns; 0: nothing is.
    pub entered: u64,
    /// Pacing: payload leaves at this time at the earliest, ns; 0: at once.
    pub not_before: u64,
    /// The answer being read; [`Record::calm`].
    pub answer: AnswerScan,
    /// The endpoint it talks to.
    pub endpoint: EndpointKey,
    /// When it connected, ns.
    pub connected_at: u64,
    /// Thread that connected.
    pub thread: u64,
    /// Number of its attempt.
    pub thread_attempt: u32,
    /// Destination group.
    pub group: u32,
    /// Index of the parameters, with the generation's half.
    pub rule: u32,
    /// The probe's ticket.
    pub probe_breaker: u32,
    /// As above.
    pub probe_lease: u32,
    /// Sequence number of the refused segment, where [`flag::REFUSED`] is set.
    pub refused: u32,
    /// What is known of the request: [`crate::rules::about`].
    pub about: u32,
    /// Whether it repeats a failed one: [`crate::evidence::Evidence`].
    pub evidence: u32,
    /// Why: the [`Reason`](crate::verdict::Reason).
    pub refused_why: u32,
    /// What the answer's `Retry-After` says, s.
    pub retry_after: u32,
    /// Bytes of the last request's body that were not sent yet; of a
    /// [`flag::CHUNKED`] one the last five that were.
    pub body: u64,
    /// The request that is outstanding.
    pub exchange: Exchange,
    /// The request being read, perhaps over several segments.
    pub request: RequestScan,
}

/// Bytes of the kernel's that lie before a record, in its first line of the cache.
const BEFORE: usize = 8;
const LINE: usize = 64;
const _: () = assert!(
    core::mem::offset_of!(Record, answer) + BEFORE == LINE,
    "an exchange that is calm touches two lines of the cache, and no third"
);

const _: () = assert!(
    size_of::<Record>() <= 384,
    "with what Linux 6.1 puts before it, a larger one takes 1,024 bytes (a connect: 100 ns)"
);

/// What is remembered of an HTTP request until its answer: enough to know a
/// repetition of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Exchange {
    /// Hash of method, target, lasting headers and visible body.
    pub fingerprint: u64,
    /// Hash of a value that names the operation; 0: none.
    pub key: u64,
    /// When the first try of its chain was, ms.
    pub chain_started: u64,
    /// Which try of the chain it is, from 1.
    pub number: u32,
    /// [`crate::http::method`].
    pub method: u32,
}

impl Exchange {
    /// The chain it belongs to.
    #[inline(always)]
    pub const fn link(&self) -> Link {
        Link {
            started: Millis(self.chain_started),
            number: self.number,
            about: 0,
        }
    }
}

impl Record {
    /// Forgets everything, and is of this endpoint. By words: assigned as a whole
    /// it would be zeroed and copied byte by byte in the kernel programs.
    #[inline(always)]
    pub fn begin(&mut self, endpoint: &EndpointKey) {
        // The kernel gives it zeroed; a socket that connects again has an old one.
        if self.connected_at != 0 {
            clear(bytemuck::cast_mut::<Self, [u64; size_of::<Self>() / 8]>(
                self,
            ));
        }
        let from = bytemuck::cast_ref::<EndpointKey, [u64; size_of::<EndpointKey>() / 8]>(endpoint);
        let to = bytemuck::cast_mut::<EndpointKey, [u64; size_of::<EndpointKey>() / 8]>(
            &mut self.endpoint,
        );
        let mut at = 0;
        while at < from.len() {
            // SAFETY: a word of the key, through a reference to it.
            unsafe { core::ptr::write_volatile(&raw mut to[at], from[at]) };
            at += 1;
        }
    }

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

    /// What is known of its stretch of calm: it lies where an answer is scanned, which a
    /// calm one is not, and is its own from the end of one exchange to the next one.
    #[inline(always)]
    pub fn calm(&mut self) -> &mut Calm {
        bytemuck::cast_mut(&mut self.answer)
    }

    /// Whether a flag is set.
    #[inline(always)]
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
