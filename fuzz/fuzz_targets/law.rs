//! The law: any sequence of attempts and endings, in any order and at any time,
//! never panics, and what is in flight and spent stays a count.
#![no_main]

use std::sync::atomic::AtomicU64;

use bytemuck::Zeroable as _;
use governor_core::{
    judge::Ledgers,
    lease::Lease,
    ledger::{DestinationLedger, EndpointLedger, WorkloadLedger},
    order::Order,
    params::Params,
    trace::{Step, run},
    units::Nanos,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let endpoint = EndpointLedger::<AtomicU64>::default();
    let workload = WorkloadLedger::<AtomicU64>::default();
    let destination = DestinationLedger::<AtomicU64>::default();
    let lease = Lease::<AtomicU64>::default();
    let ledgers = Ledgers {
        endpoint: &endpoint,
        workload: &workload,
        destination: &destination,
        lease: Some(&lease),
    };
    let (steps, rest) = bytes.split_at(bytes.len() - bytes.len() % size_of::<Step>());
    let mut order = Order::zeroed();
    let fit = rest.len().min(size_of::<Order>());
    bytemuck::bytes_of_mut(&mut order)[..fit].copy_from_slice(&rest[..fit]);
    for bytes in steps.chunks_exact(size_of::<Step>()) {
        let step: Step = bytemuck::pod_read_unaligned(bytes);
        run(&step, &Params::DEFAULT, &ledgers, Some(&order));
        let now = Nanos(step.now);
        assert!(workload.limiter.in_flight(now) < 1 << 32);
        assert!(destination.budget.spent(&Params::DEFAULT, now) < 1 << 32);
    }
});
