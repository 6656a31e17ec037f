//! The kernel programs. One file per hook; each gathers facts, calls the law in
//! `governor-core` and carries out its verdict.
#![no_std]
#![no_main]
#![feature(core_intrinsics, asm_experimental_arch)]
#![allow(
    internal_features,
    unused_features,
    reason = "core::intrinsics is the only way to an atomic read-modify-write on this target"
)]

mod act;
mod adopt;
mod again;
mod caller;
mod calm;
mod cell;
mod chains;
mod connect;
mod egress;
mod ingress;
mod law;
mod maps;
mod outcome;
mod packet;
mod policy;
mod read;
mod request;
mod sample;
mod segment;
mod socket;
mod verdict;

/// The licence the kernel asks for: helpers marked GPL-only are used.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Never reached: the verifier refuses a program that could get here and not end.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
