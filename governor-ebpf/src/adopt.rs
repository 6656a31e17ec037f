//! Sockets older than the governor.
//!
//! In an incident the governor is started while keepalive pools are full, and
//! their connects were never seen. Such a socket gets its record at its first
//! payload, while the daemon says that old sockets are to be looked for: a
//! server's own answers pay for the look, too.

use aya_ebpf::{
    bindings::{__sk_buff, bpf_sock, bpf_sock_tuple},
    helpers::generated::{
        bpf_get_netns_cookie, bpf_jiffies64, bpf_ktime_get_ns, bpf_sk_fullsock, bpf_sk_release,
        bpf_skb_cgroup_id, bpf_skc_lookup_tcp,
    },
};
use governor_core::{
    key::{Address, EXEMPT, EndpointKey, is_loopback, loss, scoped},
    record::{Record, flag},
};

use crate::{
    caller,
    maps::{self, CONFIG, LISTENERS, LISTENING, Listening, lost},
    policy, socket,
};

/// 1 where packet programs may ask for the namespace of a socket (Linux 6.12).
#[unsafe(no_mangle)]
pub static SOCKET_NAMESPACES: u32 = 0;

/// A field of a socket, by its offset. Not by its name: the compiler would
/// compute addresses, which the verifier forbids for sockets.
macro_rules! field {
    ($sk:expr, $field:ident $([$index:literal])?) => {{
        const OFFSET: usize = core::mem::offset_of!(bpf_sock, $field) $(+ $index * 4)?;
        let value: u64;
        // SAFETY: a readable field, 4 bytes wide, of a full socket from the kernel.
        unsafe {
            core::arch::asm!(
                "{0} = *(u32 *)({1} + {2})",
                out(reg) value,
                in(reg) $sk,
                const OFFSET,
                options(readonly, nostack)
            );
        }
        value as u32
    }};
}

const ESTABLISHED: u32 = 1;
const CLOSE_WAIT: u32 = 8;
const AF_INET: u32 = 2;
/// `BPF_F_CURRENT_NETNS`.
const THIS_NAMESPACE: u64 = u64::MAX;
/// How long a listener is believed to be there, in the kernel's ticks: 0.25 to 2.5 s.
const BELIEVED: u64 = 250;

/// A record for a socket that has none, if it is one that called.
#[inline(never)]
pub fn adopt(skb: *mut __sk_buff) -> Option<&'static mut Record> {
    let config = CONFIG.get(0)?;
    if config.generation == 0 || config.adopt_until == 0 {
        return None;
    }
    // SAFETY: the kernel's context.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return None;
    }
    // SAFETY: not null, from the kernel.
    let sk = unsafe { bpf_sk_fullsock(sk) };
    if sk.is_null() {
        return None;
    }
    let (state, family) = (field!(sk, state), field!(sk, family));
    if state != ESTABLISHED && state != CLOSE_WAIT {
        return None;
    }
    // SAFETY: no arguments. A tenth of what reading the clock costs.
    let jiffies = unsafe { bpf_jiffies64() };
    let port = field!(sk, src_port);
    // SAFETY: the kernel's context.
    let cgroup = unsafe { bpf_skb_cgroup_id(skb) };
    if is_known(cgroup, port, jiffies) {
        return None;
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if now >= config.adopt_until {
        return None;
    }
    if listens(skb, sk, family, port) {
        known(cgroup, port, jiffies);
        return None;
    }
    let (address, port) = remote(sk, family);
    let workload = caller::of_packet(config, skb);
    let key = EndpointKey {
        workload: workload.workload,
        address: scoped(address, namespace(skb, &address)?),
        port,
        reserved: 0,
    };
    let endpoint = maps::endpoint(&key)?;
    let rule = policy::select(config, &workload, &key, endpoint);
    if rule == EXEMPT {
        return None;
    }
    // SAFETY: not null, from the kernel.
    let Some(record) = (unsafe { socket::record_or_new(sk) }) else {
        lost(loss::NO_RECORD);
        return None;
    };
    record.begin(&key);
    record.connected_at = now;
    record.group = governor_core::cell::Cell::load(&endpoint.group) as u32;
    record.rule = policy::index(config, rule);
    record.flags = flag::CONNECTED | flag::ADOPTED;
    Some(record)
}

