//! The per-socket record: written at connect, read in every hook, freed with
//! the socket.

use aya_ebpf::{bindings::BPF_SK_STORAGE_GET_F_CREATE, helpers::generated::bpf_sk_storage_get};
use governor_core::record::Record;

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
