//! Attaching the executor: the programs at the traffic control of a device that
//! carry out what the judge at the cgroup decided.
//!
//! Two ways. Since Linux 6.6 it is a link (TCX), which ends with its last holder
//! and can be pinned, as those at the cgroup. Before, it is a filter of the
//! device's classifier (clsact): it stays until it is removed, whoever dies, so
//! it carries a mark by which the next one of us knows it.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{
    NlOptions, SchedClassifier, SchedClassifierLink, TcAttachOptions, TcAttachType, TcError,
    TcHandle, qdisc_add_clsact,
};
use aya::programs::{LinkOrder, Program, ProgramError};

use governor_core::key::map;

use super::filters::{Marks, PRIORITY};
use super::maps::map_failed;
use super::{Governor, at_device, blame, pins};
use crate::errors::{Failure, Result};

/// The programs of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActHook {
    /// At the egress of a device: what this network namespace sends.
    Egress,
    /// At the ingress of a veth's host side: what the container behind it sends.
    Ingress,
}

impl ActHook {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Egress, Self::Ingress];

    /// The name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Egress => "act_egress",
            Self::Ingress => "act_ingress",
        }
    }

    /// Where it is attached.
    pub fn direction(self) -> TcAttachType {
        match self {
            Self::Egress => TcAttachType::Egress,
            Self::Ingress => TcAttachType::Ingress,
        }
    }

    /// The parent of filters there: the halves of the clsact discipline.
    pub fn parent(self) -> u32 {
        match self {
            Self::Egress => 0xffff_fff3,
            Self::Ingress => 0xffff_fff2,
        }
    }
}

/// The number of `lo` in every network namespace.
const LOOPBACK: u32 = 1;

/// How programs are attached to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Links, since Linux 6.6.
    Tcx,
    /// Filters of the clsact discipline.
    Clsact,
}

impl Method {
    /// That of this kernel: asked, since distributions backport.
    pub fn of_this_kernel() -> Self {
        match at_device(LOOPBACK, TcAttachType::Egress) {
            Ok(_) => Self::Tcx,
            Err(_) => Self::Clsact,
        }
    }
}

/// One program at one device. Dropped, it is detached, unless it is pinned or
/// was told to stay.
#[derive(Debug)]
pub struct Executor(Held);

#[derive(Debug)]
enum Held {
    Open { _link: FdLink },
    Pinned(PinnedLink),
    Filter(SchedClassifierLink),
}

impl Executor {
    /// Detaches, pinned or not.
    pub fn detach(self) -> Result<()> {
        match self.0 {
            Held::Open { .. } => Ok(()),
            Held::Filter(filter) => {
                drop(filter);
                Ok(())
            }
            Held::Pinned(link) => match link.unpin() {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(Failure::failed("detach from an interface", error))
                }
                // It was removed before: its device, or `retry-governor detach`.
                _ => Ok(()),
            },
        }
    }

    /// Leaves it attached for a successor.
    pub fn keep(self) {
        if let Held::Filter(filter) = self.0 {
            mem::forget(filter);
        }
    }
}

impl Governor {
    /// Whether there is an executor; why not, where there is none.
    pub fn executor(&self) -> Result<(), &str> {
        match &self.without_executor {
            None => Ok(()),
            Some(why) => Err(why),
        }
    }

    /// Attaches one program to a device, in place of a predecessor's.
    pub fn attach_executor(
        &mut self,
        hook: ActHook,
        device: (u32, &str),
        method: Method,
        marks: &Marks,
    ) -> Result<Executor> {
        let pins = self.pins.clone();
        let (index, name) = device;
        let failed = |error| {
            let failure = blame(&format!("attach {} to {name}", hook.name()), error);
            match method {
                Method::Tcx => failure,
                // Modules of most distributions.
                Method::Clsact => failure.hint("CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF"),
            }
        };
        let Some(Program::SchedClassifier(program)) = self.ebpf.program_mut(hook.name()) else {
            return Err(failed(ProgramError::UnexpectedProgramType));
        };
        match method {
            Method::Tcx => {
                let place = pins.map(|pins| pin_of(&pins, hook, index));
                let theirs = place.as_deref();
                let theirs = theirs.and_then(|place| take_over(program, hook, index, place));
                let held = match (theirs, place) {
                    (Some(link), _) => Held::Pinned(link),
                    (None, Some(place)) => {
                        let link = attach_link(program, hook, name).map_err(failed)?;
                        pins::pin_beside(link, &place)?;
                        Held::Pinned(pins::take_place(&place)?)
                    }
                    (None, None) => Held::Open {
                        _link: attach_link(program, hook, name).map_err(failed)?,
                    },
                };
                Ok(Executor(held))
            }
            Method::Clsact => {
                let filter = attach_filter(program, hook, name, marks).map_err(failed)?;
                Ok(Executor(Held::Filter(filter)))
            }
        }
    }

