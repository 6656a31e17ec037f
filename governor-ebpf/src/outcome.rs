//! sock_ops: how connects and connections end.
//!
//! Which callback tells what was measured on 6.18 and 6.1. Only sockets with a
//! record are ours: active opens that were judged.

use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_BASE_RTT, BPF_SOCK_OPS_NEEDS_ECN, BPF_SOCK_OPS_RTO_CB,
        BPF_SOCK_OPS_RTO_CB_FLAG, BPF_SOCK_OPS_RWND_INIT, BPF_SOCK_OPS_STATE_CB,
        BPF_SOCK_OPS_STATE_CB_FLAG, BPF_SOCK_OPS_TCP_CONNECT_CB, BPF_SOCK_OPS_TIMEOUT_INIT,
    },
    helpers::{
        bpf_ktime_get_ns,
        generated::{bpf_probe_read_kernel, bpf_skc_to_tcp_sock},
    },
    macros::sock_ops,
    programs::SockOpsContext,
};
use governor_core::{
    breaker::Level,
    http::answer,
    record::{Record, flag},
    units::{Millis, Nanos},
    verdict::Outcome,
};

use crate::{calm, cell::MapCell, chains, maps, policy, socket, verdict};

/// Where `sk_err` is in the kernel's `struct sock`, bytes; 0: unknown (no BTF).
#[unsafe(no_mangle)]
pub static SK_ERR_OFFSET: u32 = 0;
/// Where the byte with `sk_shutdown` is; 0: unknown.
#[unsafe(no_mangle)]
pub static SK_SHUTDOWN_OFFSET: u32 = 0;

const ESTABLISHED: u32 = 1;
const SYN_SENT: u32 = 2;
const SYN_RECV: u32 = 3;
const FIN_WAIT1: u32 = 4;
const CLOSE: u32 = 7;
const CLOSE_WAIT: u32 = 8;

const ECONNRESET: u32 = 104;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;
const EHOSTUNREACH: u32 = 113;
const ENETUNREACH: u32 = 101;

/// A connect that its caller gives up before this is one of many reasons of
/// its own (a happy-eyeballs loser, a cancelled page); after it, a timeout.
/// Less than the commonest patience, 1 s: some clients start their timer before
/// they connect, on a clock of their own (Node: 2 of 5 gave up in under 1 s of
/// ours).
const PATIENCE: Millis = Millis(900);
/// A last payload this close to the caller's own FIN is a goodbye.
const GOODBYE: Nanos = Nanos::from_millis(100);

/// Connects and connections.
#[sock_ops]
pub fn sock_ops(ctx: SockOpsContext) -> u32 {
    match ctx.op() {
        BPF_SOCK_OPS_TCP_CONNECT_CB => {
            if record(&ctx).is_some() {
                let flags = BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG;
                // Without callbacks the record ages out: nothing is refused for it.
                let _ = ctx.set_cb_flags(flags as i32);
            }
        }
        BPF_SOCK_OPS_STATE_CB => {
            let (from, to) = (ctx.arg(0), ctx.arg(1));
            if let Some(record) = record(&ctx) {
                moved(&ctx, record, from, to);
            }
        }
        BPF_SOCK_OPS_RTO_CB => {
            if let Some(record) = record(&ctx) {
                record.flags |= flag::SYN_REPEATED;
            }
        }
        BPF_SOCK_OPS_TIMEOUT_INIT
        | BPF_SOCK_OPS_RWND_INIT
        | BPF_SOCK_OPS_NEEDS_ECN
        | BPF_SOCK_OPS_BASE_RTT => ctx.set_reply(u32::MAX),
        _ => {}
    }
    1
}

#[inline(always)]
fn record(ctx: &SockOpsContext) -> Option<&'static mut Record> {
    // SAFETY: the kernel's context.
    let sk = unsafe { (*ctx.ops).__bindgen_anon_2.sk };
    if sk.is_null() {
        return None;
    }
    // SAFETY: not null, from the kernel.
    unsafe { socket::record(sk) }
}

/// A field of the kernel's `struct sock`.
#[inline(always)]
fn field(ctx: &SockOpsContext, offset: *const u32) -> Option<u32> {
    // SAFETY: a global of this object, set before it was loaded.
    let offset = unsafe { core::ptr::read_volatile(offset) };
    if offset == 0 {
        return None;
    }
    // SAFETY: the kernel's context.
    let sk = unsafe { (*ctx.ops).__bindgen_anon_2.sk };
    if sk.is_null() {
        return None;
    }
    // SAFETY: not null, from the kernel.
    let tcp = unsafe { bpf_skc_to_tcp_sock(sk.cast()) };
    if tcp.is_null() {
        return None;
    }
    let mut value = 0u32;
    // SAFETY: the helper checks the address and never faults; 4 bytes fit.
    let failed = unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            4,
            tcp.cast::<u8>()
                .wrapping_add(offset as usize & 0xfff)
                .cast(),
        )
    };
    if failed == 0 { Some(value) } else { None }
}

