//! cgroup_skb: exchanges on opaque connections.
//!
//! What a caller sends after silence begins a turn; the first payload that
//! comes back answers it. So a request that was never answered is seen, what is
//! in flight is known, and latency is measured, for any protocol in which the
//! client speaks first. Egress payload is never in the linear area, but the
//! headers are, and nothing else is read here.
//!
//! These programs run for every packet of the cgroup. Most carry no payload
//! (8 of 10 in a short connection), so the header is read first, in place: no
//! helper is called for an acknowledgement.

use aya_ebpf::{
    bindings::__sk_buff, helpers::bpf_ktime_get_ns, macros::cgroup_skb, programs::SkBuffContext,
};
use governor_core::{
    breaker::Level,
    record::{Record, flag},
    units::Nanos,
    verdict::Outcome,
};

use crate::{outcome::thread_ended, socket, verdict};

/// What a cgroup_skb program returns to let a packet go on (0 would drop it).
const PASS: i32 = 1;
const TCP: u8 = 6;

/// A packet leaves a governed socket.
#[cgroup_skb(egress)]
pub fn skb_egress(ctx: SkBuffContext) -> i32 {
    let skb = ctx.skb.skb;
    if let Some(segment) = segment(skb)
        && segment.payload > 0
        && let Some(record) = record(skb)
    {
        asked(record, &segment);
    }
    PASS
}

/// A packet reaches a governed socket.
#[cgroup_skb(ingress)]
pub fn skb_ingress(ctx: SkBuffContext) -> i32 {
    let skb = ctx.skb.skb;
    if let Some(segment) = segment(skb)
        && segment.payload > 0
        && let Some(record) = record(skb)
        && record.asked != 0
    {
        answered(record);
    }
    PASS
}

/// The record of the packet's socket; `None` for sockets that are not ours.
#[inline(always)]
fn record(skb: *mut __sk_buff) -> Option<&'static mut Record> {
    // SAFETY: the kernel's context.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return None;
    }
    // SAFETY: not null, from the kernel; the helper finds nothing for a socket
    // that is not a full one.
    let record = unsafe { socket::record(sk) }?;
    if record.has(flag::CONNECTED) && !record.has(flag::OVER) {
        Some(record)
    } else {
        None
    }
}

struct Segment {
    /// Sequence number.
    sequence: u32,
    /// Bytes of payload.
    payload: u32,
}

/// Reads the headers: nothing where they are unusual, which passes unseen.
#[inline(always)]
fn segment(skb: *mut __sk_buff) -> Option<Segment> {
    // SAFETY: the kernel's context.
    let (start, end, length) =
        unsafe { ((*skb).data as usize, (*skb).data_end as usize, (*skb).len) };
    if start + 20 > end {
        return None;
    }
    // SAFETY: 20 bytes are there; the verifier holds us to that.
    let ip = unsafe { &*(start as *const [u8; 20]) };
    let transport = match ip[0] >> 4 {
        4 if ip[9] == TCP => (ip[0] & 15) as usize * 4,
        6 if ip[6] == TCP => 40,
        _ => return None,
    };
    let tcp = start + transport;
    if tcp + 20 > end {
        return None;
    }
    // SAFETY: as above.
    let tcp = unsafe { &*(tcp as *const [u8; 20]) };
    let headers = transport as u32 + (tcp[12] >> 4) as u32 * 4;
    Some(Segment {
        sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        payload: length.saturating_sub(headers),
    })
}

/// The caller sent something new: a turn begins, if none is outstanding.
#[inline(always)]
fn asked(record: &mut Record, segment: &Segment) {
    let end = segment.sequence.wrapping_add(segment.payload);
    // A retransmission ends at or before what was sent: it is no new turn.
    if record.spoke != 0 && (end.wrapping_sub(record.sent) as i32) <= 0 {
        return;
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    record.sent = end;
    record.spoke = now;
    if record.asked == 0 {
        record.asked = now;
        record.entered = verdict::enter(record, now);
    }
}

/// The server sent something: the outstanding turn is answered.
#[inline(always)]
fn answered(record: &mut Record) {
    // SAFETY: no arguments.
    let now = Nanos(unsafe { bpf_ktime_get_ns() });
    let began = record.asked;
    record.asked = 0;
    record.flags |= flag::ANSWERED;
    thread_ended(record, now, Outcome::Success);
    verdict::end(record, now, Level::Exchange, Outcome::Success, began);
}
