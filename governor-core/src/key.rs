//! Keys and values of the maps, as laid out in memory.

use bytemuck::{Pod, Zeroable};

use crate::ledger::EndpointLedger;

/// Longest map names are 15 bytes: the kernel cuts the rest.
pub mod map {
    /// [`super::EndpointKey`] to `EndpointLedger`.
    pub const ENDPOINTS: &str = "ENDPOINTS";
    /// [`super::WorkloadKey`] to `WorkloadLedger`.
    pub const WORKLOADS: &str = "WORKLOADS";
    /// [`super::DestinationKey`] to `DestinationLedger`.
    pub const DESTINATIONS: &str = "DESTINATIONS";
    /// [`super::DestinationKey`] (group 0) to `Lease`.
    pub const LEASES: &str = "LEASES";
    /// Thread id to `ThreadHistory`.
    pub const THREADS: &str = "THREADS";
    /// Cgroup id of a workload to the number of its endpoints.
    pub const QUOTAS: &str = "QUOTAS";
    /// Cgroup id to [`super::CgroupEntry`].
    pub const CGROUPS: &str = "CGROUPS";
    /// Index to `Params`; two generations of [`super::MAX_RULES`].
    pub const PARAMS: &str = "PARAMS";
    /// [`super::PortKey`] to port class.
    pub const PORTS: &str = "PORTS";
    /// [`super::RuleKey`] to [`super::RuleValue`], longest prefix first.
    pub const RULES: &str = "RULES";
    /// [`super::OrderKey`] to `Order`.
    pub const ORDERS: &str = "ORDERS";
    /// Index 0: [`super::Config`].
    pub const CONFIG: &str = "CONFIG";
    /// Ring of `Event`.
    pub const EVENTS: &str = "EVENTS";
    /// Per-CPU counts of [`super::loss`].
    pub const LOSSES: &str = "LOSSES";
    /// [`super::ChainKey`] to `Chain`, least recently used ones lost.
    pub const CHAINS: &str = "CHAINS";
    /// Indexes of devices whose queue holds packets back until their time (fq).
    pub const PACED: &str = "PACED";
    /// Socket storage: `Record`.
    pub const RECORDS: &str = "RECORDS";
    /// Hash of a [`super::WorkloadKey`] to `Trouble`.
    pub const TROUBLE: &str = "TROUBLE";
}

/// Policies at most.
pub const MAX_RULES: u32 = 1024;
/// Entries of one generation of [`map::RULES`] at most (about 25 MB).
pub const MAX_RULE_ENTRIES: u32 = 262_144;
/// Endpoints of one workload at most: what it contacts beyond passes unseen,
/// so that a workload which contacts the whole network fills only its own part
/// of the map.
pub const MAX_ENDPOINTS_OF_ONE: u64 = 2048;
/// A rule that says: leave alone.
pub const EXEMPT: u32 = u32::MAX;

/// An IP address: IPv4 as `::ffff:a.b.c.d`.
pub type Address = [u8; 16];

/// A loopback address of one network namespace: 127.0.0.1 in two pods is two
/// places, which must not share a budget or a probe. Other addresses, and those
/// of the host's own namespace (`namespace` 0), stay as they are.
///
/// The namespace's cookie goes where a loopback address is all zero, behind a
/// first byte of 0xff: no TCP destination begins so, it is multicast.
#[inline(always)]
pub fn scoped(address: Address, namespace: u64) -> Address {
    let [high, low] = bytemuck::cast::<Address, [u64; 2]>(address);
    if namespace == 0 || !is_loopback(high, low) {
        return address;
    }
    let mark = (0xff << 56 | namespace & COOKIE).to_be();
    bytemuck::cast::<[u64; 2], Address>([mark, low])
}

/// As much of a namespace's cookie as a key holds.
pub const COOKIE: u64 = 0x00ff_ffff_ffff_ffff;

/// The cookie of the network namespace that [`scoped`] put into an address; 0:
/// none, it is the host's, or the address is not loopback. 56 bits of it.
pub fn namespace(address: Address) -> u64 {
    let [high, low] = bytemuck::cast::<Address, [u64; 2]>(address);
    let high = u64::from_be(high);
    if high >> 56 == 0xff && is_loopback(0, low) {
        high & COOKIE
    } else {
        0
    }
}

/// The address without its namespace: what policies and people name.
#[inline(always)]
pub fn plain(address: Address) -> Address {
    let [high, low] = bytemuck::cast::<Address, [u64; 2]>(address);
    if u64::from_be(high) >> 56 == 0xff && is_loopback(0, low) {
        return bytemuck::cast::<[u64; 2], Address>([0, low]);
    }
    address
}

/// `127.0.0.0/8` (IPv4-mapped) or `::1`, as two words in network order.
#[inline(always)]
pub const fn is_loopback(high: u64, low: u64) -> bool {
    let low = u64::from_be(low);
    high == 0 && (low == 1 || low >> 24 == 0x00ff_ff7f)
}

/// Who calls which ip:port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct EndpointKey {
    /// Cgroup id of the workload.
    pub workload: u64,
    /// Where to.
    pub address: Address,
    /// Port, host order.
    pub port: u32,
    /// Zero.
    pub reserved: u32,
}

/// A destination: a group that a policy names, else a single ip:port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct DestinationKey {
    /// The address; zero for a group.
    pub address: Address,
    /// The port, host order; zero for a group.
    pub port: u32,
    /// The group; zero for a single ip:port.
    pub group: u32,
}

/// Who calls which destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct WorkloadKey {
    /// Cgroup id of the workload.
    pub workload: u64,
    /// Which destination.
    pub destination: DestinationKey,
}

