//! cgroup_skb ingress: what servers answer.

use aya_ebpf::{
    bindings::__sk_buff, helpers::bpf_ktime_get_ns, macros::cgroup_skb, programs::SkBuffContext,
};
use governor_core::{
    http::{AnswerScan, method, state},
    record::{Record, SYNTHETIC_WINDOW, flag},
    units::Nanos,
    verdict::Outcome,
};

use crate::{
    calm, outcome, read,
    segment::{self, Segment, after},
    socket, verdict,
};

const PASS: i32 = 1;
const DROP: i32 = 0;
const SWITCHING_PROTOCOLS: u32 = 101;
/// Interim answers that are read in one segment.
const INTERIM: u32 = 3;

/// A packet reaches a governed socket.
#[cgroup_skb(ingress)]
pub fn skb_ingress(ctx: SkBuffContext) -> i32 {
    let skb = ctx.skb.skb;
    let Some(segment) = segment::read(skb) else {
        return PASS;
    };
    if segment.payload == 0 {
        if segment.ends() {
            closed(skb, segment.resets());
        }
        return PASS;
    }
    let Some(record) = socket::of_packet(skb) else {
        return PASS;
    };
    if record.has(flag::REPLIED) && segment.window != SYNTHETIC_WINDOW {
        // Only what the executor answers may reach the caller now.
        return DROP;
    }
    if socket::open(record) {
        heard(skb, record, &segment);
        if segment.ends() && record.has(flag::ADOPTED) {
            outcome::closed(record, false, segment.resets());
        }
    }
    PASS
}

/// The server closes; of most sockets their callbacks tell.
#[inline(always)]
fn closed(skb: *mut __sk_buff, reset: bool) {
    if let Some(record) = socket::of_packet(skb)
        && record.has(flag::ADOPTED)
        && socket::open(record)
    {
        outcome::closed(record, false, reset);
    }
}

#[inline(always)]
fn now() -> Nanos {
    // SAFETY: no arguments.
    Nanos(unsafe { bpf_ktime_get_ns() })
}

/// The server sent payload.
#[inline(always)]
fn heard(skb: *mut __sk_buff, record: &mut Record, segment: &Segment) {
    let reads = record.asked != 0 && record.has(flag::REQUEST);
    let (mut known, mut missing) = (0, false);
    if record.has(flag::HEARD) {
        if !after(segment.end(), record.heard) {
            return;
        }
        missing = after(segment.sequence, record.heard);
        if !missing {
            known = record.heard.wrapping_sub(segment.sequence);
        }
    }
    if reads && missing {
        // What is missing will come, and the answer begins there.
        return;
    }
    record.heard = segment.end();
    record.flags |= flag::HEARD;
    let (offset, left) = (segment.offset + known, segment.payload.wrapping_sub(known));
    if record.has(flag::CALM) && record.asked != 0 {
        let now = now();
        if calm::answered(skb, record, offset, left, now.0) {
            return;
        }
        calm::leave(record, now.0);
    }
    let outcome = if reads {
        if !read_on(skb, record, offset, left) {
            return;
        }
        outcome::of_answer(record)
    } else if record.asked != 0 {
        Outcome::Success
    } else {
        if record.has(flag::ADOPTED) {
            // What follows begins something new.
            record.flags |= flag::ANSWERED;
        }
        return;
    };
    outcome::answered(record, now(), outcome);
}

/// [`read::answer`], as a global function: the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_answer(
    skb: *mut __sk_buff,
    offset: u32,
    len: u32,
    scan: *mut AnswerScan,
) -> u32 {
    // SAFETY: null, or a scan in socket storage: the verifier checks the size.
    match unsafe { scan.as_mut() } {
        Some(scan) => read::answer(skb, offset, len, scan),
        None => 0,
    }
}

/// More of the answer to a request: whether that is known now.
#[inline(never)]
fn read_on(skb: *mut __sk_buff, record: &mut Record, offset: u32, left: u32) -> bool {
    let (mut offset, mut left) = (offset, left);
    let mut interim = 0;
    while interim < INTERIM {
        let read = read_answer(skb, offset, left, &raw mut record.answer);
        if !is_interim(record) {
            break;
        }
        if record.answer.state != state::DONE {
            return false;
        }
        record.answer.begin();
        offset += read;
        left = left.saturating_sub(read);
        if left == 0 {
            return false;
        }
        interim += 1;
    }
    is_known(record)
}

#[inline(always)]
fn is_interim(record: &Record) -> bool {
    let status = record.answer.status;
    (100..200).contains(&status) && status != SWITCHING_PROTOCOLS
}

/// Whether more than the status matters.
#[inline(always)]
fn worth_reading(record: &Record) -> bool {
    record.answer.status >= 400 || record.answer.status < 200
}

/// Whether what was read decides; and what the connection speaks from now on.
#[inline(always)]
fn is_known(record: &mut Record) -> bool {
    let status = record.answer.status;
    match record.answer.state {
        state::DONE => {}
        // No HTTP/1: it was answered, all the same.
        state::FOREIGN | state::UNREADABLE => {
            verdict::unread(record);
            record.flags |= flag::OPAQUE;
        }
        // The status may come with the next segment, and what a failure says of
        // retries, too.
        _ if status == 0 || worth_reading(record) => return false,
        _ => {}
    }
    if status == SWITCHING_PROTOCOLS
        || record.exchange.method == method::CONNECT && (200..300).contains(&status)
    {
        record.flags |= flag::OPAQUE;
    }
    true
}
