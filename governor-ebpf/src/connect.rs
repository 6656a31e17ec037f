//! connect4, connect6: an attempt begins.
//!
//! Both are needed: Java opens IPv6 sockets and connects to `::ffff:a.b.c.d`,
//! which arrives at connect6. A refused connect returns the policy's errno from
//! `connect()` itself, in microseconds.

use aya_ebpf::{
    bindings::bpf_sock_addr,
    helpers::{
        bpf_get_current_pid_tgid, bpf_ktime_get_ns,
        generated::{bpf_get_netns_cookie, bpf_set_retval},
    },
    macros::cgroup_sock_addr,
    programs::SockAddrContext,
};
use governor_core::{
    event::{Event, kind},
    evidence::{Evidence, Noted},
    judge::Decision,
    key::{Address, EXEMPT, EndpointKey, WorkloadKey, is_loopback, loss, scoped},
    ledger::EndpointLedger,
    params::{Params, protocol},
    record::flag,
    units::{Millis, Nanos},
};

use crate::{
    caller,
    cell::MapCell,
    maps::{self, CONFIG, lost},
    policy, socket, verdict,
};

/// What a connect program returns to let the call go on.
const ALLOW: i32 = 1;
/// What it returns to refuse it.
const DENY: i32 = 0;
const SOCK_STREAM: u32 = 1;

/// An IPv4 connect.
#[cgroup_sock_addr(connect4)]
pub fn connect4(ctx: SockAddrContext) -> i32 {
    let sa = ctx.sock_addr;
    // SAFETY: the kernel's context. Each field is read by itself, 4 bytes wide:
    // merged loads are refused by the verifier.
    let ip = unsafe { core::ptr::read_volatile(&raw const (*sa).user_ip4) };
    // By words: the look-ups would wait for single bytes to be put together.
    let words = [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), ip];
    connect(sa, bytemuck::cast::<[u32; 4], Address>(words))
}

/// An IPv6 connect, IPv4-mapped addresses included.
#[cgroup_sock_addr(connect6)]
pub fn connect6(ctx: SockAddrContext) -> i32 {
    let sa = ctx.sock_addr;
    // SAFETY: as in `connect4`.
    let words = unsafe {
        [
            core::ptr::read_volatile(&raw const (*sa).user_ip6[0]),
            core::ptr::read_volatile(&raw const (*sa).user_ip6[1]),
            core::ptr::read_volatile(&raw const (*sa).user_ip6[2]),
            core::ptr::read_volatile(&raw const (*sa).user_ip6[3]),
        ]
    };
    connect(sa, bytemuck::cast::<[u32; 4], Address>(words))
}

#[inline(always)]
fn connect(sa: *mut bpf_sock_addr, address: Address) -> i32 {
    // SAFETY: as in `connect4`.
    let (kind, port) = unsafe {
        (
            core::ptr::read_volatile(&raw const (*sa).type_),
            core::ptr::read_volatile(&raw const (*sa).user_port),
        )
    };
    if kind != SOCK_STREAM {
        return ALLOW;
    }
    let Some(config) = CONFIG.get(0) else {
        return ALLOW;
    };
    if config.generation == 0 {
        return ALLOW;
    }
    let caller = caller::find(config);
    let key = EndpointKey {
        workload: caller.workload,
        address: scoped(address, namespace_of(sa, &address)),
        port: u16::from_be(port as u16) as u32,
        reserved: 0,
    };
    let Some(endpoint) = maps::endpoint(&key) else {
        return ALLOW;
    };
    if !caller.named && governor_core::cell::Cell::load(&endpoint.selection) == 0 {
        new_cgroup(&key);
    }
    let rule = policy::select(config, &caller, &key, endpoint);
    if rule == EXEMPT {
        return ALLOW;
    }
    let index = policy::index(config, rule);
    let Some(p) = policy::params(index) else {
        lost(loss::NO_POLICY);
        return ALLOW;
    };
    // SAFETY: no arguments.
    let (now, thread) = unsafe { (Nanos(bpf_ktime_get_ns()), bpf_get_current_pid_tgid()) };
    let (evidence, noted) = evidence(p, &key, endpoint, thread, now);
    let facts = verdict::facts(now, caller.workload, evidence);
    let packed = verdict::judge_connect(config, p, &raw const key, endpoint, &raw const facts);
    if packed == verdict::FAILED_OPEN {
        return ALLOW;
    }
    let group = governor_core::cell::Cell::load(&endpoint.group) as u32;
    if noted.run > 1 {
        tried(&key, group, evidence, noted.run);
    }
    let decision = Decision::unpack(packed);
    if let Decision::Deny(_) | Decision::WouldDeny(_) = decision {
        refused(&key, endpoint, packed, now);
    }
    if let Decision::Deny(_) = decision {
        // SAFETY: a plain number; the helper is allowed in connect hooks.
        unsafe { bpf_set_retval(-(p.connect_errno as i32)) };
        return DENY;
    }
    let (mut flags, mut probe_breaker, mut probe_lease) = (flag::UNUSED, 0, 0);
    if evidence.refuses() {
        flags |= flag::RETRIED;
    }
    if p.protocol == protocol::OPAQUE {
        flags |= flag::OPAQUE;
    }
    match decision {
        Decision::Probe(ticket) => {
            flags |= flag::PROBE;
            probe_breaker = ticket.breaker;
            probe_lease = ticket.lease;
        }
        Decision::WouldDeny(_) => flags |= flag::WOULD_DENY,
        Decision::Watch => flags |= flag::WATCHED,
        Decision::Go | Decision::Deny(_) => {}
    }
    // SAFETY: the kernel's context; null only for sockets that are gone.
    let sk = unsafe { (*sa).__bindgen_anon_1.sk };
    if sk.is_null() {
        lost(loss::NO_RECORD);
        return ALLOW;
    }
    // SAFETY: not null, from the kernel.
    let Some(record) = (unsafe { socket::record_or_new(sk) }) else {
        lost(loss::NO_RECORD);
        return ALLOW;
    };
    let in_flight = flags & (flag::WOULD_DENY | flag::WATCHED) == 0;
    record.begin(&key);
    record.connected_at = now.0;
    record.entered = if in_flight { now.0 } else { 0 };
    record.thread = thread;
    record.thread_attempt = noted.number;
    record.group = group;
    record.rule = index;
    record.flags = flags;
    record.probe_breaker = probe_breaker;
    record.probe_lease = probe_lease;
    ALLOW
}

