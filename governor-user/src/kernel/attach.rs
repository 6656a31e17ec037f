//! Attaching the programs to a cgroup, and letting go.
//!
//! A link ends with its last descriptor. `exec` holds descriptors only, so that
//! whatever kills it, its child goes on ungoverned. The daemon pins its links:
//! they outlive it, and its successor replaces them without a gap.

use std::fs::File;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::{FdLink, LinkError, PinnedLink};
use aya::programs::{CgroupAttachMode, Program, ProgramError};
use governor_core::key::map;
use governor_core::units::Nanos;

use super::maps::{Wire, map_failed};
use super::{Governor, blame, clock, pins};
use crate::cgroup;
use crate::errors::{Failure, Result};

/// Programs in the order they are attached: those that see how an attempt ends
/// before those that admit it, so that no outcome is missed.
pub const HOOKS: [&str; 5] = [
    "skb_ingress",
    "skb_egress",
    "sock_ops",
    "connect6",
    "connect4",
];

/// How long sockets older than the governor are looked for. Each payload packet
/// of a server pays some 150 ns for it; a pool that was idle for so long is
/// usually closed by its server.
const ADOPTION: Nanos = Nanos::from_secs(600);

/// What is attached. Dropped, it is detached, unless it was pinned: then it
/// stays until [`Self::detach`].
#[derive(Debug)]
pub struct Attached {
    cgroup: PathBuf,
    links: Vec<(&'static str, Held)>,
}

#[derive(Debug)]
enum Held {
    Open { _link: FdLink },
    Pinned(PinnedLink),
}

impl Attached {
    /// The directory of the cgroup.
    pub fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// Names of what is attached.
    pub fn hooks(&self) -> impl Iterator<Item = &'static str> {
        self.links.iter().map(|(name, _)| *name)
    }

    /// Detaches, pinned or not.
    pub fn detach(mut self) -> Result<()> {
        let mut first = Ok(());
        // Admission ends before observation does: the last attached goes first.
        while let Some((name, held)) = self.links.pop() {
            if let Held::Pinned(link) = held
                && let Err(error) = link.unpin()
                && first.is_ok()
            {
                first = Err(Failure::failed(format!("detach {name}"), error));
            }
        }
        first
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        while self.links.pop().is_some() {}
    }
}

impl Governor {
    /// Attaches every program to the cgroup at `path`. With pins, the links of a
    /// predecessor are replaced once all of ours are in place.
    pub fn attach(&mut self, path: &Path) -> Result<Attached> {
        let directory = File::open(path)
            .map_err(|error| Failure::failed(format!("cgroup {}", path.display()), error))?;
        self.config.level = cgroup::level(path)?;
        self.config.booted = clock::booted();
        if self.pins.is_some() {
            // A command's cgroup is as new as its governor; a node's is not.
            self.config.adopt_until = clock::now().0 + ADOPTION.0;
        }
        self.write_config()?;
        let mut attached = Attached {
            cgroup: path.to_path_buf(),
            links: Vec::new(),
        };
        for hook in HOOKS {
            let link = attach(&mut self.ebpf, hook, &directory)
                .map_err(|error| blame(&format!("attach {hook} to {}", path.display()), error))?;
            attached.links.push((hook, Held::Open { _link: link }));
        }
        match &self.pins {
            Some(pins) => replace_pins(attached, &pins.join(pins::LINKS)),
            None => Ok(attached),
        }
    }

    /// Follows the time of day, which may have been set since, and looks for old
    /// sockets no longer than is worth it: each answer of a server pays for the look.
    pub fn keep_time(&mut self) -> Result<()> {
        let before = self.config;
        self.config.booted = clock::booted();
        if clock::now().0 >= self.config.adopt_until {
            self.config.adopt_until = 0;
        }
        if self.config == before {
            return Ok(());
        }
        self.write_config()
    }

    /// Tells the programs what they need to know of us.
    pub(super) fn write_config(&mut self) -> Result<()> {
        let config = Wire(self.config);
        self.maps
            .config
            .set(0, config, 0)
            .map_err(|error| map_failed(map::CONFIG, error))
    }
}

fn attach(ebpf: &mut Ebpf, hook: &str, cgroup: &File) -> Result<FdLink, ProgramError> {
    // Any other mode is EINVAL for links in aya 0.14 (aya#1078); links are
    // always "multi" in the kernel, so this coexists with others' programs.
    let mode = CgroupAttachMode::default();
    let link = match ebpf.program_mut(hook) {
        Some(Program::CgroupSockAddr(program)) => {
            let id = program.attach(cgroup, mode)?;
            FdLink::try_from(program.take_link(id)?)
        }
        Some(Program::SockOps(program)) => {
            let id = program.attach(cgroup, mode)?;
            FdLink::try_from(program.take_link(id)?)
        }
        Some(Program::CgroupSkb(program)) => {
            let direction = match hook {
                "skb_ingress" => aya::programs::CgroupSkbAttachType::Ingress,
                _ => aya::programs::CgroupSkbAttachType::Egress,
            };
            let id = program.attach(cgroup, direction, mode)?;
            FdLink::try_from(program.take_link(id)?)
        }
        _ => return Err(ProgramError::UnexpectedProgramType),
    };
    link.map_err(|error| match error {
        // Before 5.7 there are no links for cgroups.
        LinkError::InvalidLink => ProgramError::UnexpectedProgramType,
        error => ProgramError::IOError(std::io::Error::other(error)),
    })
}

/// Pins every link beside its predecessor's, and only then puts them there.
fn replace_pins(mut attached: Attached, directory: &Path) -> Result<Attached> {
    let mut places = Vec::new();
    for (name, held) in std::mem::take(&mut attached.links) {
        let Held::Open { _link: link } = held else {
            continue;
        };
        let place = directory.join(name);
        if let Err(failure) = pins::pin_beside(link, &place) {
            places
                .iter()
                .for_each(|(_, place): &(_, PathBuf)| pins::give_up(place));
            return Err(failure);
        }
        places.push((name, place));
    }
    for (name, place) in places {
        attached
            .links
            .push((name, Held::Pinned(pins::take_place(&place)?)));
    }
    Ok(attached)
}