/// Whom the socket calls.
#[inline(always)]
fn remote(sk: *mut bpf_sock, family: u32) -> (Address, u32) {
    // In network order, in the first two bytes.
    let port = field!(sk, dst_port) as u16;
    let mut words = [0u32; 4];
    if family == AF_INET {
        words[2] = 0xffff_0000;
        words[3] = field!(sk, dst_ip4);
    } else {
        words[0] = field!(sk, dst_ip6[0]);
        words[1] = field!(sk, dst_ip6[1]);
        words[2] = field!(sk, dst_ip6[2]);
        words[3] = field!(sk, dst_ip6[3]);
    }
    (bytemuck::cast(words), u16::from_be(port) as u32)
}

/// Whether a listener was found at the port a moment ago: then others called this
/// socket. It is believed for a while: a server answers many times in it.
#[inline(always)]
fn is_known(cgroup: u64, port: u32, jiffies: u64) -> bool {
    match LISTENING.get(port % LISTENERS) {
        Some(known) => known.port == port && known.cgroup == cgroup && jiffies < known.until,
        None => false,
    }
}

#[inline(always)]
fn known(cgroup: u64, port: u32, jiffies: u64) {
    if let Some(known) = LISTENING.get_ptr_mut(port % LISTENERS) {
        // SAFETY: a slot of this CPU; whoever interrupts us may write it in between,
        // and then a socket is looked for once more, or not for a moment.
        unsafe {
            *known = Listening {
                cgroup,
                until: jiffies + BELIEVED,
                port,
                reserved: 0,
            };
        }
    }
}

/// Whether somebody listens at the port, which costs as much as all else here.
#[inline(always)]
fn listens(skb: *mut __sk_buff, sk: *mut bpf_sock, family: u32, port: u32) -> bool {
    let port = (port as u16).to_be();
    // SAFETY: plain numbers, all zero is a value.
    let mut tuple: bpf_sock_tuple = unsafe { core::mem::zeroed() };
    // Port 0 has no connection: only a listener is found.
    let size = if family == AF_INET {
        tuple.__bindgen_anon_1.ipv4.saddr = field!(sk, dst_ip4);
        tuple.__bindgen_anon_1.ipv4.daddr = field!(sk, src_ip4);
        tuple.__bindgen_anon_1.ipv4.dport = port;
        12
    } else {
        // SAFETY: this half of the union is the one in use.
        let to = unsafe { &mut tuple.__bindgen_anon_1.ipv6.daddr };
        *to = [
            field!(sk, src_ip6[0]),
            field!(sk, src_ip6[1]),
            field!(sk, src_ip6[2]),
            field!(sk, src_ip6[3]),
        ];
        tuple.__bindgen_anon_1.ipv6.dport = port;
        36
    };
    // SAFETY: the tuple lives on the stack and has `size` bytes.
    let listener =
        unsafe { bpf_skc_lookup_tcp(skb.cast(), &raw mut tuple, size, THIS_NAMESPACE, 0) };
    if listener.is_null() {
        return false;
    }
    // SAFETY: a reference that the look-up took.
    unsafe { bpf_sk_release(listener.cast()) };
    true
}

/// The namespace of a loopback destination, as `connect` has it; `None` where
/// this kernel does not tell.
#[inline(always)]
fn namespace(skb: *mut __sk_buff, address: &Address) -> Option<u64> {
    let [high, low] = bytemuck::cast::<Address, [u64; 2]>(*address);
    if !is_loopback(high, low) {
        return Some(0);
    }
    // SAFETY: a global of this object, set before it was loaded. Where it is 0
    // the verifier never sees what follows.
    if unsafe { core::ptr::read_volatile(&raw const SOCKET_NAMESPACES) } == 0 {
        return None;
    }
    // SAFETY: the kernel's context; without one the helper tells of the host's.
    let (ours, host) = unsafe {
        (
            bpf_get_netns_cookie(skb.cast()),
            bpf_get_netns_cookie(core::ptr::null_mut()),
        )
    };
    Some(if ours == host { 0 } else { ours })
}
