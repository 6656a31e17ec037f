//! Reading the ledgers, and forgetting those that nobody uses.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use aya::maps::{IterableMap as _, MapError, RingBuf};
use bytemuck::Pod;
use governor_core::key::{
    DestinationKey, EndpointKey, OrderKey, Selection, WorkloadKey, loss, map,
};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::order::Order;
use governor_core::units::{Millis, Nanos};

use super::maps::{Table, Wire, map_failed};
use super::sample::{Sample, Sparse};
use super::{Governor, now};
use crate::errors::{Failure, Result};

/// A copy of every ledger. Not of one instant: each entry is read on its own.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When the reading began.
    pub at: Nanos,
    /// Policy generation in force.
    pub generation: u32,
    /// Workload x ip:port.
    pub endpoints: Vec<(EndpointKey, EndpointLedger)>,
    /// Workload x destination.
    pub workloads: Vec<(WorkloadKey, WorkloadLedger)>,
    /// Destinations.
    pub destinations: Vec<(DestinationKey, DestinationLedger)>,
    /// Orders, expired ones too.
    pub orders: Vec<(OrderKey, Order)>,
    /// Attempts the programs could not judge, by [`loss`].
    pub losses: [u64; loss::ALL as usize],
    /// How full the maps are.
    pub fill: Vec<Fill>,
}

/// How full a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The map.
    pub map: &'static str,
    /// Entries in it.
    pub entries: usize,
    /// Entries it can hold.
    pub capacity: u32,
}

impl Governor {
    /// Reads every ledger.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let maps = &self.maps;
        let (endpoints, endpoint_fill) = read(map::ENDPOINTS, &maps.endpoints)?;
        let (workloads, workload_fill) = read(map::WORKLOADS, &maps.workloads)?;
        let (destinations, destination_fill) = read(map::DESTINATIONS, &maps.destinations)?;
        let (_, lease_fill) = read(map::LEASES, &maps.leases)?;
        let (_, cgroup_fill) = read(map::CGROUPS, &maps.cgroups)?;
        Ok(Snapshot {
            at: now(),
            generation: self.config.generation,
            endpoints,
            workloads,
            destinations,
            orders: self.orders(),
            losses: self.losses()?,
            fill: vec![
                endpoint_fill,
                workload_fill,
                destination_fill,
                lease_fill,
                cgroup_fill,
            ],
        })
    }

    /// Reads the ledgers of workloads.
    pub fn workloads(&self) -> Result<Vec<(WorkloadKey, WorkloadLedger)>> {
        Ok(read(map::WORKLOADS, &self.maps.workloads)?.0)
    }

    /// Reads what is counted, and keeps no whole ledger.
    pub fn counted(&self) -> Result<Sample> {
        let maps = &self.maps;
        Ok(Sample {
            workloads: read_part(map::WORKLOADS, &maps.workloads, Sparse::counts)?,
            destinations: read_part(map::DESTINATIONS, &maps.destinations, Sparse::latencies)?,
            at: now(),
        })
    }

    /// Attempts the programs could not judge, summed over the CPUs, by [`loss`].
    pub fn losses(&self) -> Result<[u64; loss::ALL as usize]> {
        let mut losses = [0; loss::ALL as usize];
        for (index, sum) in (0..).zip(&mut losses) {
            let values = self.maps.losses.get(&index, 0);
            let values = values.map_err(|error| map_failed(map::LOSSES, error))?;
            *sum = values.iter().sum();
        }
        Ok(losses)
    }

    /// The ring of events. There is one reader: the second call fails.
    pub fn events(&mut self) -> Result<RingBuf<aya::maps::MapData>> {
        let map = self.maps.events.take();
        let map = map.ok_or_else(|| Failure::failed("events", "another reader has them"))?;
        RingBuf::try_from(map).map_err(|error| map_failed(map::EVENTS, error))
    }

    /// Forgets ledgers that nothing has touched for `idle`; how many went. The
    /// kernel never deletes: an evicted breaker would be a closed one.
    pub fn collect_garbage(&mut self, idle: Duration) -> Result<usize> {
        let now = now();
        let idle = Millis(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
        let stale = |touched: u64| now.stamp().quiet_for(Millis(touched), idle);
        let busy = |ledger: &WorkloadLedger| ledger.view().limiter.in_flight(now) > 0;
        let maps = &mut self.maps;
        let gone = [
            forget(map::ENDPOINTS, &mut maps.endpoints, |ledger| {
                stale(ledger.touched)
            })?,
            forget(map::WORKLOADS, &mut maps.workloads, |ledger| {
                stale(ledger.touched) && !busy(ledger)
            })?,
            forget(map::DESTINATIONS, &mut maps.destinations, |ledger| {
                stale(ledger.touched)
            })?,
            forget(map::LEASES, &mut maps.leases, |lease: &Lease| {
                stale(lease.view().touched().0)
            })?,
        ];
        self.correct_quotas()?;
        Ok(gone.iter().sum())
    }

    /// Tells the kernel how many endpoints each workload has left. One that is
    /// created meanwhile is missed until the next time.
    fn correct_quotas(&mut self) -> Result<()> {
        let (endpoints, _) = read(map::ENDPOINTS, &self.maps.endpoints)?;
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for (key, _) in endpoints {
            *counts.entry(key.workload).or_default() += 1;
        }
        let (quotas, _) = read(map::QUOTAS, &self.maps.quotas)?;
        for (workload, counted) in quotas {
            let left = counts.get(&workload).copied().unwrap_or(0);
            let done = if left == 0 {
                self.maps.quotas.remove(&Wire(workload))
            } else if left != counted {
                self.maps.quotas.insert(Wire(workload), Wire(left), 0)
            } else {
                Ok(())
            };
            match done {
                Ok(()) | Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(map_failed(map::QUOTAS, error)),
            }
        }
        Ok(())
    }
}

