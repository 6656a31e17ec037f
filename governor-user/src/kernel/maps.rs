//! The maps, typed.

use aya::Ebpf;
use aya::maps::lpm_trie::LpmTrie;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use bytemuck::Pod;
use governor_core::key::{
    CgroupEntry, Config, DestinationKey, EndpointKey, OrderKey, PortKey, RuleKey, RuleValue,
    WorkloadKey, map,
};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::order::Order;
use governor_core::params::Params;

use crate::errors::{Failure, Result, causes};

/// A value as it lies in a map. A type of ours around types of governor-core:
/// neither the trait nor those are of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(super) struct Wire<T>(pub T);

// SAFETY: transparent around a bytemuck::Pod, which has no padding and for
// which every bit pattern is a value.
unsafe impl<T: Pod> aya::Pod for Wire<T> {}

/// A hash map of ours.
pub(super) type Table<K, V> = HashMap<MapData, Wire<K>, Wire<V>>;

/// Every map that user space touches.
pub(super) struct Maps {
    pub endpoints: Table<EndpointKey, EndpointLedger>,
    pub workloads: Table<WorkloadKey, WorkloadLedger>,
    pub destinations: Table<DestinationKey, DestinationLedger>,
    pub leases: Table<DestinationKey, Lease>,
    pub quotas: Table<u64, u64>,
    pub cgroups: Table<u64, CgroupEntry>,
    pub params: Array<MapData, Wire<Params>>,
    pub ports: Table<PortKey, u32>,
    pub rules: LpmTrie<MapData, Wire<RuleKey>, Wire<RuleValue>>,
    pub orders: Table<OrderKey, Order>,
    pub config: Array<MapData, Wire<Config>>,
    pub losses: PerCpuArray<MapData, u64>,
    /// Of the executor: ifindex to 1, where a packet may be delayed.
    pub paced: HashMap<MapData, u32, u32>,
    /// Taken by whoever reads events.
    pub events: Option<Map>,
    /// Held so that it stays pinned and alive; only the kernel reads these.
    _kernel_only: Vec<Map>,
}

impl Maps {
    /// Takes the maps out of a loaded object.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            endpoints: take(ebpf, map::ENDPOINTS)?,
            workloads: take(ebpf, map::WORKLOADS)?,
            destinations: take(ebpf, map::DESTINATIONS)?,
            leases: take(ebpf, map::LEASES)?,
            quotas: take(ebpf, map::QUOTAS)?,
            cgroups: take(ebpf, map::CGROUPS)?,
            params: take(ebpf, map::PARAMS)?,
            ports: take(ebpf, map::PORTS)?,
            rules: take(ebpf, map::RULES)?,
            orders: take(ebpf, map::ORDERS)?,
            config: take(ebpf, map::CONFIG)?,
            losses: take(ebpf, map::LOSSES)?,
            paced: take(ebpf, map::PACED)?,
            events: ebpf.take_map(map::EVENTS),
            _kernel_only: [map::THREADS, map::CHAINS, map::RECORDS, map::TROUBLE]
                .into_iter()
                .filter_map(|name| ebpf.take_map(name))
                .collect(),
        })
    }
}

fn take<T: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<T> {
    let map = ebpf
        .take_map(name)
        .ok_or_else(|| broken(name, "the object has no such map"))?;
    T::try_from(map).map_err(|error| broken(name, error))
}

/// The embedded object and this binary were built apart: never on a user's machine.
fn broken(name: &str, why: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("map {name}"), why).hint("rebuild retry-governor")
}

/// An operation on a map that failed.
pub(super) fn map_failed(name: &str, error: MapError) -> Failure {
    match &error {
        // Hash maps say the one, tries the other.
        MapError::SyscallError(call)
            if matches!(
                call.io_error.raw_os_error(),
                Some(libc::E2BIG | libc::ENOSPC)
            ) =>
        {
            Failure::failed(format!("map {name}"), "it is full")
        }
        _ => Failure::failed(format!("map {name}"), causes(&error)),
    }
}
