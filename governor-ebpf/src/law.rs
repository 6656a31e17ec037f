//! The law's entry point, for tests only: runs one [`Step`] that the test puts
//! into the packet of BPF_PROG_TEST_RUN, on ledgers that the test reads back.
//! Never attached.

use aya_ebpf::{
    helpers::generated::{bpf_skb_load_bytes, bpf_skb_store_bytes},
    macros::classifier,
    programs::TcContext,
};
use bytemuck::Zeroable as _;
use governor_core::{
    judge::Ledgers,
    key::{EndpointKey, WorkloadKey},
    order::Order,
    trace::{Step, run},
};

use crate::{cell::MapCell, maps, policy, verdict};

/// The step follows an Ethernet header.
const OFFSET: u32 = 14;

/// Runs a step; 0 if it ran.
#[classifier]
pub fn law(ctx: TcContext) -> i32 {
    match try_law(&ctx) {
        Some(()) => 0,
        None => 1,
    }
}

#[inline(always)]
fn try_law(ctx: &TcContext) -> Option<()> {
    let skb = ctx.skb.skb;
    let mut step = Step::zeroed();
    // SAFETY: `step` holds as many bytes; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes(
            skb.cast(),
            OFFSET,
            (&raw mut step).cast(),
            size_of::<Step>() as u32,
        )
    };
    if failed != 0 {
        return None;
    }
    step.result = step_on_maps(&step)?;
    // SAFETY: as above.
    let failed = unsafe {
        bpf_skb_store_bytes(
            skb.cast(),
            OFFSET,
            (&raw const step).cast_mut().cast(),
            size_of::<Step>() as u32,
            0,
        )
    };
    if failed == 0 { Some(()) } else { None }
}

#[inline(always)]
fn step_on_maps(step: &Step) -> Option<u64> {
    let key = EndpointKey {
        workload: step.workload,
        address: [0; 16],
        port: 1,
        reserved: 0,
    };
    let workload_key = WorkloadKey {
        workload: step.workload,
        destination: key.destination(0),
    };
    let endpoint = maps::endpoint(&key)?;
    let workload = maps::workload(&workload_key)?;
    let destination = maps::destination(&workload_key.destination)?;
    let lease = maps::lease(&workload_key.destination)?;
    let p = policy::params(0)?;
    let order = verdict::order(0, &verdict::ANY);
    let ledgers = Ledgers {
        endpoint,
        workload,
        destination,
        lease: Some(lease),
    };
    Some(run_step(step, p, &ledgers, order))
}

#[inline(never)]
fn run_step(
    step: &Step,
    p: &governor_core::params::Params,
    l: &Ledgers<'_, MapCell>,
    order: Option<&Order>,
) -> u64 {
    run(step, p, l, order)
}
