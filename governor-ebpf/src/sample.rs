//! The scans' entry point, for tests only: reads the bytes that the test puts
//! behind a [`Sample`] into the packet of BPF_PROG_TEST_RUN, with the scans in
//! the socket's record, as when requests pass. Never attached.

use core::mem::offset_of;

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::generated::{bpf_skb_load_bytes, bpf_skb_store_bytes},
    macros::classifier,
    programs::TcContext,
};
use governor_core::{
    http::sample::{Sample, what},
    record::Record,
};

use crate::{egress::read_request, ingress::read_answer, socket};

/// The sample follows an Ethernet header.
const OFFSET: u32 = 14;
const PAYLOAD: u32 = OFFSET + size_of::<Sample>() as u32;
const TAKEN: u32 = OFFSET + offset_of!(Sample, taken) as u32;
const REQUEST: u32 = OFFSET + offset_of!(Sample, request) as u32;
const ANSWER: u32 = OFFSET + offset_of!(Sample, answer) as u32;

/// Reads a sample's bytes; 0 if it did.
#[classifier]
pub fn sample(ctx: TcContext) -> i32 {
    match try_sample(ctx.skb.skb) {
        Some(()) => 0,
        None => 1,
    }
}

#[inline(always)]
fn try_sample(skb: *mut __sk_buff) -> Option<()> {
    // SAFETY: the kernel's context.
    let (len, sk) = unsafe { ((*skb).len, (*skb).__bindgen_anon_2.sk) };
    if len < PAYLOAD || sk.is_null() {
        return None;
    }
    let len = len - PAYLOAD;
    // SAFETY: not null, from the kernel.
    let record: &mut Record = unsafe { socket::record_or_new(sk) }?;
    let mut what = 0;
    load(skb, OFFSET, &mut what)?;
    load(skb, REQUEST, &mut record.request)?;
    load(skb, ANSWER, &mut record.answer)?;
    if what & what::ANEW != 0 {
        record.request.begin();
        record.answer.begin();
    }
    let taken = match what & !what::ANEW {
        what::REQUEST => read_request(skb, PAYLOAD, len, &raw mut record.request),
        what::ANSWER => read_answer(skb, PAYLOAD, len, &raw mut record.answer),
        _ => 0,
    };
    store(skb, TAKEN, &taken)?;
    store(skb, REQUEST, &record.request)?;
    store(skb, ANSWER, &record.answer)
}

#[inline(always)]
fn load<T: bytemuck::Pod>(skb: *mut __sk_buff, offset: u32, value: &mut T) -> Option<()> {
    // SAFETY: `value` holds as many bytes, any of which it may be; the helper
    // checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes(
            skb.cast(),
            offset,
            core::ptr::from_mut(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if failed == 0 { Some(()) } else { None }
}

#[inline(always)]
fn store<T: bytemuck::Pod>(skb: *mut __sk_buff, offset: u32, value: &T) -> Option<()> {
    // SAFETY: `value` holds as many bytes; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_store_bytes(
            skb.cast(),
            offset,
            core::ptr::from_ref(value).cast_mut().cast(),
            size_of::<T>() as u32,
            0,
        )
    };
    if failed == 0 { Some(()) } else { None }
}
