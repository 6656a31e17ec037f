//! A TCP packet on a device with Ethernet headers: read, and made anew in place.
//!
//! Made anew it has no options: neither end minds (Linux checks time stamps
//! only where there are some), and nothing of the old one has to be kept.

use core::ptr;

use aya_ebpf::{
    bindings::{__sk_buff, bpf_adj_room_mode::BPF_ADJ_ROOM_NET},
    helpers::generated::{
        bpf_csum_diff, bpf_l4_csum_replace, bpf_skb_adjust_room, bpf_skb_change_tail,
        bpf_skb_load_bytes, bpf_skb_store_bytes,
    },
};
use governor_core::refusal::{LONGEST, Refusal, SECONDS};

const LINK: u32 = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
/// An IPv6 header says so where an extension follows, of 8 bytes: the kernel's
/// way to tell the length of a train of segments beyond 64 kB (BIG TCP), which
/// lo sends unasked.
const HOP_BY_HOP: u8 = 0;
const EXTENSION: u32 = 8;
/// Length of a TCP header without options.
const TRANSPORT: u32 = 20;
/// Where its checksum is.
const CHECKSUM: u32 = 16;

/// Bits of [`Packet::flags`].
pub mod flag {
    /// The sender has no more to say.
    pub const FIN: u8 = 1;
    /// The connection begins.
    pub const SYN: u8 = 2;
    /// The connection is void.
    pub const RST: u8 = 4;
    /// What came is to be passed on at once.
    pub const PSH: u8 = 8;
    /// The acknowledgement is valid.
    pub const ACK: u8 = 16;
}

/// What the headers say. Words and addresses are in network order.
pub struct Packet {
    /// Both hardware addresses, destination first, in words of 16 bits.
    link: [u16; 7],
    /// The source address; IPv4 in the first word.
    source: [u32; 4],
    /// The destination address.
    destination: [u32; 4],
    /// Both ports, source first.
    ports: [u16; 2],
    /// [`flag`].
    pub flags: u8,
    /// Where the TCP header is, not counting an extension.
    transport: u32,
    /// Bytes of the IPv6 extension before it.
    extension: u32,
    /// Sequence number.
    pub sequence: u32,
    /// What the sender expects next.
    pub acknowledged: u32,
    /// Bytes of payload.
    pub payload: u32,
}

/// Which way a packet that is made anew goes.
#[derive(Clone, Copy)]
pub enum Way {
    /// As the one that was read.
    On,
    /// Back to its sender.
    Back,
}

/// A packet to be made.
pub struct Segment {
    /// Which way it goes.
    pub way: Way,
    /// [`flag`].
    pub flags: u8,
    /// The window.
    pub window: u16,
    /// Sequence number.
    pub sequence: u32,
    /// What its sender expects next.
    pub acknowledged: u32,
}

impl Packet {
    /// Reads the headers. `None` where they are unusual: options, extensions
    /// but for the kernel's own, fragments, no Ethernet.
    #[inline(always)]
    pub fn read(skb: *mut __sk_buff) -> Option<Self> {
        let link: [u16; 7] = load(skb, 0)?;
        // SAFETY: the kernel's context. The protocol is the device's; a device
        // without Ethernet headers has something else where Ethernet has it.
        if u32::from(link[6]) != unsafe { (*skb).protocol } {
            return None;
        }
        let mut extension = 0;
        let (transport, source, destination) = match u16::from_be(link[6]) {
            IPV4 => {
                let ip: [u32; 5] = load(skb, LINK)?;
                let [version, ..] = ip[0].to_ne_bytes();
                let [_, _, high, low] = ip[1].to_ne_bytes();
                let [_, protocol, ..] = ip[2].to_ne_bytes();
                // More fragments, or an offset.
                if version != 0x45 || protocol != TCP || high & 0x3f != 0 || low != 0 {
                    return None;
                }
                (LINK + 20, [ip[3], 0, 0, 0], [ip[4], 0, 0, 0])
            }
            IPV6 => {
                let ip: [u32; 10] = load(skb, LINK)?;
                let [version, ..] = ip[0].to_ne_bytes();
                let [_, _, mut next, _] = ip[1].to_ne_bytes();
                if next == HOP_BY_HOP {
                    let option: [u8; 8] = load(skb, LINK + 40)?;
                    // Its length is zero: nothing beyond the 8 bytes.
                    if option[1] != 0 {
                        return None;
                    }
                    next = option[0];
                    extension = EXTENSION;
                }
                if version >> 4 != 6 || next != TCP {
                    return None;
                }
                let source = [ip[2], ip[3], ip[4], ip[5]];
                (LINK + 40, source, [ip[6], ip[7], ip[8], ip[9]])
            }
            _ => return None,
        };
        let tcp: [u32; 5] = load(skb, transport + extension)?;
        let [s0, s1, d0, d1] = tcp[0].to_ne_bytes();
        let [offset, flags, ..] = tcp[3].to_ne_bytes();
        // SAFETY: the kernel's context.
        let length = unsafe { (*skb).len };
        let headers = transport + extension + (offset >> 4) as u32 * 4;
        Some(Self {
            link,
            source,
            destination,
            ports: [u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([d0, d1])],
            flags,
            transport,
            extension,
            sequence: u32::from_be(tcp[1]),
            acknowledged: u32::from_be(tcp[2]),
            payload: length.saturating_sub(headers),
        })
    }