/// The network namespace of a connect to loopback, by its cookie; 0 is the
/// host's own, and any other destination.
#[inline(always)]
fn namespace_of(sa: *mut bpf_sock_addr, address: &Address) -> u64 {
    let [high, low] = bytemuck::cast::<Address, [u64; 2]>(*address);
    if !is_loopback(high, low) {
        return 0;
    }
    // SAFETY: the kernel's context; without one the helper tells of the host's.
    let (ours, host) = unsafe {
        (
            bpf_get_netns_cookie(sa.cast()),
            bpf_get_netns_cookie(core::ptr::null_mut()),
        )
    };
    if ours == host { 0 } else { ours }
}

/// Tells of a denial, audit's too: one event a second and endpoint, the counts say how many.
#[inline(never)]
fn refused(key: &EndpointKey, endpoint: &EndpointLedger<MapCell>, packed: u64, now: Nanos) {
    if endpoint.denials() != 1 {
        return;
    }
    let (kind, reason) = match Decision::unpack(packed) {
        Decision::Deny(reason) => (kind::DENIED, reason),
        Decision::WouldDeny(reason) => (kind::WOULD_DENY, reason),
        _ => return,
    };
    let thread = bpf_get_current_pid_tgid();
    maps::tell(Event {
        at: now.0,
        endpoint: *key,
        kind,
        what: reason as u32,
        group: governor_core::cell::Cell::load(&endpoint.group) as u32,
        pid: (thread >> 32) as u32,
        count: endpoint.denials(),
        until: endpoint.breaker.view().deadline.0,
    });
}

/// Asks the daemon to name the caller's cgroup: once per endpoint.
#[inline(never)]
fn new_cgroup(key: &EndpointKey) {
    // SAFETY: no arguments.
    let (at, thread) = unsafe { (bpf_ktime_get_ns(), bpf_get_current_pid_tgid()) };
    maps::tell(Event {
        at,
        endpoint: *key,
        kind: kind::NEW_CGROUP,
        what: 0,
        group: 0,
        pid: (thread >> 32) as u32,
        count: 0,
        until: 0,
    });
}

/// What is known about this connect: the thread's own history, else a failure
/// of its workload that no other attempt has claimed.
#[inline(always)]
fn evidence(
    p: &Params,
    key: &EndpointKey,
    endpoint: &EndpointLedger<MapCell>,
    thread: u64,
    now: Nanos,
) -> (Evidence, Noted) {
    let stamp = now.stamp();
    let window = Millis(p.evidence_window);
    let noted = match maps::thread(&thread) {
        Some(history) => history.attempt(key.hash(), stamp, window),
        None => Noted {
            repeats: false,
            number: 0,
            run: 1,
        },
    };
    let claimed = endpoint.claims.claim(stamp, window);
    if noted.repeats {
        (Evidence::Thread, noted)
    } else if claimed {
        (Evidence::Inferred, noted)
    } else {
        (Evidence::None, noted)
    }
}

/// An operation of the caller's is, or may be, tried again. Only after a
/// failure, so that it costs nothing where all is well.
#[inline(never)]
fn tried(key: &EndpointKey, group: u32, evidence: Evidence, number: u32) {
    let key = WorkloadKey {
        workload: key.workload,
        destination: key.destination(group),
    };
    let Some(workload) = maps::workload(&key) else {
        return;
    };
    if evidence.refuses() {
        workload.tried(number);
    } else {
        workload.tried_perhaps(number);
    }
}
