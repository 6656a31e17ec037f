//! What the law says, and how attempts end.

use crate::breaker::{Move, NO_PROBE};

/// Why an attempt is refused. The order is that of `status --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The retry budget of the destination is spent.
    Budget = 0,
    /// The breaker of the endpoint is open, or ramping up.
    Breaker = 1,
    /// Too many in flight.
    Concurrency = 2,
    /// An operator ordered it.
    Shed = 3,
    /// The destination asked to wait.
    RetryAfter = 4,
    /// The chain of tries is older than its caller waits.
    Deadline = 5,
    /// The chain of tries is longer than the policy allows.
    Attempts = 6,
    /// The answer was not one to retry.
    NotRetryable = 7,
    /// The method is not one to repeat, and the failed try may have taken effect.
    NonIdempotent = 8,
}

/// Number of [`Reason`]s.
pub const REASONS: usize = 9;

impl Reason {
    /// Every reason, by number.
    pub const ALL: [Self; REASONS] = [
        Self::Budget,
        Self::Breaker,
        Self::Concurrency,
        Self::Shed,
        Self::RetryAfter,
        Self::Deadline,
        Self::Attempts,
        Self::NotRetryable,
        Self::NonIdempotent,
    ];

    /// From its number. What is unknown is shed, the one reason that is
    /// always an operator's.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Budget,
            1 => Self::Breaker,
            2 => Self::Concurrency,
            4 => Self::RetryAfter,
            5 => Self::Deadline,
            6 => Self::Attempts,
            7 => Self::NotRetryable,
            8 => Self::NonIdempotent,
            _ => Self::Shed,
        }
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Breaker => "breaker",
            Self::Concurrency => "concurrency",
            Self::Shed => "shed",
            Self::RetryAfter => "retryAfter",
            Self::Deadline => "deadline",
            Self::Attempts => "attempts",
            Self::NotRetryable => "notRetryable",
            Self::NonIdempotent => "nonIdempotent",
        }
    }
}

/// Whether an attempt may go, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go.
    Admit,
    /// It may go, as the one probe of an open breaker.
    Probe(Ticket),
    /// It may not.
    Deny(Reason),
}

/// What a probe carries, so that its outcome closes the right breaker and
/// frees the right lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Generation of the breaker.
    pub breaker: u32,
    /// Generation of the lease.
    pub lease: u32,
}

impl Ticket {
    /// What carries no ticket is no probe: no generation is so high. Not an `Option`: of one
    /// in memory LLVM reads the ticket first and whether there is one later, and to the
    /// verifier the two have nothing to do with each other.
    pub const NONE: Self = Self {
        breaker: NO_PROBE,
        lease: NO_PROBE,
    };

    /// Whether there is one.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.breaker != NO_PROBE
    }
}

impl From<Option<Ticket>> for Ticket {
    #[inline(always)]
    fn from(ticket: Option<Ticket>) -> Self {
        match ticket {
            Some(ticket) => ticket,
            None => Self::NONE,
        }
    }
}

/// How an attempt ended. Which kernel callback tells: `outcome.rs` of the kernel programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// It was answered, or, where nothing is ever answered, connected.
    Success = 0,
    /// RST to the SYN.
    Refused = 1,
    /// The SYN was not answered, or the caller gave up with a request outstanding.
    Timeout = 2,
    /// The network said so. A route that is missing on the node itself is not seen.
    Unreachable = 3,
    /// RST after the connect.
    Reset = 4,
    /// The server closed without an answer.
    NoAnswer = 5,
    /// The caller went away early: says nothing about the destination.
    Cancelled = 6,
    /// It was answered, with a status that the policy calls a failure.
    Status = 7,
}

/// Number of [`Outcome`]s.
pub const OUTCOMES: usize = 8;

impl Outcome {
    /// Every outcome, by number.
    pub const ALL: [Self; OUTCOMES] = [
        Self::Success,
        Self::Refused,
        Self::Timeout,
        Self::Unreachable,
        Self::Reset,
        Self::NoAnswer,
        Self::Cancelled,
        Self::Status,
    ];

    /// From its number; what is unknown says nothing.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Success,
            1 => Self::Refused,
            2 => Self::Timeout,
            3 => Self::Unreachable,
            4 => Self::Reset,
            5 => Self::NoAnswer,
            7 => Self::Status,
            _ => Self::Cancelled,
        }
    }

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::NoAnswer => "no_answer",
            Self::Cancelled => "cancelled",
            Self::Status => "status",
        }
    }

    /// Whether it is what queues and overload look like: the caller gave up
    /// waiting, or was told that there is no room.
    #[inline(always)]
    pub const fn overload(self, status: u32) -> bool {
        match self {
            Self::Timeout => true,
            Self::Status => crate::status::is_pushback(status),
            _ => false,
        }
    }
}

/// What settling an outcome changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The breaker's change of state.
    pub moved: Move,
}