    /// Lets the executor delay packets at these devices, and at no others.
    pub fn set_paced(&mut self, devices: &BTreeSet<u32>) -> Result<()> {
        let failed = |error| map_failed(map::PACED, error);
        let paced = &mut self.maps.paced;
        let before: BTreeSet<u32> = paced.keys().filter_map(Result::ok).collect();
        for device in before.difference(devices) {
            paced.remove(device).map_err(failed)?;
        }
        for device in devices.difference(&before) {
            paced.insert(device, 1, 0).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes the pinned links of executors that are not of these: what a
    /// predecessor had attached where nothing belongs any more.
    pub fn forget_executors_but(&self, held: &[(u32, ActHook)]) {
        let Some(pins) = &self.pins else { return };
        let kept: Vec<_> = held
            .iter()
            .map(|(index, hook)| pin_of(pins, *hook, *index))
            .collect();
        let ours = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                ActHook::ALL
                    .iter()
                    .any(|hook| name.starts_with(hook.name()))
            })
        };
        let entries = std::fs::read_dir(pins.join(pins::LINKS));
        let entries = entries.into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if ours(&path) && !kept.contains(&path) {
                // Gone by itself, it needs no removing.
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// Whether what is attached is meant to stay: `retry-governor detach` takes
    /// the pins of a running daemon away, and nothing is to come back then.
    pub fn is_detached(&self) -> bool {
        self.pins
            .as_ref()
            .is_some_and(|pins| !pins.join(pins::LINKS).is_dir())
    }
}

/// By number: a name may hold a dot, which the BPF file system keeps for itself.
fn pin_of(pins: &Path, hook: ActHook, index: u32) -> PathBuf {
    pins.join(pins::LINKS)
        .join(format!("{}-{index}", hook.name()))
}

/// First of all: programs run in order until one says something else than NEXT,
/// and others say OK or redirect as a rule (Cilium does: what comes after it
/// never runs). Ours says NEXT, so that whoever comes after is not disturbed.
fn attach_link(
    program: &mut SchedClassifier,
    hook: ActHook,
    device: &str,
) -> Result<FdLink, ProgramError> {
    let options = TcAttachOptions::TcxOrder(LinkOrder::first());
    let id = program.attach_with_options(device, hook.direction(), options)?;
    let link = FdLink::try_from(program.take_link(id)?);
    link.map_err(|error| ProgramError::IOError(io::Error::other(error)))
}

/// Puts our program into the link of a predecessor, if it has left one there. The
/// number of a device may be another's by now, or one of another network
/// namespace: so it is looked whether our program is where it is to be.
fn take_over(
    program: &mut SchedClassifier,
    hook: ActHook,
    device: u32,
    place: &Path,
) -> Option<PinnedLink> {
    let theirs = FdLink::from(PinnedLink::from_pin(place).ok()?);
    let id = program.attach_to_link(theirs.try_into().ok()?).ok()?;
    drop(program.take_link(id).ok()?);
    let ours = program.info().ok()?.id();
    let there = at_device(device, hook.direction()).ok()?;
    let is_there = there.contains(&ours);
    is_there.then(|| PinnedLink::from_pin(place).ok())?
}

fn attach_filter(
    program: &mut SchedClassifier,
    hook: ActHook,
    device: &str,
    marks: &Marks,
) -> Result<SchedClassifierLink, ProgramError> {
    match qdisc_add_clsact(device) {
        Ok(()) => {}
        // Somebody else's, or a predecessor's: classifiers are shared.
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let direction = hook.direction();
    let handle = TcHandle::from(marks.handle());
    let options = TcAttachOptions::Netlink(NlOptions {
        priority: PRIORITY,
        handle,
        classid: None,
    });
    let id = match program.attach_with_options(device, direction, options) {
        Err(ProgramError::TcError(TcError::NetlinkError(error)))
            if error.raw_os_error() == Some(libc::EEXIST) =>
        {
            // A predecessor's: ours takes its place without a gap.
            let theirs = SchedClassifierLink::attached(device, direction, PRIORITY, handle, None)?;
            program.attach_to_link(theirs)?
        }
        attached => attached?,
    };
    program.take_link(id)
}