    /// Sequence number after all it takes: its payload, and a FIN.
    #[inline(always)]
    pub fn end(&self) -> u32 {
        let fin = (self.flags & flag::FIN) as u32;
        self.sequence.wrapping_add(self.payload).wrapping_add(fin)
    }

    /// Whether it goes to this address, of its family, and this port, all in
    /// network order.
    #[inline(always)]
    pub fn is_for(&self, v4: u32, v6: &[u32; 4], port: u16) -> bool {
        let [d0, d1, d2, d3] = self.destination;
        let address = if self.transport == LINK + 20 {
            d0 == v4
        } else {
            d0 == v6[0] && d1 == v6[1] && d2 == v6[2] && d3 == v6[3]
        };
        address && self.ports[1] == port
    }

    /// Makes the packet anew in its buffer, with an answer or without payload.
    /// `Err(Intact)`: nothing was changed.
    #[inline(never)]
    pub fn make(
        &mut self,
        skb: *mut __sk_buff,
        segment: &Segment,
        answer: *const Refusal,
    ) -> Result<(), Failed> {
        // SAFETY: null, or a reference of the caller's.
        let answer = unsafe { answer.as_ref() };
        let body = answer.map_or(0, |it| it.text.length);
        let length = TRANSPORT + body;
        let end = self.transport + self.extension + length;
        // SAFETY: the kernel's context. Cuts the payload, or grows the packet; it
        // is a whole one then, no longer a train of segments.
        if unsafe { bpf_skb_change_tail(skb, end, 0) } != 0 {
            return Err(Failed::Intact);
        }
        if self.extension != 0 {
            let less = -(EXTENSION as i32);
            // SAFETY: as above; takes the bytes behind the IP header out.
            if unsafe { bpf_skb_adjust_room(skb, less, BPF_ADJ_ROOM_NET, 0) } != 0 {
                return Err(Failed::Spoilt);
            }
            self.extension = 0;
        }
        self.write(skb, segment, answer, length)
            .ok_or(Failed::Spoilt)
    }

    #[inline(always)]
    fn write(
        &self,
        skb: *mut __sk_buff,
        segment: &Segment,
        answer: Option<&Refusal>,
        length: u32,
    ) -> Option<()> {
        let mut link = self.link;
        let (source, destination, ports) = match segment.way {
            Way::On => (&self.source, &self.destination, self.ports),
            Way::Back => {
                let [a, b, c, d, e, f, protocol] = self.link;
                link = [d, e, f, a, b, c, protocol];
                (
                    &self.destination,
                    &self.source,
                    [self.ports[1], self.ports[0]],
                )
            }
        };
        store(skb, 0, &link)?;
        // As TCP's checksum covers them.
        let mut sum = sum_of(destination, sum_of(source, 0));
        sum = add(sum, (TCP as u16).to_be());
        sum = add(sum, (length as u16).to_be());
        if self.transport == LINK + 20 {
            store(skb, LINK, &ipv4(source[0], destination[0], length))?;
        } else {
            store(skb, LINK, &ipv6(source, destination, length))?;
        }

        let [s0, s1] = ports[0].to_ne_bytes();
        let [d0, d1] = ports[1].to_ne_bytes();
        let [w0, w1] = segment.window.to_be_bytes();
        let tcp = [
            u32::from_ne_bytes([s0, s1, d0, d1]),
            segment.sequence.to_be(),
            segment.acknowledged.to_be(),
            u32::from_ne_bytes([(TRANSPORT as u8 / 4) << 4, segment.flags, w0, w1]),
            0,
        ];
        store(skb, self.transport, &tcp)?;
        if let Some(answer) = answer {
            let length = within::<{ LONGEST as u32 - 1 }>(answer.text.length);
            // SAFETY: the answer has as many bytes, the packet as much room.
            let failed = unsafe {
                bpf_skb_store_bytes(
                    skb,
                    self.transport + TRANSPORT,
                    answer.text.words.as_ptr().cast(),
                    length,
                    0,
                )
            };
            if failed != 0 {
                return None;
            }
            store(skb, self.transport + TRANSPORT + SECONDS, &answer.seconds)?;
        }
        let checksum = if is_partial(skb, self.transport + CHECKSUM)? {
            // The device, or nobody, adds the rest.
            fold(sum)
        } else {
            sum = sum_of(&tcp, sum);
            if let Some(answer) = answer {
                sum = sum_of(&answer.text.words, sum_of(&[answer.seconds], sum));
            }
            !fold(sum)
        };
        store(skb, self.transport + CHECKSUM, &checksum)
    }
}

