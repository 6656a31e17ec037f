//! The object that ships: what is in it, and what the kernel says of it.

mod kernel;

use std::collections::BTreeMap;

use aya_obj::Object;
use aya_obj::generated::{BPF_ADD, BPF_ATOMIC, BPF_CMPXCHG, BPF_DW, BPF_FETCH, BPF_STX, BPF_XCHG};
use bytemuck::Zeroable;
use governor_core::breaker::Move;
use governor_core::judge::Decision;
use governor_core::params::Params;
use governor_core::trace::Step;
use governor_core::verdict::{Outcome, Reason};
use kernel::{Kernel, shipped};

/// The kernel gives up at a million. Each hundred thousand is 0.1 to 0.2 s of every start, in an
/// incident, too.
const CEILING: u32 = 200_000;

const PROGRAMS: [&str; 9] = [
    "act_egress",
    "act_ingress",
    "connect4",
    "connect6",
    "law",
    "sample",
    "skb_egress",
    "skb_ingress",
    "sock_ops",
];

/// The 64-bit atomic instructions of the object, by what they do.
fn atomics(object: &Object) -> BTreeMap<u32, usize> {
    let opcode = (BPF_STX | BPF_DW | BPF_ATOMIC) as u8;
    let mut counts = BTreeMap::new();
    let instructions = object.functions.values().flat_map(|it| &it.instructions);
    for instruction in instructions.filter(|it| it.code == opcode) {
        *counts.entry(instruction.imm.cast_unsigned()).or_default() += 1;
    }
    counts
}

#[test]
fn every_program_loads_within_a_fifth_of_what_the_verifier_allows() {
    let programs = Kernel::load().programs();
    let mut names: Vec<_> = programs.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, PROGRAMS);
    for (name, info) in &programs {
        let count = info.verified_instruction_count().unwrap();
        println!("{name}: {count} instructions verified");
        assert!(count > 0 && count < CEILING, "{name}: {count}");
    }
}

#[test]
fn the_kernel_takes_the_licence_as_compatible_with_its_own() {
    let object = Object::parse(shipped::object()).unwrap();
    assert_eq!(object.license.to_str(), Ok("Dual MIT/GPL"));
    for (name, info) in Kernel::load().programs() {
        assert_eq!(info.gpl_compatible(), Some(true), "{name}");
    }
}

#[test]
fn the_object_decides_by_compare_and_swap_and_adds_with_fetch() {
    let object = Object::parse(shipped::object()).unwrap();
    let atomics = atomics(&object);
    println!("{atomics:x?}");
    for (what, name) in [(BPF_CMPXCHG, "cmpxchg"), (BPF_ADD | BPF_FETCH, "fetch-add")] {
        assert!(atomics.contains_key(&what), "no {name}: {atomics:x?}");
    }
    let known = [BPF_CMPXCHG, BPF_ADD | BPF_FETCH, BPF_XCHG];
    // An add without fetch is a relaxed one: with LLVM 22 also where its result is used, as the
    // addend (LLVM issue 210280). The law has none.
    for what in atomics.keys() {
        assert!(known.contains(what), "atomic {what:#x}: {atomics:x?}");
    }
}

/// A time long after boot.
const START: u64 = 100_000_000_000_000;

fn step(after_millis: u64) -> Step {
    Step {
        now: START + after_millis * 1_000_000,
        workload: 1,
        random: u32::MAX / 2,
        ..Step::zeroed()
    }
}

fn refused(after_millis: u64) -> Step {
    Step {
        what: 1,
        outcome: Outcome::Refused as u32,
        ..step(after_millis)
    }
}

/// A miscompiled fetch-add returns the addend: the run of failures would be two for ever.
#[test]
fn a_fetch_add_in_the_kernel_returns_the_value_before() {
    let mut kernel = Kernel::law_alone(&Params::DEFAULT);
    let moves: Vec<u64> = (0..7).map(|n| kernel.law().run(&refused(n))).collect();
    let tripped = Move::Tripped as u64;
    assert_eq!(moves, [0, 0, 0, 0, 0, 0, tripped]);

    kernel.forget();
    kernel.set_params(&Params {
        consecutive_failures: 1,
        ..Params::DEFAULT
    });
    assert_eq!(kernel.law().run(&refused(0)), tripped);
}

/// A compare-and-swap that ignored what it compares with would let two probes go; one that never
/// swapped, none.
#[test]
fn a_compare_and_swap_in_the_kernel_swaps_once() {
    let kernel = Kernel::law_alone(&Params::DEFAULT);
    for n in 0..7 {
        kernel.law().run(&refused(n));
    }
    let decide = |after| Decision::unpack(kernel.law().run(&step(after)));
    let refuse = Decision::Deny(Reason::Breaker);
    assert_eq!(decide(10), refuse);
    assert!(matches!(decide(2_000), Decision::Probe(_)));
    assert_eq!(decide(2_000), refuse);
    // Lost after probeTimeout: the next one.
    assert_eq!(decide(6_900), refuse);
    assert!(matches!(decide(7_100), Decision::Probe(_)));
}
