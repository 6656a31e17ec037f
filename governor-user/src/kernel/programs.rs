//! What the kernel says of our programs.

use std::time::Duration;

use aya::programs::{Program, ProgramInfo};

use super::{Attached, Governor, HOOKS};

/// One program.
#[derive(Clone, Debug)]
pub struct ProgramStatus {
    /// Its name, one of [`HOOKS`].
    pub name: &'static str,
    /// Its id in the kernel.
    pub id: u32,
    /// Whether it is attached.
    pub attached: bool,
    /// Instructions the verifier went through (Linux 5.16).
    pub verified_instructions: Option<u32>,
    /// Time it ran, where run-time statistics are on.
    pub run_time: Duration,
    /// How often it ran, where run-time statistics are on.
    pub run_count: u64,
}

impl Governor {
    /// The programs, in the order of hooks that an attempt passes.
    pub fn programs(&self, attached: Option<&Attached>) -> Vec<ProgramStatus> {
        let is_attached = |name| attached.is_some_and(|a| a.hooks().any(|hook| hook == name));
        let status = |name: &'static str| {
            let info = info(self.ebpf.program(name)?)?;
            Some(ProgramStatus {
                name,
                id: info.id(),
                attached: is_attached(name),
                verified_instructions: info.verified_instruction_count(),
                run_time: info.run_time(),
                run_count: info.run_count(),
            })
        };
        HOOKS.into_iter().rev().filter_map(status).collect()
    }
}

fn info(program: &Program) -> Option<ProgramInfo> {
    let info = match program {
        Program::CgroupSockAddr(program) => program.info(),
        Program::SockOps(program) => program.info(),
        Program::CgroupSkb(program) => program.info(),
        _ => return None,
    };
    info.ok()
}