/// Why a packet was not made.
pub enum Failed {
    /// The old one is as it was.
    Intact,
    /// The old one is gone.
    Spoilt,
}

/// Whether the checksum of a packet that has a zero there is still to be
/// completed. The helper leaves such a one alone, and changes any other.
#[inline(always)]
fn is_partial(skb: *mut __sk_buff, at: u32) -> Option<bool> {
    // SAFETY: the kernel's context; a change of one word of two bytes.
    if unsafe { bpf_l4_csum_replace(skb, at, 0, 0x0101, 2) } != 0 {
        return None;
    }
    let after: u16 = load(skb, at)?;
    Some(after == 0)
}

#[inline(always)]
fn ipv4(source: u32, destination: u32, length: u32) -> [u32; 5] {
    let [l0, l1] = ((20 + length) as u16).to_be_bytes();
    let mut header = [
        u32::from_ne_bytes([0x45, 0, l0, l1]),
        // Not to be fragmented.
        u32::from_ne_bytes([0, 0, 0x40, 0]),
        u32::from_ne_bytes([64, TCP, 0, 0]),
        source,
        destination,
    ];
    let [c0, c1] = (!fold(sum_of(&header, 0))).to_ne_bytes();
    header[2] = u32::from_ne_bytes([64, TCP, c0, c1]);
    header
}

#[inline(always)]
fn ipv6(source: &[u32; 4], destination: &[u32; 4], length: u32) -> [u32; 10] {
    let [l0, l1] = (length as u16).to_be_bytes();
    let [s0, s1, s2, s3] = *source;
    let [d0, d1, d2, d3] = *destination;
    [
        u32::from_ne_bytes([0x60, 0, 0, 0]),
        u32::from_ne_bytes([l0, l1, TCP, 64]),
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ]
}

/// Adds words to a sum that is still to be folded.
#[inline(always)]
fn sum_of<const N: usize>(words: &[u32; N], sum: u32) -> u32 {
    // SAFETY: as many bytes are there; the helper reads only.
    let sum = unsafe {
        bpf_csum_diff(
            ptr::null_mut(),
            0,
            words.as_ptr().cast_mut(),
            (N * 4) as u32,
            sum,
        )
    };
    sum as u32
}

/// Adds half a word, with the carry of ones' complement.
#[inline(always)]
fn add(sum: u32, half: u16) -> u32 {
    let sum = sum as u64 + half as u64;
    (sum & 0xffff_ffff) as u32 + (sum >> 32) as u32
}

#[inline(always)]
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A length of 1 to `MASK` + 1. Opaque, on the very register that is passed:
/// Linux 6.1 does not carry bounds across the moves a compiler makes.
#[inline(always)]
fn within<const MASK: u32>(length: u32) -> u32 {
    let mut below = length.wrapping_sub(1) as u64;
    // SAFETY: one register, no memory.
    unsafe { core::arch::asm!("{0} &= {1}", inout(reg) below, const MASK) };
    (below + 1) as u32
}

#[inline(always)]
fn load<T: bytemuck::Pod>(skb: *mut __sk_buff, at: u32) -> Option<T> {
    let mut value = T::zeroed();
    // SAFETY: `value` has as many bytes; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes(
            skb.cast(),
            at,
            (&raw mut value).cast(),
            size_of::<T>() as u32,
        )
    };
    if failed == 0 { Some(value) } else { None }
}

#[inline(always)]
fn store<T: bytemuck::Pod>(skb: *mut __sk_buff, at: u32, value: &T) -> Option<()> {
    // SAFETY: as for `load`.
    let failed = unsafe {
        bpf_skb_store_bytes(
            skb,
            at,
            ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
            0,
        )
    };
    if failed == 0 { Some(()) } else { None }
}
