//! The object that ships, loaded by a test: its programs, its maps, and its law one step at a time.
#![allow(dead_code, reason = "each test file uses a part")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what a test needs and cannot have fails it"
)]

pub mod executor;
pub mod gate;
pub mod hammer;
pub mod host;
pub mod policies;
pub mod shipped;
pub mod spending;
pub mod trace;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::{Program, ProgramError, ProgramInfo, SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use bytemuck::{Pod, Zeroable};
use governor_core::key::{DestinationKey, EndpointKey, OrderKey, WorkloadKey, map};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::order::Order;
use governor_core::params::Params;
use governor_core::trace::Step;
use governor_tests::preflight;
use nix::time::ClockId;

/// The two workloads of a trace.
pub const WORKLOADS: [u64; 2] = [1, 2];

/// The program that is the law's entry point.
const LAW: &str = "law";
/// The step follows an Ethernet header (governor-ebpf/src/law.rs).
const ETHERNET: usize = 14;
const PACKET: usize = ETHERNET + size_of::<Step>();

/// CLOCK_MONOTONIC, as the programs read it, ns.
pub fn now() -> u64 {
    let now = ClockId::CLOCK_MONOTONIC.now().unwrap();
    u64::try_from(std::time::Duration::from(now).as_nanos()).unwrap()
}

/// A value as it lies in a map.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Wire<T>(pub T);

// SAFETY: transparent around a bytemuck::Pod, which has no padding and for which every bit pattern is
// a value.
unsafe impl<T: Pod> aya::Pod for Wire<T> {}

/// The loaded object. Dropped, everything of it is gone.
pub struct Kernel(Ebpf);

/// The law in the kernel.
#[derive(Clone, Copy)]
pub struct Law<'a>(&'a SchedClassifier);

impl Kernel {
    /// Loads every program; the verifier has accepted them all.
    pub fn load() -> Self {
        Self::with_capacities(&[])
    }

