//! What a failing `bpf(2)` means for whoever started us.

use std::error::Error;
use std::io;

use aya::EbpfError;
use aya::programs::ProgramError;

use super::capabilities::Capabilities;
use super::release::NEWER;
use crate::errors::{Failure, causes};

/// An error of aya as a failure of ours.
pub fn blame(what: &str, error: impl Into<KernelError>) -> Failure {
    let error = error.into();
    match error.errno() {
        Some(libc::EPERM | libc::EACCES) if error.verifier_log().is_none() => {
            let missing = Capabilities::here().missing();
            match missing.as_slice() {
                [] => Failure::missing(what, "the kernel does not permit it").hint(
                    "a user namespace, kernel lockdown or a security module forbids bpf(2), or a \
                     program without BPF_F_ALLOW_MULTI sits on a parent cgroup",
                ),
                missing => Failure::missing(what, format!("no privilege: {}", missing.join(", ")))
                    .hint("run it as root"),
            }
        }
        Some(libc::ENOSYS) => {
            Failure::missing(what, "this kernel has no bpf(2)").hint("CONFIG_BPF_SYSCALL")
        }
        Some(libc::ENOMEM) => Failure::failed(what, "no memory for it in the kernel"),
        errno => match error.verifier_log() {
            Some(log) => Failure::missing(what, refused(&log)).hint(NEWER),
            None if errno == Some(libc::EINVAL) => {
                Failure::missing(what, "this kernel does not know it").hint(NEWER)
            }
            None => Failure::failed(what, causes(error.as_error())),
        },
    }
}

/// An error of aya: loading has one type, programs another.
#[derive(Debug)]
pub enum KernelError {
    /// While maps were made.
    Load(EbpfError),
    /// While programs were verified or attached.
    Program(ProgramError),
}

impl From<EbpfError> for KernelError {
    fn from(error: EbpfError) -> Self {
        Self::Load(error)
    }
}

impl From<ProgramError> for KernelError {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl KernelError {
    fn as_error(&self) -> &(dyn Error + 'static) {
        match self {
            Self::Load(error) => error,
            Self::Program(error) => error,
        }
    }

    fn chain(&self) -> anyhow::Chain<'_> {
        anyhow::Chain::new(self.as_error())
    }

    fn errno(&self) -> Option<i32> {
        self.chain()
            .find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error())
    }

    fn verifier_log(&self) -> Option<String> {
        match self {
            Self::Program(ProgramError::LoadError { verifier_log, .. }) => {
                Some(verifier_log.to_string()).filter(|log| !log.trim().is_empty())
            }
            _ => None,
        }
    }
}

/// How the lines begin that the verifier ends every log with.
const STATISTICS: [&str; 4] = [
    "processed ",
    "stack depth ",
    "verification time ",
    "max_states",
];

/// The verifier's reason: the last line of its log that is one.
fn refused(log: &str) -> String {
    let is_statistic = |line: &str| STATISTICS.iter().any(|start| line.starts_with(start));
    let lines = log.lines().map(str::trim);
    let reasons: Vec<_> = lines
        .filter(|line| !line.is_empty() && !is_statistic(line))
        .collect();
    let helper = reasons
        .iter()
        .rev()
        .find(|line| line.contains("unknown func") || line.contains("cannot use helper"));
    let why = helper
        .or(reasons.last())
        .copied()
        .unwrap_or("it gives no reason");
    format!("the kernel's verifier refuses it: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_reason_is_its_last_words_or_the_helper() {
        let log = "0: (bf) r1 = r2\nR0 has smin=2\nprocessed 7 insns (limit 1000000)\n";
        assert_eq!(
            refused(log),
            "the kernel's verifier refuses it: R0 has smin=2"
        );
        let log = "program of this type cannot use helper bpf_set_retval#187\nmore\n";
        assert!(refused(log).ends_with("cannot use helper bpf_set_retval#187"));
    }

    #[test]
    fn no_privilege_is_exit_code_4() {
        let io_error = io::Error::from_raw_os_error(libc::EPERM);
        let error = ProgramError::SyscallError(aya::sys::SyscallError {
            call: "bpf_link_create",
            io_error,
        });
        assert_eq!(
            blame("attach connect4", error).exit,
            crate::errors::Exit::Missing
        );
    }
}