/// The policy that an endpoint was last judged by: index of its parameters, if
/// that generation is still in force.
pub fn selected(endpoint: &EndpointLedger, generation: u32) -> Option<u32> {
    Selection::last(&endpoint.view(), generation)
}

/// Every entry, once. When the entry that the kernel is asked to go on from is
/// deleted it starts over from the first, so the walk is bounded, and a key
/// that comes twice counts once.
fn read<K, V>(name: &'static str, table: &Table<K, V>) -> Result<(Vec<(K, V)>, Fill)>
where
    K: Pod + Eq + Hash,
    V: Pod,
{
    let capacity = capacity(name, table)?;
    let entries = read_part(name, table, |value| *value)?;
    let fill = Fill {
        map: name,
        entries: entries.len(),
        capacity,
    };
    Ok((entries.into_iter().collect(), fill))
}

/// The same, of each entry a part.
fn read_part<K, V, P>(
    name: &'static str,
    table: &Table<K, V>,
    part: impl Fn(&V) -> P,
) -> Result<HashMap<K, P>>
where
    K: Pod + Eq + Hash,
    V: Pod,
{
    let capacity = capacity(name, table)?;
    let most = usize::try_from(capacity)
        .unwrap_or(usize::MAX)
        .saturating_mul(2);
    let mut entries = HashMap::new();
    for entry in table.iter().take(most) {
        match entry {
            Ok((key, value)) => {
                entries.insert(key.0, part(&value.0));
            }
            Err(error) => return Err(map_failed(name, error)),
        }
    }
    Ok(entries)
}

fn forget<K, V>(
    name: &'static str,
    table: &mut Table<K, V>,
    stale: impl Fn(&V) -> bool,
) -> Result<usize>
where
    K: Pod + Eq + Hash,
    V: Pod,
{
    let (entries, _) = read(name, table)?;
    let mut gone = 0;
    for (key, value) in entries {
        let key = Wire(key);
        // Again, right before: an attempt may have come meanwhile.
        let still = stale(&value) && table.get(&key, 0).is_ok_and(|value| stale(&value.0));
        if still && table.remove(&key).is_ok() {
            gone += 1;
        }
    }
    Ok(gone)
}

fn capacity<K: Pod, V: Pod>(name: &str, table: &Table<K, V>) -> Result<u32> {
    let info = table
        .map()
        .info()
        .map_err(|error| map_failed(name, error))?;
    Ok(info.max_entries())
}