    /// The same with other sizes of some maps.
    pub fn with_capacities(sizes: &[(&'static str, u32)]) -> Self {
        Self::verified(sizes, |_| true)
    }

    /// Loads the law's entry point only, which takes a fifth of the time.
    pub fn law_alone(params: &Params) -> Self {
        let mut kernel = Self::verified(&[], |name| name == LAW);
        kernel.set_params(params);
        kernel
    }

    fn verified(sizes: &[(&'static str, u32)], wanted: impl Fn(&str) -> bool) -> Self {
        preflight::require_kernel();
        let mut loader = EbpfLoader::new();
        for (name, size) in sizes {
            loader.map_max_entries(name, *size);
        }
        let mut ebpf = loader.load(shipped::object()).unwrap();
        for (name, program) in ebpf.programs_mut().filter(|(name, _)| wanted(name)) {
            load(program).unwrap_or_else(|error| panic!("program {name}: {error:?}"));
        }
        Self(ebpf)
    }

    /// Every program with what the kernel says of it.
    pub fn programs(&self) -> Vec<(String, ProgramInfo)> {
        let programs = self.0.programs();
        programs
            .map(|(name, program)| (name.to_owned(), info(program).unwrap()))
            .collect()
    }

    /// The law's entry point.
    pub fn law(&self) -> Law<'_> {
        Law(self.0.program(LAW).unwrap().try_into().unwrap())
    }

    /// Sets the parameters that the law's entry point uses.
    pub fn set_params(&mut self, params: &Params) {
        let map = self.0.map_mut(map::PARAMS).unwrap();
        let mut array = Array::try_from(map).unwrap();
        array.set(0, Wire(*params), 0).unwrap();
    }

    /// Sets the order for the node, or takes it back.
    pub fn set_order(&mut self, order: Option<&Order>) {
        let key = Wire(OrderKey::zeroed());
        let mut orders = self.table_mut::<OrderKey, Order>(map::ORDERS);
        match order {
            Some(order) => orders.insert(key, Wire(*order), 0).unwrap(),
            // There may be none.
            None => drop(orders.remove(&key)),
        }
    }

    /// Removes every ledger.
    pub fn forget(&mut self) {
        self.empty::<EndpointKey, EndpointLedger>(map::ENDPOINTS);
        self.empty::<WorkloadKey, WorkloadLedger>(map::WORKLOADS);
        self.empty::<DestinationKey, DestinationLedger>(map::DESTINATIONS);
        self.empty::<DestinationKey, Lease>(map::LEASES);
    }

    /// An entry of a map; zeroes where there is none.
    pub fn read<K: Pod, V: Pod>(&self, name: &str, key: K) -> V {
        self.table::<K, V>(name)
            .get(&Wire(key), 0)
            .map_or_else(|_| V::zeroed(), |value| value.0)
    }

    /// The keys of a map.
    pub fn keys<K: Pod, V: Pod>(&self, name: &str) -> Vec<K> {
        let keys = self.table::<K, V>(name);
        keys.keys().map(|key| key.unwrap().0).collect()
    }

    fn table<K: Pod, V: Pod>(&self, name: &str) -> HashMap<&MapData, Wire<K>, Wire<V>> {
        self.0.map(name).unwrap().try_into().unwrap()
    }

    /// How often something went wrong, by [`governor_core::key::loss`], on all CPUs.
    pub fn losses(&self, which: u32) -> u64 {
        let map = self.0.map(map::LOSSES).unwrap();
        let losses: PerCpuArray<&MapData, u64> = map.try_into().unwrap();
        losses.get(&which, 0).unwrap().iter().sum()
    }

    fn table_mut<K: Pod, V: Pod>(&mut self, name: &str) -> HashMap<&mut MapData, Wire<K>, Wire<V>> {
        self.0.map_mut(name).unwrap().try_into().unwrap()
    }

    fn empty<K: Pod, V: Pod>(&mut self, name: &str) {
        let mut table = self.table_mut::<K, V>(name);
        let keys: Vec<_> = table.keys().map(Result::unwrap).collect();
        for key in keys {
            table.remove(&key).unwrap();
        }
    }
}

impl Law<'_> {
    /// Runs a step; what came out.
    pub fn run(self, step: &Step) -> u64 {
        let mut packet = [0; PACKET];
        packet[ETHERNET..].copy_from_slice(bytemuck::bytes_of(step));
        let mut out = [0; PACKET];
        let options = TestRunOptions {
            data_in: Some(&packet),
            data_out: Some(&mut out),
            ..TestRunOptions::default()
        };
        let ran = self.0.test_run(options).unwrap();
        assert_eq!(ran.return_value, 0, "the law's entry point did not run");
        bytemuck::pod_read_unaligned::<Step>(&out[ETHERNET..]).result
    }
}

/// The ledgers of a trace, as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books(pub Vec<(String, Vec<u64>)>);

impl Books {
    /// Collects ledgers: endpoint and workload of both workloads, the destination, the lease.
    pub fn of(
        workloads: [(EndpointLedger, WorkloadLedger); 2],
        destination: DestinationLedger,
        lease: Lease,
    ) -> Self {
        let mut books = Vec::new();
        for (number, (endpoint, workload)) in WORKLOADS.into_iter().zip(workloads) {
            books.push((format!("endpoint {number}"), words(&endpoint)));
            books.push((format!("workload {number}"), words(&workload)));
        }
        books.push(("destination".to_owned(), words(&destination)));
        books.push(("lease".to_owned(), words(&lease)));
        Self(books)
    }

    /// Those of the kernel.
    pub fn of_kernel(kernel: &Kernel) -> Self {
        let key = |workload| EndpointKey {
            workload,
            address: [0; 16],
            port: 1,
            reserved: 0,
        };
        let destination = key(0).destination(0);
        let workloads = WORKLOADS.map(|workload| {
            let of_workload = WorkloadKey {
                workload,
                destination,
            };
            (
                kernel.read(map::ENDPOINTS, key(workload)),
                kernel.read(map::WORKLOADS, of_workload),
            )
        });
        Self::of(
            workloads,
            kernel.read(map::DESTINATIONS, destination),
            kernel.read(map::LEASES, destination),
        )
    }

    /// Where two sets of ledgers differ, in words for a person.
    pub fn differences(&self, host: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for ((name, kernel), (_, host)) in self.0.iter().zip(&host.0) {
            for (word, (kernel, host)) in kernel.iter().zip(host).enumerate() {
                if kernel != host {
                    found.push(format!(
                        "{name}, word {word}: kernel {kernel:#x}, host {host:#x}"
                    ));
                }
            }
        }
        found
    }
}

fn words<T: Pod>(ledger: &T) -> Vec<u64> {
    bytemuck::cast_slice(bytemuck::bytes_of(ledger)).to_vec()
}

fn load(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.load(),
        Program::SockOps(program) => program.load(),
        Program::CgroupSkb(program) => program.load(),
        Program::SchedClassifier(program) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

fn info(program: &Program) -> Result<ProgramInfo, ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.info(),
        Program::SockOps(program) => program.info(),
        Program::CgroupSkb(program) => program.info(),
        Program::SchedClassifier(program) => program.info(),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}