#[inline(always)]
fn error(ctx: &SockOpsContext) -> Option<u32> {
    field(ctx, &raw const SK_ERR_OFFSET)
}

/// Whether the caller closed for good, and did not only stop sending.
#[inline(always)]
fn closed_for_good(ctx: &SockOpsContext) -> bool {
    match field(ctx, &raw const SK_SHUTDOWN_OFFSET) {
        Some(word) => word & 3 == 3,
        None => false,
    }
}

#[inline(always)]
fn now() -> Nanos {
    // SAFETY: no arguments.
    Nanos(unsafe { bpf_ktime_get_ns() })
}

#[inline(always)]
fn moved(ctx: &SockOpsContext, record: &mut Record, from: u32, to: u32) {
    if record.has(flag::OVER) {
        return;
    }
    if record.has(flag::CALM) {
        calm::leave(record, now().0);
    }
    if from == SYN_SENT && to == SYN_RECV {
        // Both ends connect at once (a socket to itself, too): no ending yet.
        return;
    }
    if from == SYN_SENT || from == SYN_RECV {
        let now = now();
        let outcome = if to == ESTABLISHED {
            Outcome::Success
        } else {
            unconnected(ctx, record, now)
        };
        thread_ended(record, now, outcome);
        verdict::end(record, now, Level::Connect, outcome, record.connected_at);
        record.flags |= if to == ESTABLISHED {
            flag::CONNECTED
        } else {
            flag::OVER
        };
        return;
    }
    if from == ESTABLISHED && to == FIN_WAIT1 {
        record.flags |= flag::CLOSING;
        if record.asked == 0 && record.entered == 0 && !record.has(flag::PROBE) {
            // Nothing is outstanding, and nothing can be asked any more.
            record.flags |= flag::OVER;
            // A callback more is no harm.
            let _ = ctx.set_cb_flags(0);
            return;
        }
        if record.asked != 0 && closed_for_good(ctx) {
            let now = now();
            let outcome = given_up(record, now);
            answerless(record, now, outcome);
        }
        return;
    }
    if to == CLOSE_WAIT {
        if record.asked != 0 {
            answerless(record, now(), Outcome::NoAnswer);
        }
        return;
    }
    if to == CLOSE {
        over(ctx, record);
    }
}

/// The connection is gone.
#[inline(always)]
fn over(ctx: &SockOpsContext, record: &mut Record) {
    if record.asked != 0 {
        let now = now();
        let outcome = match error(ctx) {
            Some(ECONNRESET) => Outcome::Reset,
            Some(ETIMEDOUT) => Outcome::Timeout,
            Some(EHOSTUNREACH | ENETUNREACH) => Outcome::Unreachable,
            // A half-closed connection whose peer closed without an answer.
            _ if record.has(flag::CLOSING) && known_shutdown() => Outcome::NoAnswer,
            _ => given_up(record, now),
        };
        answerless(record, now, outcome);
    } else if record.entered != 0 || record.has(flag::PROBE) {
        let now = now();
        verdict::end(record, now, Level::Exchange, Outcome::Cancelled, now.0);
    }
    record.flags |= flag::OVER;
}

#[inline(always)]
fn known_shutdown() -> bool {
    // SAFETY: a global of this object, set before it was loaded.
    unsafe { core::ptr::read_volatile(&raw const SK_SHUTDOWN_OFFSET) != 0 }
}

/// What the caller sent last is not answered and will not be.
#[inline(always)]
fn answerless(record: &mut Record, now: Nanos, outcome: Outcome) {
    let began = record.asked;
    record.asked = 0;
    // Silence says something only where answers are given (syslog and acks=0
    // never answer); a reset always does. Every request has an answer.
    let outcome = match outcome {
        Outcome::NoAnswer | Outcome::Timeout if !record.has(flag::REQUEST) && !answers(record) => {
            Outcome::Cancelled
        }
        // The head of a failed answer had begun.
        Outcome::NoAnswer | Outcome::Reset | Outcome::Timeout
            if record.has(flag::REQUEST) && record.answer.status != 0 =>
        {
            of_answer(record)
        }
        other => other,
    };
    over_with(record, now, outcome, began);
}

