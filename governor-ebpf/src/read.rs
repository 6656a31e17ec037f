//! Runs the HTTP scans of `governor-core` over the bytes of a packet.
//!
//! Payload is never in the linear area, so it is copied, a chunk at a time, by
//! a loop whose body the verifier walks once. What a byte decides, if it
//! decides something, is in global functions, which it walks once, too.

use core::{ffi::c_void, mem::MaybeUninit};

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::generated::{bpf_loop, bpf_skb_load_bytes},
};
use governor_core::http::{
    AnswerScan, CHUNK, RequestScan,
    line::next,
    request::{VISIBLE, flag},
    state,
};

/// Bytes of a head that are read in one packet, 30 us at most. One that goes on
/// is not read: servers refuse it, too, and what follows would be out of order.
const MOST: u32 = 16_384;
const STEP: u32 = CHUNK as u32;

/// What a loop has before it.
struct Reading<S> {
    skb: *mut __sk_buff,
    scan: *mut S,
    at: u32,
    end: u32,
}

/// Reads a request's head in the bytes from `offset` on, `len` of them; how
/// many belong to the head. With its end, the body bytes that follow it are
/// mixed into the fingerprint: they are not among those counted.
#[inline(never)]
pub fn request(skb: *mut __sk_buff, offset: u32, len: u32, scan: &mut RequestScan) -> u32 {
    let mut reading = Reading {
        skb,
        scan,
        at: offset,
        end: offset + len,
    };
    run(request_chunk, len, &mut reading);
    let taken = reading.at - offset;
    if taken < len && goes_on(scan.state) {
        scan.state = state::UNREADABLE;
    }
    if scan.state == state::DONE && taken < len {
        let left = len - taken;
        let all = scan.flags & flag::CHUNKED != 0 || scan.length > left as u64;
        let visible = if all { left } else { scan.length as u32 };
        if visible > 0 {
            reading.scan = scan;
            reading.end = reading.at + visible;
            run(
                body_chunk,
                if visible < VISIBLE { visible } else { VISIBLE },
                &mut reading,
            );
        }
    }
    taken
}

/// Reads an answer's head in the bytes from `offset` on, `len` of them; how
/// many it took. It stops after the status where nothing that follows matters
/// ([`AnswerScan::has_more_to_say`]).
#[inline(never)]
pub fn answer(skb: *mut __sk_buff, offset: u32, len: u32, scan: &mut AnswerScan) -> u32 {
    let mut reading = Reading {
        skb,
        scan,
        at: offset,
        end: offset + len,
    };
    run(answer_chunk, len, &mut reading);
    let taken = reading.at - offset;
    if taken < len && scan.has_more_to_say() {
        scan.state = state::UNREADABLE;
    }
    taken
}

/// Bytes of a segment that are summed up at most.
pub const SUMMED: u32 = 512;
/// An odd constant, the golden ratio's.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sum of the `len` bytes from `offset` on, by words: a tenth of what reading
/// them costs. Never 0, but where they can not be loaded.
#[inline(always)]
pub fn sum(skb: *mut __sk_buff, offset: u32, len: u32) -> u64 {
    let mut sum = 0u64;
    let mut done = 0;
    while done < SUMMED && done < len {
        let mut chunk = Chunk(MaybeUninit::uninit());
        if chunk.load(skb, offset + done, len - done).is_none() {
            return 0;
        }
        // SAFETY: loaded.
        for word in unsafe { chunk.0.assume_init_ref() } {
            sum = (sum ^ word).wrapping_mul(FACTOR);
            sum ^= sum >> 32;
        }
        done += STEP;
    }
    sum | 1
}

#[inline(always)]
const fn goes_on(scan: u32) -> bool {
    scan == state::START || scan == state::HEAD
}

/// Calls `chunk` for each chunk of `len` bytes, and once more: a scan may stop
/// in the midst of one and go on.
#[inline(always)]
fn run<S>(chunk: extern "C" fn(u32, *mut c_void) -> i64, len: u32, reading: &mut Reading<S>) {
    let len = if len < MOST { len } else { MOST };
    // SAFETY: the callback gets `reading`, which outlives the call.
    unsafe {
        bpf_loop(
            len.div_ceil(STEP) + 1,
            chunk as *mut c_void,
            core::ptr::from_mut(reading).cast(),
            0,
        )
    };
}

/// The callback's answers: go on, and enough.
const ON: i64 = 0;
const ENOUGH: i64 = 1;

extern "C" fn request_chunk(_: u32, reading: *mut c_void) -> i64 {
    // SAFETY: what `run` gave to the loop, whose only user this is.
    let reading = unsafe { &mut *reading.cast::<Reading<RequestScan>>() };
    let mut chunk = Chunk(MaybeUninit::uninit());
    let Some(count) = chunk.load(reading.skb, reading.at, reading.end - reading.at) else {
        return ENOUGH;
    };
    // SAFETY: loaded.
    let bytes = unsafe { chunk.bytes() };
    // SAFETY: `request`'s argument, which outlives the loop.
    let scan = unsafe { &mut *reading.scan };
    reading.at += request_bytes(scan, bytes, count);
    if goes_on(scan.state) { ON } else { ENOUGH }
}