/// Requests of one workload to one destination that are equal, or that name
/// the same operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct ChainKey {
    /// Whose, and where to.
    pub workload: WorkloadKey,
    /// The fingerprint, or the hash of the operation's name.
    pub hash: u64,
}

impl EndpointKey {
    /// The destination this endpoint belongs to.
    #[inline(always)]
    pub const fn destination(&self, group: u32) -> DestinationKey {
        if group == 0 {
            DestinationKey {
                address: self.address,
                port: self.port,
                group: 0,
            }
        } else {
            DestinationKey {
                address: [0; 16],
                port: 0,
                group,
            }
        }
    }

    /// A number for the endpoint, equal for equal endpoints (FNV-1a by words).
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        let [high, low] = bytemuck::cast::<Address, [u64; 2]>(self.address);
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        hash = (hash ^ self.workload).wrapping_mul(0x0100_0000_01b3);
        hash = (hash ^ high).wrapping_mul(0x0100_0000_01b3);
        hash = (hash ^ low).wrapping_mul(0x0100_0000_01b3);
        (hash ^ self.port as u64).wrapping_mul(0x0100_0000_01b3)
    }
}

/// What a cgroup is. Written by the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CgroupEntry {
    /// Cgroup id of the workload it belongs to; 0: it only holds workloads,
    /// each of its children is one.
    pub workload: u64,
    /// Class of the workload in the policy generations of even and odd number.
    pub class: [u32; 2],
    /// Depth below the cgroup root.
    pub level: u32,
    /// Zero.
    pub reserved: u32,
}

/// A port in one policy generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct PortKey {
    /// Generation, modulo 2.
    pub parity: u32,
    /// The port, host order.
    pub port: u32,
}

/// Key of the rule trie, after its prefix length in bits.
///
/// Class and port class count as 64 bits of the prefix; big-endian, as the
/// trie compares bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct RuleKey {
    /// Class of the workload, big-endian; the top bit is the generation, modulo 2.
    pub class: [u8; 4],
    /// Class of the port, big-endian.
    pub port_class: [u8; 4],
    /// Where to.
    pub address: Address,
}

impl RuleKey {
    /// Bits before the address.
    pub const FIXED_BITS: u32 = 64;

    /// A key of one generation.
    #[inline(always)]
    pub const fn new(parity: u32, class: u32, port_class: u32, address: Address) -> Self {
        Self {
            class: (parity << 31 | class).to_be_bytes(),
            port_class: port_class.to_be_bytes(),
            address,
        }
    }
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RuleValue {
    /// Index of its parameters, or [`EXEMPT`].
    pub rule: u32,
    /// The destination group; 0: each ip:port by itself.
    pub group: u32,
}

/// Whom an order concerns: all zero is the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct OrderKey {
    /// Cgroup id of the workload; 0: any.
    pub workload: u64,
    /// The destination; zero: any.
    pub destination: DestinationKey,
}

/// What the kernel programs need to know of their daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Config {
    /// Policy generation in force; 0: none yet, everything passes unseen.
    pub generation: u32,
    /// Orders in the map; 0 spares the look-up.
    pub orders: u32,
    /// Level of the cgroup that is governed.
    pub level: u32,
    /// Zero.
    pub reserved: u32,
    /// Until when sockets older than the governor are looked for, ns of
    /// `CLOCK_MONOTONIC`; 0: never.
    pub adopt_until: u64,
    /// When that clock was 0, s since 1970.
    pub booted: u64,
}

/// What went wrong in the kernel programs. Traffic passed.
pub mod loss {
    /// An event did not fit into the ring.
    pub const EVENTS: u32 = 0;
    /// A ledger map was full.
    pub const LEDGER_FULL: u32 = 1;
    /// A socket got no record.
    pub const NO_RECORD: u32 = 2;
    /// A policy entry was missing.
    pub const NO_POLICY: u32 = 3;
    /// A refused request could not be answered: it passed.
    pub const NOT_ANSWERED: u32 = 4;
    /// How many there are.
    pub const ALL: u32 = 5;
}

/// A policy selection kept in an endpoint's ledger, so that the trie is
/// searched once per endpoint, policy generation and class of the workload.
/// Generation 16 | class 15 | valid 1 | rule 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Policy generation it was made under, modulo 2^16.
    pub generation: u32,
    /// Class of the workload then, modulo 2^15.
    pub class: u32,
    /// Index of the parameters, or [`EXEMPT`].
    pub rule: u32,
}

const VALID: u64 = 1 << 32;

impl Selection {
    #[inline(always)]
    const fn pack(self) -> u64 {
        (self.generation as u64 & 0xffff) << 48
            | (self.class as u64 & 0x7fff) << 33
            | VALID
            | self.rule as u64
    }

    /// The rule an endpoint keeps, if it was selected under the same
    /// generation and class.
    #[inline(always)]
    pub fn kept<C: crate::cell::Cell>(
        endpoint: &EndpointLedger<C>,
        generation: u32,
        class: u32,
    ) -> Option<u32> {
        let word = endpoint.selection.load();
        let rule = word as u32;
        if word
            == (Self {
                generation,
                class,
                rule,
            })
            .pack()
        {
            Some(rule)
        } else {
            None
        }
    }

    /// The rule an endpoint was last judged by, if that was in this generation.
    #[inline(always)]
    pub fn last<C: crate::cell::Cell>(
        endpoint: &EndpointLedger<C>,
        generation: u32,
    ) -> Option<u32> {
        let word = endpoint.selection.load();
        if word & VALID != 0 && word >> 48 == generation as u64 & 0xffff {
            Some(word as u32)
        } else {
            None
        }
    }

    /// Keeps it.
    #[inline(always)]
    pub fn keep<C: crate::cell::Cell>(self, endpoint: &EndpointLedger<C>) {
        endpoint.selection.store(self.pack());
    }
}
