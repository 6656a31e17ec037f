//! The kernel object: the one that ships, and what this kernel's verifier says of it.

use std::fs;

use aya::EbpfLoader;
use aya::programs::{Program, ProgramError, ProgramInfo};
use governor_tests::artifact;

use crate::report::{Checks, remark};

/// A fifth of what the verifier allows.
const CEILING: u32 = 200_000;

/// Runs the checks.
pub fn check(checks: &mut Checks) {
    checks.check(
        "the object is the one inside the binary",
        is_the_shipped_one,
    );
    checks.check(
        "every program loads within a fifth of what the verifier allows",
        loads,
    );
}

fn object() -> Vec<u8> {
    let path = artifact::program("governor.o").expect("the archive has it");
    fs::read(path).expect("it is a file")
}

fn is_the_shipped_one() {
    let path = artifact::program("retry-governor").expect("the archive has it");
    let binary = fs::read(path).expect("it is a file");
    let object = object();
    // aya aligns it to 32.
    let mut places = (0..binary.len()).step_by(8);
    assert!(places.any(|at| binary[at..].starts_with(&object)));
}

fn loads() {
    let mut ebpf = EbpfLoader::new()
        .load(&object())
        .expect("its maps can be made");
    let mut programs: Vec<_> = ebpf.programs_mut().collect();
    programs.sort_by_key(|(name, _)| *name);
    assert!(programs.len() >= 5, "only {} programs", programs.len());
    for (name, program) in programs {
        let info = load(program);
        let info = info.unwrap_or_else(|error| panic!("program {name}: {error:?}"));
        let count = info
            .verified_instruction_count()
            .expect("Linux 5.16 tells it");
        remark(format_args!("{name}: {count} instructions verified"));
        assert!(count > 0 && count < CEILING, "{name}: {count} instructions");
    }
}

fn load(program: &mut Program) -> Result<ProgramInfo, ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.load().and_then(|()| program.info()),
        Program::SockOps(program) => program.load().and_then(|()| program.info()),
        Program::CgroupSkb(program) => program.load().and_then(|()| program.info()),
        Program::SchedClassifier(program) => program.load().and_then(|()| program.info()),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}
