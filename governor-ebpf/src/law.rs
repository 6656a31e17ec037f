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
    params::Params,
    trace::{Kind, Step, begin, end, end_calm, join},
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

/// Finds the ledgers, and runs the step on them.
#[inline(always)]
fn step_on_maps(step: &Step) -> Option<u64> {
    let l = ledgers(step.workload)?;
    let p = policy::params(0)?;
    let order = verdict::order(0, &verdict::ANY);
    Some(match step.kind() {
        Kind::Attempt => begun(step, p, &l, order),
        Kind::Request => joined(step, p, &l, order),
        Kind::Ending => ended(step, p, &l),
        Kind::Calm => calm(step, p, &l),
        Kind::Nothing => 0,
    })
}

// A frame of its own for the keys.
#[inline(never)]
fn ledgers(workload: u64) -> Option<Ledgers<'static, MapCell>> {
    let key = EndpointKey {
        workload,
        address: [0; 16],
        port: 1,
        reserved: 0,
    };
    let workload_key = WorkloadKey {
        workload,
        destination: key.destination(0),
    };
    Some(Ledgers {
        endpoint: maps::endpoint(&key)?,
        workload: maps::workload(&workload_key)?,
        destination: maps::destination(&workload_key.destination)?,
        lease: Some(maps::lease(&workload_key.destination)?),
    })
}

#[inline(never)]
fn begun(step: &Step, p: &Params, l: &Ledgers<'_, MapCell>, order: Option<&Order>) -> u64 {
    begin(step, p, l, order)
}

#[inline(never)]
fn joined(step: &Step, p: &Params, l: &Ledgers<'_, MapCell>, order: Option<&Order>) -> u64 {
    join(step, p, l, order)
}

#[inline(never)]
fn ended(step: &Step, p: &Params, l: &Ledgers<'_, MapCell>) -> u64 {
    end(step, p, l)
}

#[inline(never)]
fn calm(step: &Step, p: &Params, l: &Ledgers<'_, MapCell>) -> u64 {
    end_calm(step, p, l)
}
