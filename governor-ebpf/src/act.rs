//! tc: carries out what cgroup_skb has judged. Nothing is decided here.
//!
//! cgroup_skb can drop a packet, but answer none, and a dropped request is the
//! worst refusal: its caller hangs and sends it again twice a second. So the
//! refusal is written into the socket's record, and the packet is met again
//! here, on its way out. It becomes two: an answer back to the caller, and a
//! reset on to the server. The caller's socket ends by itself from then on;
//! the server hears nothing more of it, and whatever the server sent before is
//! kept from the caller by cgroup_skb ([`SYNTHETIC_WINDOW`] tells it what is
//! ours).
//!
//! A packet that is not consumed goes on to whoever else is attached: NEXT,
//! never OK. STOLEN would pass under TCX. A dropped segment is not sent for its
//! TCP, which stops there; so of what follows a refusal, each segment becomes
//! another reset, which nobody minds.

use core::{
    intrinsics::{AtomicOrdering, atomic_and, atomic_or},
    ptr,
};

use aya_ebpf::{
    bindings::{__sk_buff, BPF_F_INGRESS, TC_ACT_SHOT, TC_ACT_UNSPEC, bpf_sock},
    helpers::{
        bpf_ktime_get_ns,
        generated::{bpf_clone_redirect, bpf_skb_set_tstamp},
    },
    macros::classifier,
    programs::TcContext,
};
use governor_core::{
    key::loss,
    record::{Record, SYNTHETIC_WINDOW, flag},
    refusal::Refusal,
};

use crate::{
    maps::{PACED, lost},
    packet::{Failed, Packet, Segment, Way, flag as tcp},
    socket,
};

const NEXT: i32 = TC_ACT_UNSPEC;
const DROP: i32 = TC_ACT_SHOT;
/// `lo`, in every network namespace.
const LOOPBACK: u32 = 1;
/// `BPF_SKB_TSTAMP_DELIVERY_MONO`: the time is one of our clock.
const MONOTONIC: u32 = 1;
/// A caller that loops without delay is answered after this time, which is to
/// say at the next retransmission: TCP sends a lost packet again after 200 ms.
/// Until then all is dropped: whoever writes more makes TCP try again at once.
const LATER: u64 = 150_000_000;
/// Nothing is held back longer, which is what a policy may say at most: fq
/// drops what lies beyond its horizon of 10 s, and a time far ahead is an error
/// of ours.
const LONGEST_DELAY: u64 = 5_000_000_000;

/// A packet leaves its caller's network namespace: lo, a NIC, a pod's veth.
#[classifier]
pub fn act_egress(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    // What goes back is received here; on lo it is sent again: injected, its
    // source would be one of our own addresses, which the kernel takes for forged.
    let back = if on_loopback(skb) { 0 } else { BPF_F_INGRESS };
    act(skb, back as u64)
}

/// A packet comes from a pod, seen at the host's end of its veth.
#[classifier]
pub fn act_ingress(ctx: TcContext) -> i32 {
    act(ctx.skb.skb, 0)
}

#[inline(always)]
fn act(skb: *mut __sk_buff, back: u64) -> i32 {
    // SAFETY: the kernel's context.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return NEXT;
    }
    // SAFETY: not null, from the kernel; the helper finds nothing for a socket
    // that is not a full one.
    let Some(record) = (unsafe { socket::record(sk) }) else {
        return NEXT;
    };
    let flags = record.flags;
    if flags & (flag::REACHED | flag::REFUSED) == flag::REACHED && record.not_before == 0 {
        return NEXT;
    }
    let packet = Packet::read(skb).filter(|it| !on_loopback(skb) || is_untranslated(sk, it));
    let Some(mut packet) = packet else {
        // Not marked as reached: what can not be answered is not refused.
        if flags & flag::REFUSED != 0 {
            lost(loss::NOT_ANSWERED);
        }
        return NEXT;
    };
    if flags & flag::REACHED == 0 {
        mark(record, flag::REACHED);
    }
    if flags & flag::REFUSED != 0 {
        return refuse(skb, record, &mut packet, back);
    }
    pace(skb, record.not_before, &packet);
    NEXT
}

#[inline(always)]
fn on_loopback(skb: *mut __sk_buff) -> bool {
    // SAFETY: the kernel's context.
    unsafe { (*skb).ifindex == LOOPBACK }
}

