//! cgroup_skb egress: what callers send.
//!
//! What a caller sends after silence begins a turn; the first payload that
//! comes back answers it. So a request that was never answered is seen, what is
//! in flight is known, and latency is measured, for any protocol in which the
//! client speaks first. Where the bytes are HTTP/1, each request is read and
//! judged when its head is complete.

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::{bpf_ktime_get_ns, generated::bpf_skb_load_bytes},
    macros::cgroup_skb,
    programs::SkBuffContext,
};
use governor_core::{
    breaker::Level,
    http::{RequestScan, request::flag::CHUNKED, state},
    record::{Record, flag},
    units::Nanos,
    verdict::Outcome,
};

use crate::{
    adopt::adopt,
    again, calm, outcome, read, request,
    segment::{self, Segment, after},
    socket, verdict,
};

/// What a cgroup_skb program returns to let a packet go on (0 would drop it).
const PASS: i32 = 1;

/// What a FIN takes of the sequence numbers.
const FIN: u32 = 1;

/// A packet leaves a governed socket.
#[cgroup_skb(egress)]
pub fn skb_egress(ctx: SkBuffContext) -> i32 {
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
    let record = match socket::of_packet(skb) {
        None => adopt(skb),
        found => found,
    };
    if let Some(record) = record
        && socket::open(record)
    {
        sent(skb, record, &segment);
    }
    PASS
}

/// The caller closes; of most sockets their callbacks tell.
#[inline(always)]
fn closed(skb: *mut __sk_buff, reset: bool) {
    if let Some(record) = socket::of_packet(skb)
        && record.has(flag::ADOPTED)
        && socket::open(record)
    {
        outcome::closed(record, true, reset);
    }
}

/// The caller sent payload.
#[inline(always)]
fn sent(skb: *mut __sk_buff, record: &mut Record, segment: &Segment) {
    let mut known = 0;
    if record.spoke != 0 {
        // A retransmission ends at or before what was sent: it is nothing new.
        if !after(segment.end(), record.sent) {
            return;
        }
        if after(record.sent, segment.sequence) {
            known = record.sent.wrapping_sub(segment.sequence);
        }
    } else if !record.has(flag::HEARD) {
        // Where the first answer begins: its segments may come in another order.
        record.heard = segment.acknowledged;
        record.flags |= flag::HEARD;
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if after(segment.acknowledged, record.heard.wrapping_add(FIN)) {
        // The caller has heard what came here in another order, and was not read.
        record.heard = segment.acknowledged;
        outcome::skipped(record, now);
    }
    record.sent = segment.end();
    record.spoke = now;
    let (offset, left) = (segment.offset + known, segment.payload.wrapping_sub(known));
    calm::mark(record, now);
    if record.has(flag::CALM) {
        if calm::goes_on(skb, record, offset, left, now) {
            return;
        }
        calm::leave(record, now);
    }
    if record.has(flag::OPAQUE) {
        turn(record, now);
        return;
    }
    let complete = read_on(skb, record, offset, left, now);
    if complete && request::judge(record, segment.sequence) {
        // Its connect was a probe, and its request is not sent.
        verdict::end(record, Nanos(now), Level::Exchange, Outcome::Cancelled, now);
    }
    if !(complete && calm::is_plain(record)) {
        record.flags &= !flag::STEADY;
    }
}

/// New bytes of a segment.
#[derive(Clone, Copy)]
struct Span {
    /// Where they begin in the packet.
    offset: u32,
    /// How many there are.
    left: u32,
}

/// A turn begins, if none is outstanding.
#[inline(always)]
fn turn(record: &mut Record, now: u64) {
    if record.asked == 0 {
        record.asked = now;
        record.entered = verdict::enter(record, now);
    }
}

/// The connection goes on as turns: what is on it can not be read as HTTP/1.
#[inline(always)]
fn opaque(record: &mut Record, now: u64) {
    record.flags |= flag::OPAQUE;
    if record.entered == 0 && !record.has(flag::REQUEST) {
        record.entered = verdict::enter(record, now);
    }
}

/// What was sent is passed over: the next thing after an answer may be a request.
#[inline(always)]
fn middle(record: &mut Record) {
    record.asked = 0;
}

/// [`read::request`], as a global function: the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_request(
    skb: *mut __sk_buff,
    offset: u32,
    len: u32,
    scan: *mut RequestScan,
) -> u32 {
    // SAFETY: null, or a scan in socket storage: the verifier checks the size.
    match unsafe { scan.as_mut() } {
        Some(scan) => read::request(skb, offset, len, scan),
        None => 0,
    }
}