/// The rest of an answer's head came in another order, and is not read: the
/// status counts, as where the connection ends in the midst of it.
#[inline(never)]
pub fn skipped(record: &mut Record, now: u64) {
    if record.has(flag::CALM) {
        calm::leave(record, now);
    }
    if record.asked == 0 || !record.has(flag::REQUEST) {
        return;
    }
    let outcome = if record.answer.status < 200 {
        verdict::unread(record);
        Outcome::Cancelled
    } else {
        of_answer(record)
    };
    answered(record, Nanos(now), outcome);
}

/// What is outstanding is answered.
#[inline(always)]
pub fn answered(record: &mut Record, now: Nanos, outcome: Outcome) {
    let began = record.asked;
    record.asked = 0;
    record.flags |= flag::ANSWERED;
    let calm = over_with(record, now, outcome, began);
    calm::rest(record, now, now.since(Nanos(began)), calm);
}

/// An exchange is over, one way or another; whether a stretch of calm may begin, and by
/// which word of trouble.
#[inline(always)]
fn over_with(record: &mut Record, now: Nanos, outcome: Outcome, began: u64) -> Option<u32> {
    thread_ended(record, now, outcome);
    let calm = verdict::end(record, now, Level::Exchange, outcome, began);
    if record.has(flag::REQUEST) {
        // What audit would have denied never feeds the law (I9).
        if !record.has(flag::WOULD_DENY) {
            chains::chain_ended(record, now.0, outcome as u32);
        }
        record.flags &= !flag::REQUEST;
    }
    calm
}

/// What an answer comes to, by its status.
#[inline(never)]
pub fn of_answer(record: &Record) -> Outcome {
    if record.answer.flags & answer::flag::OURS != 0 {
        // A governor refused it, on this host or beyond: it says nothing of
        // the destination (I1).
        return Outcome::Cancelled;
    }
    match policy::params(record.rule) {
        Some(p) => p.outcome::<MapCell>(record.answer.status),
        None => Outcome::Success,
    }
}

/// A socket without callbacks sent or got a FIN or a reset.
#[inline(never)]
pub fn closed(record: &mut Record, by_caller: bool, reset: bool) {
    if record.has(flag::CALM) {
        calm::leave(record, now().0);
    }
    if record.asked == 0 {
        return;
    }
    let now = now();
    let outcome = match (by_caller, reset) {
        (true, _) => given_up(record, now),
        (false, true) => Outcome::Reset,
        (false, false) => Outcome::NoAnswer,
    };
    answerless(record, now, outcome);
    record.flags |= flag::OVER;
}

#[inline(always)]
fn answers(record: &Record) -> bool {
    record.has(flag::ANSWERED)
        || match maps::endpoint(&record.endpoint) {
            Some(endpoint) => endpoint.answers(),
            None => false,
        }
}

/// The caller closed with something outstanding.
#[inline(always)]
fn given_up(record: &Record, now: Nanos) -> Outcome {
    let goodbye = now.since(Nanos(record.spoke)) < GOODBYE;
    if goodbye || record.has(flag::REQUEST) && chains::chain_outrun(record, now.0) != 0 {
        Outcome::Cancelled
    } else {
        Outcome::Timeout
    }
}

/// Why a connect did not come about.
#[inline(always)]
fn unconnected(ctx: &SockOpsContext, record: &Record, now: Nanos) -> Outcome {
    match error(ctx) {
        Some(ECONNREFUSED) => return Outcome::Refused,
        Some(EHOSTUNREACH | ENETUNREACH) => return Outcome::Unreachable,
        Some(ETIMEDOUT) => return Outcome::Timeout,
        _ => {}
    }
    // SAFETY: the kernel's context.
    let segments = unsafe { (*ctx.ops).segs_in };
    if segments > 0 {
        return Outcome::Refused;
    }
    let waited = now.since(Nanos(record.connected_at));
    if record.has(flag::SYN_REPEATED) || waited >= Nanos::from_millis(PATIENCE.0) {
        Outcome::Timeout
    } else {
        Outcome::Cancelled
    }
}

/// Tells the thread's history how its attempt ended. What it knows already it
/// is not told again: each exchange of a long connection would look it up.
#[inline(always)]
pub fn thread_ended(record: &mut Record, now: Nanos, outcome: Outcome) {
    let success = matches!(outcome, Outcome::Success);
    // A failed answer is no reason to suspect the thread's next connect: what
    // it sends on it says more.
    let says_nothing = matches!(outcome, Outcome::Cancelled | Outcome::Status);
    if says_nothing || success && record.has(flag::TOLD) {
        return;
    }
    if success {
        record.flags |= flag::TOLD;
    } else {
        record.flags &= !flag::TOLD;
    }
    // SAFETY: histories are only changed through their atomic words.
    if let Some(history) = unsafe { maps::THREADS.get(record.thread) } {
        history.ended(record.thread_attempt, now.stamp(), success);
    }
}
