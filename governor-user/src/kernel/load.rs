//! Loading: maps made, or taken over from a predecessor, and programs verified.

use std::collections::HashMap;
use std::path::Path;
use std::{panic, thread};

use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use governor_core::key::{Config, map};

use super::maps::{Maps, map_failed};
use super::{ActHook, Governor, HOOKS, blame, btf, pins, release};
use crate::errors::{Failure, Result};

/// The kernel programs, built with this binary.
pub(super) static OBJECT: &[u8] = include_bytes_aligned!(env!("GOVERNOR_OBJECT"));

impl Governor {
    /// Loads the programs. Nothing is judged before [`Self::set_policy`] and
    /// [`Self::attach`]. Pinned maps of a predecessor are taken over with what
    /// they hold: ledgers, open breakers, orders, the policy in force.
    ///
    /// `bpffs` is the BPF file system to pin to (`/sys/fs/bpf`); none: maps and links
    /// end with this process.
    pub fn load(bpffs: Option<&Path>) -> Result<Self> {
        let offsets = btf::offsets();
        let socket_namespaces = u32::from(release::at_least(&release::name(), (6, 12)));
        let mut loader = EbpfLoader::new();
        loader
            .override_global("SK_ERR_OFFSET", &offsets.sk_err, false)
            .override_global("SK_SHUTDOWN_OFFSET", &offsets.sk_shutdown, false)
            .override_global("SOCKET_NAMESPACES", &socket_namespaces, false);
        let pins = bpffs.map(pins::prepare).transpose()?;
        if let Some(pins) = &pins {
            for name in pins::MAPS {
                loader.map_pin_path(name, pins.join(name));
            }
        }
        let mut ebpf = loader
            .load(OBJECT)
            .map_err(|error| blame("kernel maps", error))?;
        let maps = Maps::take(&mut ebpf)?;
        let without_executor = load_programs(&mut ebpf)?;
        let config = match maps.config.get(&0, 0) {
            Ok(config) => config.0,
            Err(error) => return Err(map_failed(map::CONFIG, error)),
        };
        let mut governor = Self {
            ebpf,
            maps,
            config: Config {
                reserved: 0,
                ..config
            },
            pins,
            without_executor,
        };
        governor.count_orders()?;
        Ok(governor)
    }
}

/// Loads the programs, all at once: the kernel verifies them side by side, and in an
/// incident a governor that is started anew counts the seconds. Without the executor
/// connects are governed all the same: why there is none, in words.
fn load_programs(ebpf: &mut Ebpf) -> Result<Option<String>> {
    let mut ended = verify(ebpf);
    let mut take = |name: &str| match ended.remove(name) {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(blame(&format!("program {name}"), error)),
        None => Err(
            Failure::failed(format!("program {name}"), "the object has no such program")
                .hint("rebuild retry-governor"),
        ),
    };
    HOOKS.into_iter().try_for_each(&mut take)?;
    let executor = ActHook::ALL
        .into_iter()
        .try_for_each(|hook| take(hook.name()));
    Ok(executor.err().map(|failure| {
        let failure = failure.to_string();
        failure.trim_start_matches("error: ").to_owned()
    }))
}

/// How the verification of each of our programs ended, by name.
fn verify(ebpf: &mut Ebpf) -> HashMap<String, Result<(), ProgramError>> {
    let ours: Vec<_> = HOOKS
        .into_iter()
        .chain(ActHook::ALL.map(ActHook::name))
        .collect();
    thread::scope(|scope| {
        let threads: Vec<_> = ebpf
            .programs_mut()
            .filter(|(name, _)| ours.contains(name))
            .map(|(name, program)| {
                let name = name.to_owned();
                scope.spawn(move || {
                    let ended = load_program(program);
                    (name, ended)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
            .collect()
    })
}

fn load_program(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.load(),
        Program::SockOps(program) => program.load(),
        Program::CgroupSkb(program) => program.load(),
        Program::SchedClassifier(program) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}
