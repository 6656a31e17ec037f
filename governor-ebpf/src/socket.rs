//! The per-socket record: written at connect, read in every hook, freed with
//! the socket.

use aya_ebpf::{
    bindings::{__sk_buff, BPF_SK_STORAGE_GET_F_CREATE},
    helpers::generated::bpf_sk_storage_get,
};
use governor_core::record::{Record, flag};

use crate::maps::RECORDS;

/// The record of a socket, if it has one.
///
/// # Safety
///
/// `sk` must be a socket pointer that the kernel gave this program, and not null.
#[inline(always)]
pub unsafe fn record<T>(sk: *mut T) -> Option<&'static mut Record> {
    // SAFETY: the caller's promise; the helper returns null or a record that
    // lives as long as the socket, which the hook holds.
    unsafe {
        bpf_sk_storage_get(
            core::ptr::from_ref(&RECORDS).cast_mut().cast(),
            sk.cast(),
            core::ptr::null_mut(),
            0,
        )
        .cast::<Record>()
        .as_mut()
    }
}

/// The record of a socket, created if it has none; `None` if out of memory.
///
/// # Safety
///
/// As for [`record`].
#[inline(always)]
pub unsafe fn record_or_new<T>(sk: *mut T) -> Option<&'static mut Record> {
    // SAFETY: as in `record`.
    unsafe {
        bpf_sk_storage_get(
            core::ptr::from_ref(&RECORDS).cast_mut().cast(),
            sk.cast(),
            core::ptr::null_mut(),
            BPF_SK_STORAGE_GET_F_CREATE as u64,
        )
        .cast::<Record>()
        .as_mut()
    }
}

/// The record of a packet's socket; `None` for sockets that are not ours.
#[inline(always)]
pub fn of_packet(skb: *mut __sk_buff) -> Option<&'static mut Record> {
    // SAFETY: the kernel's context.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return None;
    }
    // SAFETY: not null, from the kernel; the helper finds nothing for a socket
    // that is not a full one.
    unsafe { record(sk) }
}

/// Whether what passes on it is still reported.
#[inline(always)]
pub fn open(record: &Record) -> bool {
    record.has(flag::CONNECTED) && !record.has(flag::OVER)
}
