//! cgroup_skb: exchanges on opaque connections.
//!
//! What a caller sends after silence begins a turn; the first payload that
//! comes back answers it. So a request that was never answered is seen, what is
//! in flight is known, and latency is measured, for any protocol in which the
//! client speaks first. Egress payload is never in the linear area, but the
//! headers are, and nothing else is read here.

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::{
        bpf_ktime_get_ns,
        generated::{bpf_sk_fullsock, bpf_skb_load_bytes},
    },
    macros::cgroup_skb,
    programs::SkBuffContext,
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
const IPV4: u32 = 0x0800_u16.to_be() as u32;
const IPV6: u32 = 0x86dd_u16.to_be() as u32;

/// A packet leaves a governed socket.
#[cgroup_skb(egress)]
pub fn skb_egress(ctx: SkBuffContext) -> i32 {
    let skb = ctx.skb.skb;
    if let Some(record) = record(skb)
        && let Some(segment) = segment(skb)
        && segment.payload > 0
    {
        asked(record, &segment);
    }
    PASS
}

/// A packet reaches a governed socket.
#[cgroup_skb(ingress)]
pub fn skb_ingress(ctx: SkBuffContext) -> i32 {
    let skb = ctx.skb.skb;
    if let Some(record) = record(skb)
        && record.asked != 0
        && let Some(segment) = segment(skb)
        && segment.payload > 0
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
    // SAFETY: not null, from the kernel.
    let full = unsafe { bpf_sk_fullsock(sk) };
    if full.is_null() {
        return None;
    }
    // SAFETY: not null, from the kernel.
    let record = unsafe { socket::record(full) }?;
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
    let (protocol, length) = unsafe { ((*skb).protocol, (*skb).len) };
    let transport = match protocol {
        IPV4 => {
            let mut ip = [0u8; 20];
            load(skb, 0, &mut ip)?;
            if ip[9] != TCP {
                return None;
            }
            ((ip[0] & 15) as u32) * 4
        }
        IPV6 => {
            let mut ip = [0u8; 8];
            load(skb, 0, &mut ip)?;
            if ip[6] != TCP {
                return None;
            }
            40
        }
        _ => return None,
    };
    let mut tcp = [0u8; 16];
    load(skb, transport, &mut tcp)?;
    let headers = transport + ((tcp[12] >> 4) as u32) * 4;
    Some(Segment {
        sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        payload: length.saturating_sub(headers),
    })
}

#[inline(always)]
fn load<const N: usize>(skb: *mut __sk_buff, offset: u32, to: &mut [u8; N]) -> Option<()> {
    // SAFETY: `to` holds N bytes; the helper checks the packet's bounds.
    let failed =
        unsafe { bpf_skb_load_bytes(skb.cast(), offset, to.as_mut_ptr().cast(), N as u32) };
    if failed == 0 { Some(()) } else { None }
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
