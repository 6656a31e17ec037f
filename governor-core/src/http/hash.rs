//! The hash of names and values: one multiplication a byte, so that it costs
//! the kernel little and does not depend on where segments are cut.
//!
//! No secret: a client can make its own requests collide, and gains by it a
//! refusal of its own retries. What is remembered is kept apart by workload.

/// An odd constant, the golden ratio's.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// White space stood before this byte.
pub(super) const SPACE: u32 = 0x100;

/// Makes letters lower-case, and maps what names may hold to distinct bytes.
pub(super) const FOLD: u32 = 0x20;

/// One more byte, with what is to be ored into it.
#[inline(always)]
pub(super) const fn step(hash: u64, byte: u32) -> u64 {
    (hash ^ byte as u64).wrapping_mul(FACTOR)
}

/// What [`FACTOR`] undoes: their product is 1.
const INVERSE: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(FACTOR.wrapping_mul(INVERSE) == 1);

/// Takes the last byte back: what it was is the difference to the hash before.
#[inline(always)]
pub(super) const fn unstep(hash: u64) -> u64 {
    hash.wrapping_mul(INVERSE)
}

/// Every bit of the result depends on every bit of the hash (MurmurHash3's
/// finish); never 0, which means that there is none.
#[inline(always)]
pub(super) const fn finish(hash: u64) -> u64 {
    let mut h = hash;
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    h | ((h == 0) as u64)
}

/// A hash that goes on with a part, in order.
#[inline(always)]
pub(super) const fn join(hash: u64, part: u64) -> u64 {
    (hash.rotate_left(23) ^ finish(part)).wrapping_mul(FACTOR)
}

/// The hash of bytes as they are.
pub(super) const fn exact(text: &str) -> u64 {
    all(text.as_bytes(), 0)
}

/// The hash of a name, or of a value in which case means nothing.
pub(super) const fn folded(text: &str) -> u64 {
    all(text.as_bytes(), FOLD)
}

const fn all(bytes: &[u8], or: u32) -> u64 {
    let mut hash = 0;
    let mut at = 0;
    while at < bytes.len() {
        hash = step(hash, bytes[at] as u32 | or);
        at += 1;
    }
    hash
}
