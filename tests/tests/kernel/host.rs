//! The law on the host, over atomics: what the kernel is compared with.

use std::sync::atomic::AtomicU64;

use governor_core::judge::Ledgers;
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::order::Order;
use governor_core::params::{Params, concurrency};
use governor_core::trace::{self, Step};

use super::{Books, WORKLOADS};

/// One ip:port and the two workloads that call it.
pub struct Host {
    /// The policy in force.
    pub params: Params,
    /// The order for the node.
    pub order: Option<Order>,
    workloads: [(EndpointLedger<AtomicU64>, WorkloadLedger<AtomicU64>); 2],
    destination: DestinationLedger<AtomicU64>,
    lease: Lease<AtomicU64>,
}

impl Host {
    /// New ledgers.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            order: None,
            workloads: Default::default(),
            destination: DestinationLedger::default(),
            lease: Lease::default(),
        }
    }

    /// Runs a step; what came out.
    pub fn run(&self, step: &Step) -> u64 {
        let number = WORKLOADS.iter().position(|it| *it == step.workload);
        let (endpoint, workload) = &self.workloads[number.unwrap()];
        let ledgers = Ledgers {
            endpoint,
            workload,
            destination: &self.destination,
            lease: Some(&self.lease),
        };
        trace::run(step, &self.params, &ledgers, self.order.as_ref())
    }

    /// Whether an adaptive limit is in force.
    pub fn limiter_is_awake(&self) -> bool {
        self.params.concurrency == concurrency::ADAPTIVE
            && self
                .workloads
                .iter()
                .any(|(_, workload)| workload.limiter.limit(&self.params).is_some())
    }

    /// The ledgers as words.
    pub fn books(&self) -> Books {
        let workloads = [0, 1].map(|number| {
            let (endpoint, workload) = &self.workloads[number];
            (plain(endpoint), plain(workload))
        });
        Books::of(workloads, plain(&self.destination), plain(&self.lease))
    }
}

/// A ledger of atomics as one of words.
fn plain<A, P: bytemuck::Pod>(atomics: &A) -> P {
    assert_eq!(size_of::<A>(), size_of::<P>());
    // SAFETY: A and P are the same repr(C) ledger over AtomicU64 and u64, which have one
    // representation; no other thread writes.
    unsafe { std::ptr::from_ref(atomics).cast::<P>().read() }
}
