//! A TCP segment's headers.
//!
//! The packet programs run for every packet of the cgroup. Most carry no
//! payload (8 of 10 in a short connection), so the header is read first, in
//! place: no helper is called for an acknowledgement. Payload is never in the
//! linear area; who needs it loads it.

use aya_ebpf::bindings::__sk_buff;

const TCP: u8 = 6;
/// An IPv6 header says so where an extension follows.
const HOP_BY_HOP: u8 = 0;
const FIN: u8 = 1;
const RST: u8 = 4;

/// What the headers say.
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// Up to where its sender has heard.
    pub acknowledged: u32,
    /// Where the payload begins, from the network header.
    pub offset: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// The window, as sent.
    pub window: u16,
    flags: u8,
}

impl Segment {
    /// Whether it ends one direction, or both.
    #[inline(always)]
    pub const fn ends(&self) -> bool {
        self.flags & (FIN | RST) != 0
    }

    /// Whether it is a reset.
    #[inline(always)]
    pub const fn resets(&self) -> bool {
        self.flags & RST != 0
    }

    /// Sequence number after the payload.
    #[inline(always)]
    pub const fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.payload)
    }
}

/// Reads the headers: nothing where they are unusual, which passes unseen.
#[inline(always)]
pub fn read(skb: *mut __sk_buff) -> Option<Segment> {
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
        6 if ip[6] == HOP_BY_HOP => behind_extension(start, end)?,
        _ => return None,
    };
    let tcp = start + transport;
    if tcp + 20 > end {
        return None;
    }
    // SAFETY: as above.
    let tcp = unsafe { &*(tcp as *const [u8; 20]) };
    let offset = transport as u32 + (tcp[12] >> 4) as u32 * 4;
    Some(Segment {
        sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        acknowledged: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
        offset,
        payload: length.saturating_sub(offset),
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        flags: tcp[13],
    })
}

/// Where TCP begins behind the kernel's own extension of 8 bytes, which tells
/// the length of a train of segments beyond 64 kB (BIG TCP): lo sends a large
/// body so, and missing it, what follows would be taken for more of that body.
#[inline(always)]
fn behind_extension(start: usize, end: usize) -> Option<usize> {
    if start + 48 > end {
        return None;
    }
    // SAFETY: 48 bytes are there; the verifier holds us to that.
    let option = unsafe { &*((start + 40) as *const [u8; 8]) };
    if option[0] == TCP && option[1] == 0 {
        Some(48)
    } else {
        None
    }
}

/// Whether one sequence number is after another.
#[inline(always)]
pub const fn after(this: u32, that: u32) -> bool {
    this.wrapping_sub(that) as i32 > 0
}
