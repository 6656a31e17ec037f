//! A request whose bytes are those of the one before it on its connection: a
//! poll, a health check, a retry. What it says is known, and is not read again.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_skb_load_bytes};
use governor_core::{
    http::{RequestScan, state},
    record::{Record, flag},
};

use crate::{egress::read_request, read};

/// Requests in a row that differ, after which a connection is not looked at any
/// more: a sum that leads to nothing is a tenth of the reading.
const FEW: u16 = 4;

/// Reads a request that begins with this segment; how many bytes belong to its head.
#[inline(always)]
pub fn read_from_start(skb: *mut __sk_buff, record: &mut Record, offset: u32, len: u32) -> u32 {
    // Not the first one: most connections that carry one carry no other.
    let looks = len <= read::SUMMED && record.unlike < FEW && !record.has(flag::UNUSED);
    let sum = if looks {
        segment_sum(skb, offset, len)
    } else {
        0
    };
    if sum != 0 && sum == record.seen && len == record.seen_length as u32 {
        record.unlike = 0;
        return record.request.head();
    }
    record.seen = 0;
    if !may_begin(skb, offset) {
        record.request.state = state::FOREIGN;
        return 0;
    }
    record.request.begin();
    let head = read_request(skb, offset, len, &raw mut record.request);
    if sum != 0 && record.request.state == state::DONE {
        record.unlike += 1;
        record.seen = sum;
        record.seen_length = len as u16;
    }
    head
}

/// Whether a segment is the one that was read last.
#[inline(always)]
pub fn is_the_same(skb: *mut __sk_buff, record: &Record, offset: u32, len: u32) -> bool {
    len == record.seen_length as u32 && segment_sum(skb, offset, len) == record.seen
}

/// Whether a request may begin here, by the first byte: TLS and most others are
/// told by it, for a tenth of what beginning to read costs.
#[inline(always)]
fn may_begin(skb: *mut __sk_buff, offset: u32) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte fits; the helper checks the packet's bounds.
    let failed = unsafe { bpf_skb_load_bytes(skb.cast(), offset, (&raw mut byte).cast(), 1) };
    failed != 0 || RequestScan::may_begin_with(byte)
}

/// [`read::sum`], as a global function: the verifier walks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn segment_sum(skb: *mut __sk_buff, offset: u32, len: u32) -> u64 {
    read::sum(skb, offset, len)
}
