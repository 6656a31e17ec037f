//! The maps, by writer: policy (daemon), ledgers (kernel), orders (daemon).

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    btf_maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf, SkStorage},
    macros::{btf_map, map},
    maps::lpm_trie::{Key, LpmTrie},
};
use governor_core::{
    calm::{self, Trouble},
    cell::Cell as _,
    chain::Chain,
    event::Event,
    evidence::ThreadHistory,
    key::{
        CgroupEntry, ChainKey, Config, DestinationKey, EndpointKey, MAX_ENDPOINTS_OF_ONE,
        MAX_RULE_ENTRIES, MAX_RULES, OrderKey, PortKey, RuleKey, RuleValue, WorkloadKey, loss,
    },
    lease::Lease,
    ledger::{DestinationLedger, EndpointLedger, WorkloadLedger},
    order::Order,
    params::Params,
    record::Record,
};

use crate::cell::MapCell;

/// Ledgers are not preallocated: most nodes use few. An entry that the daemon
/// collects may be another's at once (since Linux 6.1 such maps reuse their memory),
/// under a program that has just found it: a microsecond, in a ledger that nobody
/// has used for minutes.
const LAZY: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
pub static ENDPOINTS: HashMap<EndpointKey, EndpointLedger<MapCell>, 16384, LAZY> = HashMap::new();
#[btf_map]
pub static WORKLOADS: HashMap<WorkloadKey, WorkloadLedger<MapCell>, 16384, LAZY> = HashMap::new();
#[btf_map]
pub static DESTINATIONS: HashMap<DestinationKey, DestinationLedger<MapCell>, 16384, LAZY> =
    HashMap::new();
#[btf_map]
pub static LEASES: HashMap<DestinationKey, Lease<MapCell>, 16384, LAZY> = HashMap::new();
#[btf_map]
pub static QUOTAS: HashMap<u64, MapCell, 16384, LAZY> = HashMap::new();
#[btf_map]
pub static THREADS: LruHashMap<u64, ThreadHistory<MapCell>, 16384> = LruHashMap::new();
#[btf_map]
pub static CHAINS: LruHashMap<ChainKey, Chain<MapCell>, 65536> = LruHashMap::new();
#[btf_map]
pub static RECORDS: SkStorage<Record> = SkStorage::new();

#[btf_map]
pub static CGROUPS: HashMap<u64, CgroupEntry, 16384, LAZY> = HashMap::new();
#[btf_map]
pub static PARAMS: Array<Params, { MAX_RULES as usize * 2 }> = Array::new();
#[btf_map]
pub static PORTS: HashMap<PortKey, u32, 8192, LAZY> = HashMap::new();
/// It takes memory by entry, and holds two generations while policies change.
#[map]
pub static RULES: LpmTrie<RuleKey, RuleValue> = LpmTrie::with_max_entries(MAX_RULE_ENTRIES * 2, 0);
#[btf_map]
pub static ORDERS: HashMap<OrderKey, Order, 4096, LAZY> = HashMap::new();
#[btf_map]
pub static CONFIG: Array<Config, 1> = Array::new();

/// When something last went wrong, by workload and destination ([`crate::calm`]).
#[btf_map]
pub static TROUBLE: Array<Trouble<MapCell>, { calm::WORDS as usize }> = Array::new();

#[btf_map]
pub static PACED: HashMap<u32, u32, 1024, LAZY> = HashMap::new();

#[btf_map]
pub static EVENTS: RingBuf<Event, 262144> = RingBuf::new();
#[btf_map]
pub static LOSSES: PerCpuArray<u64, { loss::ALL as usize }> = PerCpuArray::new();

/// Listeners of this CPU's last server sockets ([`crate::adopt`]), by port.
#[btf_map]
pub static LISTENING: PerCpuArray<Listening, { LISTENERS as usize }> = PerCpuArray::new();

/// How many are remembered.
pub const LISTENERS: u32 = 64;

/// A cgroup that has a listener at a port.
#[repr(C)]
pub struct Listening {
    /// Its id.
    pub cgroup: u64,
    /// Believed until then, jiffies.
    pub until: u64,
    /// The port.
    pub port: u32,
    /// Zero.
    pub reserved: u32,
}

/// Zeroes to create ledgers from: a ledger does not fit on a program's stack.
#[btf_map]
pub static BLANK: Array<Blank, 1> = Array::new();