extern "C" fn body_chunk(_: u32, reading: *mut c_void) -> i64 {
    // SAFETY: as in `request_chunk`.
    let reading = unsafe { &mut *reading.cast::<Reading<RequestScan>>() };
    let mut chunk = Chunk(MaybeUninit::uninit());
    let Some(count) = chunk.load(reading.skb, reading.at, reading.end - reading.at) else {
        return ENOUGH;
    };
    // SAFETY: loaded.
    let bytes = unsafe { chunk.bytes() };
    // SAFETY: as in `request_chunk`.
    let scan = unsafe { &mut *reading.scan };
    scan.body(bytes, count);
    reading.at += count;
    ON
}

extern "C" fn answer_chunk(_: u32, reading: *mut c_void) -> i64 {
    // SAFETY: as in `request_chunk`.
    let reading = unsafe { &mut *reading.cast::<Reading<AnswerScan>>() };
    let mut chunk = Chunk(MaybeUninit::uninit());
    let Some(count) = chunk.load(reading.skb, reading.at, reading.end - reading.at) else {
        return ENOUGH;
    };
    // SAFETY: loaded.
    let bytes = unsafe { chunk.bytes() };
    // SAFETY: `answer`'s argument, which outlives the loop.
    let scan = unsafe { &mut *reading.scan };
    reading.at += answer_bytes(scan, bytes, count);
    if scan.has_more_to_say() { ON } else { ENOUGH }
}

/// A chunk of the packet.
struct Chunk(MaybeUninit<[u64; CHUNK / 8]>);

impl Chunk {
    /// Copies the next bytes; how many. `None` at the end, or where there are none.
    #[inline(always)]
    fn load(&mut self, skb: *mut __sk_buff, at: u32, left: u32) -> Option<u32> {
        if left == 0 {
            return None;
        }
        let count = at_most_a_step(left);
        // Zeroed, since the verifier does not let a helper fill a part of what
        // is not; by volatile stores, since LLVM makes a call of memset of
        // others, a loop over bytes.
        let words = self.0.as_mut_ptr().cast::<u64>();
        for word in 0..CHUNK / 8 {
            // SAFETY: a word of the array.
            unsafe { words.add(word).write_volatile(0) };
        }
        // SAFETY: `words` holds CHUNK bytes, and `count` is at most that; the
        // helper checks the packet's bounds.
        let failed = unsafe { bpf_skb_load_bytes(skb.cast(), at, words.cast(), count) };
        if failed == 0 { Some(count) } else { None }
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// Only once `load` has returned something.
    #[inline(always)]
    unsafe fn bytes(&self) -> &[u8; CHUNK] {
        // SAFETY: `load` has written every word.
        bytemuck::cast_ref(unsafe { self.0.assume_init_ref() })
    }
}

/// `left`, which is not 0, or [`STEP`] where that is less. Without a branch: the verifier
/// would walk all that follows once for each side. Linux 6.1 does not carry what it knows of
/// a number across a 32-bit move; the mask it sees.
#[inline(always)]
fn at_most_a_step(left: u32) -> u32 {
    let over = (left as u64).wrapping_sub(STEP as u64);
    let mut sign = over;
    // SAFETY: one register, no memory: all ones where `left` is less than a step, else 0.
    unsafe { core::arch::asm!("{0} s>>= 63", inout(reg) sign) };
    let mut less = (over & sign).wrapping_add(STEP as u64 - 1);
    // SAFETY: one register, no memory.
    unsafe { core::arch::asm!("{0} &= {1}", inout(reg) less, const STEP - 1) };
    (less + 1) as u32
}

// Global functions: the verifier walks each once, with any arguments, and not
// for each of a chunk's bytes. It does not promise that a pointer is not null.

/// [`RequestScan::chunk_with`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn request_bytes(
    scan: *mut RequestScan,
    bytes: *const [u8; CHUNK],
    count: u32,
) -> u32 {
    // SAFETY: null, or what the types say: the verifier checks the sizes.
    match unsafe { (scan.as_mut(), bytes.as_ref()) } {
        (Some(scan), Some(bytes)) => {
            scan.chunk_with(bytes, count, |scan, byte| request_mark(scan, byte))
        }
        _ => 0,
    }
}

/// [`AnswerScan::chunk_with`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn answer_bytes(
    scan: *mut AnswerScan,
    bytes: *const [u8; CHUNK],
    count: u32,
) -> u32 {
    // SAFETY: as for `request_bytes`.
    match unsafe { (scan.as_mut(), bytes.as_ref()) } {
        (Some(scan), Some(bytes)) => {
            scan.chunk_with(bytes, count, |scan, byte| answer_mark(scan, byte))
        }
        _ => 0,
    }
}

/// [`RequestScan::mark`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn request_mark(scan: *mut RequestScan, byte: u32) -> u32 {
    // SAFETY: null, or a scan in socket storage: the verifier checks the size.
    match unsafe { scan.as_mut() } {
        Some(scan) => scan.mark(byte),
        None => next::STOP,
    }
}

/// [`AnswerScan::mark`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn answer_mark(scan: *mut AnswerScan, byte: u32) -> u32 {
    // SAFETY: as for `request_mark`.
    match unsafe { scan.as_mut() } {
        Some(scan) => scan.mark(byte),
        None => next::STOP,
    }
}