/// Whether the head of a request is complete.
#[inline(never)]
fn read_on(skb: *mut __sk_buff, record: &mut Record, offset: u32, left: u32, now: u64) -> bool {
    let mut span = Span { offset, left };
    if record.has(flag::CHUNKED) {
        if record.asked == 0 {
            // Answered before its end was seen: where the next request begins
            // is not known.
            verdict::unread(record);
            opaque(record, now);
            turn(record, now);
        } else {
            chunks(skb, record, span);
        }
        return false;
    }
    skip_body(record, &mut span);
    if span.left == 0 {
        return false;
    }
    let read = if record.asked == 0 {
        record.asked = now;
        record.answer.begin();
        again::read_from_start(skb, record, span.offset, span.left)
    } else if record.has(flag::REQUEST) {
        // A second request before the first is answered.
        verdict::unread(record);
        record.flags |= flag::OPAQUE;
        return false;
    } else {
        read_request(skb, span.offset, span.left, &raw mut record.request)
    };
    match record.request.state {
        state::DONE => {}
        // A socket older than the governor may be in the middle of a body.
        state::FOREIGN if record.has(flag::ADOPTED) && !record.has(flag::HTTP | flag::ANSWERED) => {
            middle(record);
            return false;
        }
        state::FOREIGN => {
            opaque(record, now);
            return false;
        }
        state::UNREADABLE => {
            verdict::unread(record);
            opaque(record, now);
            return false;
        }
        _ => return false,
    }
    span.offset += read;
    span.left = span.left.saturating_sub(read);
    record.flags |= flag::HTTP | flag::REQUEST;
    if record.request.flags & CHUNKED != 0 {
        record.flags |= flag::CHUNKED;
        record.body = 0;
        chunks(skb, record, span);
    } else {
        record.body = record.request.length;
        skip_body(record, &mut span);
        if span.left > 0 {
            verdict::unread(record);
            record.flags |= flag::OPAQUE;
        }
    }
    true
}

/// Passes over what belongs to the body of the last request.
#[inline(always)]
fn skip_body(record: &mut Record, span: &mut Span) {
    let body = if record.body < span.left as u64 {
        record.body as u32
    } else {
        span.left
    };
    record.body -= body as u64;
    span.offset += body;
    span.left -= body;
}

/// The last five bytes of a chunked body without trailers.
const LAST_CHUNK: u64 = 0x30_0d_0a_0d_0a;
const FIVE_BYTES: u64 = 0xff_ffff_ffff;

/// Looks whether a chunked body ends with this segment. A body whose chunk ends
/// in the same five bytes at the end of a segment is taken for over: the next
/// payload before the answer is then a pipelined request, which passes unread.
#[inline(never)]
fn chunks(skb: *mut __sk_buff, record: &mut Record, span: Span) {
    let mut tail = record.body;
    let mut back = 5u32;
    while back > 0 {
        if back <= span.left {
            let mut byte = 0u8;
            // SAFETY: one byte fits; the helper checks the packet's bounds.
            unsafe {
                bpf_skb_load_bytes(
                    skb.cast(),
                    span.offset + span.left - back,
                    (&raw mut byte).cast(),
                    1,
                );
            }
            tail = tail << 8 | byte as u64;
        }
        back -= 1;
    }
    record.body = tail & FIVE_BYTES;
    if record.body == LAST_CHUNK {
        record.flags &= !flag::CHUNKED;
        record.body = 0;
    }
}