/// As large as the largest ledger.
#[repr(C)]
pub struct Blank([u64; 256]);

const _: () = assert!(
    size_of::<EndpointLedger<MapCell>>() <= size_of::<Blank>()
        && size_of::<WorkloadLedger<MapCell>>() <= size_of::<Blank>()
        && size_of::<DestinationLedger<MapCell>>() <= size_of::<Blank>(),
    "a blank must be as large as the largest ledger"
);

/// Counts a [`loss`]. Traffic passes.
#[inline(always)]
pub fn lost(which: u32) {
    if let Some(count) = LOSSES.get_ptr_mut(which) {
        // SAFETY: a slot of this CPU; a program that interrupts us may make one
        // count vanish, and this is a count of what went wrong.
        unsafe { *count += 1 };
    }
}

/// Looks a ledger up, and creates it of zeroes if it is new.
macro_rules! find_or_create {
    ($name:ident, $map:ident, $key:ty, $value:ident) => {
        /// The ledger, created if new; `None` if the map is full (counted).
        #[inline(always)]
        pub fn $name(key: &$key) -> Option<&'static $value<MapCell>> {
            // SAFETY: entries are only changed through their atomic words, and the
            // memory of removed ones stays the map's while this program runs.
            if let Some(found) = unsafe { $map.get(key) } {
                return Some(found);
            }
            let blank = BLANK.get_ptr(0)?;
            // SAFETY: the blank is at least as large as the ledger (asserted),
            // aligned to 8 and never written. Two CPUs may create the same
            // ledger: NOEXIST makes the second keep the first's.
            let _ = unsafe {
                aya_ebpf::helpers::bpf_map_update_elem(
                    core::ptr::from_ref(&$map).cast_mut().cast(),
                    core::ptr::from_ref(key).cast_mut().cast(),
                    blank.cast_mut().cast(),
                    BPF_NOEXIST as u64,
                )
            };
            // SAFETY: as above.
            let found = unsafe { $map.get(key) };
            if found.is_none() {
                lost(loss::LEDGER_FULL);
            }
            found
        }
    };
}

find_or_create!(new_endpoint, ENDPOINTS, EndpointKey, EndpointLedger);
find_or_create!(workload, WORKLOADS, WorkloadKey, WorkloadLedger);
find_or_create!(destination, DESTINATIONS, DestinationKey, DestinationLedger);
find_or_create!(lease, LEASES, DestinationKey, Lease);
find_or_create!(thread, THREADS, u64, ThreadHistory);
find_or_create!(chain, CHAINS, ChainKey, Chain);

/// The ledger of an endpoint, created if new and within its workload's quota.
#[inline(always)]
pub fn endpoint(key: &EndpointKey) -> Option<&'static EndpointLedger<MapCell>> {
    // SAFETY: as in `find_or_create`.
    if let Some(found) = unsafe { ENDPOINTS.get(key) } {
        return Some(found);
    }
    if !within_quota(key.workload) {
        lost(loss::LEDGER_FULL);
        return None;
    }
    new_endpoint(key)
}

/// Counts a new endpoint of a workload. The daemon corrects the count when it
/// collects what nobody uses.
#[inline(never)]
fn within_quota(workload: u64) -> bool {
    let mut tries = 0;
    while tries < 2 {
        // SAFETY: only changed through its atomic word.
        if let Some(count) = unsafe { QUOTAS.get(workload) } {
            if count.load() >= MAX_ENDPOINTS_OF_ONE {
                return false;
            }
            count.add(1);
            return true;
        }
        // Full, or another CPU was first: the second look tells.
        let _ = QUOTAS.insert(workload, MapCell::default(), BPF_NOEXIST as u64);
        tries += 1;
    }
    false
}

/// Sends an event to the daemon. A full ring loses it, and says so.
#[inline(always)]
pub fn tell(event: Event) {
    match EVENTS.reserve(0) {
        Some(mut slot) => {
            slot.write(event);
            slot.submit(0);
        }
        None => lost(loss::EVENTS),
    }
}

/// A trie key for a whole address.
#[inline(always)]
pub fn exact(key: RuleKey) -> Key<RuleKey> {
    Key::new(RuleKey::FIXED_BITS + 128, key)
}
