//! What the kernel says of our programs.

use std::time::Duration;

use aya::programs::{Program, ProgramInfo};

use super::{ActHook, Attached, Governor, HOOKS};

/// One program.
#[derive(Clone, Debug)]
pub struct ProgramStatus {
    /// Its name, one of [`HOOKS`] or of an [`ActHook`].
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
        let of = |name: &'static str| {
            let info = info(self.ebpf.program(name)?)?;
            Some(ProgramStatus {
                attached: is_attached(name),
                ..status(name, &info)
            })
        };
        HOOKS.into_iter().rev().filter_map(of).collect()
    }

    /// One program of the executor, as it is at some device.
    pub fn executor_program(&self, hook: ActHook) -> Option<ProgramStatus> {
        let info = info(self.ebpf.program(hook.name())?)?;
        Some(status(hook.name(), &info))
    }
}

fn status(name: &'static str, info: &ProgramInfo) -> ProgramStatus {
    ProgramStatus {
        name,
        id: info.id(),
        attached: true,
        verified_instructions: info.verified_instruction_count(),
        run_time: info.run_time(),
        run_count: info.run_count(),
    }
}

fn info(program: &Program) -> Option<ProgramInfo> {
    let info = match program {
        Program::CgroupSockAddr(program) => program.info(),
        Program::SockOps(program) => program.info(),
        Program::CgroupSkb(program) => program.info(),
        Program::SchedClassifier(program) => program.info(),
        _ => return None,
    };
    info.ok()
}