/// Whether a packet goes where its socket has connected to. A packet sent on lo
/// keeps what NAT knows of it, and so does an answer made of it: it would be
/// translated like a packet to the server, and be lost. Elsewhere the kernel
/// forgets that on the way.
#[inline(always)]
fn is_untranslated(sk: *mut bpf_sock, packet: &Packet) -> bool {
    // SAFETY: not null, from the kernel, held by the packet.
    unsafe { packet.is_for((*sk).dst_ip4, &(*sk).dst_ip6, (*sk).dst_port) }
}

/// A packet of a socket with a refused request.
#[inline(always)]
fn refuse(skb: *mut __sk_buff, record: &mut Record, packet: &mut Packet, back: u64) -> i32 {
    let begins = packet.sequence.wrapping_sub(record.refused) as i32;
    let end = packet.end();
    if packet.flags & (tcp::RST | tcp::SYN) != 0 {
        // Payload with a SYN (fast open) is not ours to answer: no connection yet.
        return NEXT;
    }
    if end == packet.sequence {
        // An acknowledgement, to a server that has none of this any more.
        return DROP;
    }
    if end.wrapping_sub(record.refused) as i32 <= 0 {
        // Sent before the refused request.
        return NEXT;
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if record.has(flag::LATE) {
        unmark(record, flag::LATE);
        record.not_before = now + LATER;
    }
    if now < record.not_before {
        return DROP;
    }
    let mut segment = Segment {
        way: Way::Back,
        flags: tcp::ACK,
        window: SYNTHETIC_WINDOW,
        sequence: packet.acknowledged,
        acknowledged: end,
    };
    let mut refusal = ptr::null();
    let answer;
    if record.has(flag::RESET) {
        segment.flags |= tcp::RST;
    } else if begins <= 0 || !record.has(flag::REPLIED) {
        // Also to the retransmission: the first answer was lost.
        segment.flags |= tcp::PSH | tcp::FIN;
        answer = Refusal::new(record.refused_why, record.retry_after);
        refusal = ptr::from_ref(&answer);
    }
    if let Err(failed) = packet.make(skb, &segment, refusal) {
        lost(loss::NOT_ANSWERED);
        return match failed {
            Failed::Intact => NEXT,
            Failed::Spoilt => DROP,
        };
    }
    // The clone belongs to no socket: meeting it again, we leave it alone.
    // SAFETY: the kernel's context, and the device it is on.
    if unsafe { bpf_clone_redirect(skb, (*skb).ifindex, back) } != 0 {
        lost(loss::NOT_ANSWERED);
        return DROP;
    }
    mark(record, flag::REPLIED);
    // From the refused byte, whatever this packet begins with: a server that
    // has all before it takes no other number (RFC 5961).
    let reset = Segment {
        way: Way::On,
        flags: tcp::RST | tcp::ACK,
        window: 0,
        sequence: record.refused,
        acknowledged: packet.acknowledged,
    };
    match packet.make(skb, &reset, ptr::null()) {
        Ok(()) => NEXT,
        Err(_) => {
            lost(loss::NOT_ANSWERED);
            DROP
        }
    }
}

/// Holds a packet back, where the device can. All that has a place in the
/// stream waits: a segment that overtook another would look like a loss.
#[inline(always)]
fn pace(skb: *mut __sk_buff, not_before: u64, packet: &Packet) {
    if packet.end() == packet.sequence {
        return;
    }
    // SAFETY: no arguments, the kernel's context.
    let (now, device, set) = unsafe { (bpf_ktime_get_ns(), (*skb).ifindex, (*skb).tstamp) };
    // TCP's own pacing may say later.
    if not_before <= now || not_before - now > LONGEST_DELAY || not_before <= set {
        return;
    }
    // SAFETY: the daemon writes entries whole.
    if unsafe { PACED.get(device) }.is_some() {
        // SAFETY: the kernel's context. Refused, the packet goes at once.
        unsafe { bpf_skb_set_tstamp(skb, not_before, MONOTONIC) };
    }
}

/// Sets a bit. Atomically: at a veth's other end the socket's own programs may
/// run at the same time, on another CPU. They do not write atomically, so that
/// a bit of ours can vanish; that costs one more answer or mark.
#[inline(always)]
fn mark(record: &mut Record, bit: u32) {
    // SAFETY: a word of a live record.
    unsafe {
        atomic_or::<u32, u32, { AtomicOrdering::SeqCst }>(&raw mut record.flags, bit);
    }
}

/// Clears a bit, as [`mark`] sets one.
#[inline(always)]
fn unmark(record: &mut Record, bit: u32) {
    // SAFETY: as in `mark`.
    unsafe {
        atomic_and::<u32, u32, { AtomicOrdering::SeqCst }>(&raw mut record.flags, !bit);
    }
}
