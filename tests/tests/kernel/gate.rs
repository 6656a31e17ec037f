//! The object attached to the callers' cgroup, with a policy, as `exec` does it.
//!
//! The offsets of `struct sock` stay unset: here the programs judge as on a kernel without BTF.

use bytemuck::Zeroable as _;
use std::fs::File;
use std::net::SocketAddr;

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::links::FdLink;
use aya::programs::{CgroupAttachMode, CgroupSkbAttachType, Program};
use governor_core::event::Event;
use governor_core::key::{
    CgroupEntry, Config, EndpointKey, RuleKey, RuleValue, WorkloadKey, map, plain,
};
use governor_core::ledger::{EndpointLedger, WorkloadLedger};
use governor_core::params::Params;
use governor_tests::cgroup::Cgroup;

use super::{Kernel, Wire};

/// Programs in the order they are attached, as the daemon does.
const HOOKS: [&str; 5] = [
    "skb_ingress",
    "skb_egress",
    "sock_ops",
    "connect6",
    "connect4",
];

/// A governed cgroup. Dropped, it is let go.
pub struct Gate {
    kernel: Kernel,
    workload: u64,
    events: RingBuf<MapData>,
    _links: Vec<FdLink>,
}

impl Gate {
    /// Governs `cgroup` (directly below the root) as one workload.
    pub fn new(mut kernel: Kernel, cgroup: &Cgroup, params: &Params) -> Self {
        kernel.set_params(params);
        // Generation 2 has its parameters at 0, where the law's entry point looks too.
        let (generation, parity, level) = (2, 0, 1);
        let every = Wire(RuleKey::new(parity, 0, 0, [0; 16]));
        let rule = Wire(RuleValue { rule: 0, group: 0 });
        let mut rules = LpmTrie::try_from(kernel.0.map_mut(map::RULES).unwrap()).unwrap();
        rules
            .insert(&Key::new(RuleKey::FIXED_BITS, every), rule, 0)
            .unwrap();
        let workload = cgroup.id();
        let entry = CgroupEntry {
            workload,
            class: [0; 2],
            level,
            reserved: 0,
        };
        let mut cgroups = kernel.table_mut::<u64, CgroupEntry>(map::CGROUPS);
        cgroups.insert(Wire(workload), Wire(entry), 0).unwrap();
        let config = Config {
            generation,
            level,
            ..Config::zeroed()
        };
        let mut configs = Array::try_from(kernel.0.map_mut(map::CONFIG).unwrap()).unwrap();
        configs.set(0, Wire(config), 0).unwrap();
        let events = RingBuf::try_from(kernel.0.take_map(map::EVENTS).unwrap()).unwrap();
        let directory = File::open(cgroup.path()).unwrap();
        let links = HOOKS.map(|hook| attach(&mut kernel, hook, &directory));
        Self {
            kernel,
            workload,
            events,
            _links: links.into(),
        }
    }

    /// The object.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The workload's ledger of an endpoint.
    pub fn endpoint(&self, address: SocketAddr) -> EndpointLedger {
        self.kernel.read(map::ENDPOINTS, self.key(address))
    }

    /// The workload's ledger of a destination.
    pub fn workload(&self, address: SocketAddr) -> WorkloadLedger {
        let key = WorkloadKey {
            workload: self.workload,
            destination: self.key(address).destination(0),
        };
        self.kernel.read(map::WORKLOADS, key)
    }

    /// A count of the workload at a destination, by [`governor_core::ledger::count`].
    pub fn count(&self, address: SocketAddr, which: usize) -> u64 {
        self.workload(address).counts[which]
    }

    /// What the programs told since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(bytes) = self.events.next() {
            events.push(bytemuck::pod_read_unaligned(&bytes));
        }
        events
    }

    fn key(&self, address: SocketAddr) -> EndpointKey {
        let ip = match address {
            SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
            SocketAddr::V6(v6) => *v6.ip(),
        };
        let key = EndpointKey {
            workload: self.workload,
            address: ip.octets(),
            port: address.port().into(),
            reserved: 0,
        };
        // Loopback is kept by network namespace.
        let named = |kept: &EndpointKey| EndpointKey {
            address: plain(kept.address),
            ..*kept
        };
        let kept = self
            .kernel
            .keys::<EndpointKey, EndpointLedger>(map::ENDPOINTS);
        kept.into_iter()
            .find(|kept| named(kept) == key)
            .unwrap_or(key)
    }
}

fn attach(kernel: &mut Kernel, hook: &str, cgroup: &File) -> FdLink {
    let mode = CgroupAttachMode::default();
    match kernel.0.program_mut(hook).unwrap() {
        Program::CgroupSockAddr(program) => {
            let id = program.attach(cgroup, mode).unwrap();
            program.take_link(id).unwrap().try_into().unwrap()
        }
        Program::SockOps(program) => {
            let id = program.attach(cgroup, mode).unwrap();
            program.take_link(id).unwrap().try_into().unwrap()
        }
        Program::CgroupSkb(program) => {
            let direction = match hook {
                "skb_ingress" => CgroupSkbAttachType::Ingress,
                _ => CgroupSkbAttachType::Egress,
            };
            let id = program.attach(cgroup, direction, mode).unwrap();
            program.take_link(id).unwrap().try_into().unwrap()
        }
        _ => panic!("program {hook} is of an unexpected type"),
    }
}
