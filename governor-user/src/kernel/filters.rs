//! Marks on filters: before TCX (Linux 6.6) a program at a device outlives its
//! owner, so it must tell whose it is.
//!
//! All have one priority and a handle of our own. The daemon's is fixed: its
//! successor finds it and takes its place. An `exec` takes a number, and holds an
//! abstract socket of that number while it lives: such names belong to a network
//! namespace, as its devices do. A filter whose number nobody holds is a dead
//! one's.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use aya::programs::tc::{SchedClassifierLink, TcHandle};

use super::executor::ActHook;
use crate::errors::{Failure, Result};
use crate::interfaces::device::Link;
use crate::interfaces::netlink;

/// First of all, as with TCX; filters of one priority do not disturb each other.
pub const PRIORITY: u16 = 1;
/// "RG", then the number.
const OURS: u32 = 0x5247 << 16;
/// That of the daemon.
const DAEMON: u16 = 0;
/// As many `exec`s as may govern one network namespace at a time.
const MOST: u16 = 4096;

/// Under which number our filters are.
#[derive(Debug)]
pub struct Marks {
    number: u16,
    _held: Option<UnixDatagram>,
}

impl Marks {
    /// The daemon's.
    pub fn daemon() -> Self {
        Self {
            number: DAEMON,
            _held: None,
        }
    }

    /// One of a command's own.
    pub fn command() -> Result<Self> {
        let free = (DAEMON + 1..MOST).find_map(|number| Some((number, hold(number)?)));
        let (number, held) = free
            .ok_or_else(|| Failure::failed("interfaces", "too many commands are governed here"))?;
        Ok(Self {
            number,
            _held: Some(held),
        })
    }

    /// The handle of our filters.
    pub fn handle(&self) -> u32 {
        OURS | u32::from(self.number)
    }
}

/// Holds a number, unless somebody does.
fn hold(number: u16) -> Option<UnixDatagram> {
    let name = format!("retry-governor-exec-{number}");
    let address = SocketAddr::from_abstract_name(name).ok()?;
    UnixDatagram::bind_addr(&address).ok()
}

/// Which filters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of `exec`s that are dead.
    Orphans,
    /// Those of `exec`s that are dead and of a daemon before us.
    Predecessors,
}

/// Removes filters of ours from every device of this network namespace; how many.
pub fn remove_everywhere(which: Which) -> usize {
    let links = netlink::links().unwrap_or_default();
    let removed = |link| remove(link, &ActHook::ALL, which);
    links.iter().map(removed).sum()
}

/// Removes filters of ours from a device; how many.
pub fn remove(link: &Link, hooks: &[ActHook], which: Which) -> usize {
    let mut removed = 0;
    for hook in hooks {
        let filters = netlink::filters(link.index, hook.parent()).unwrap_or_default();
        for filter in filters {
            let number = u16::try_from(filter.handle ^ OURS);
            let Ok(number) = number else { continue };
            let goes = match (which, number) {
                (Which::Predecessors, DAEMON) => true,
                (Which::Orphans, DAEMON) => false,
                (_, number) => hold(number).is_some(),
            };
            if filter.priority != PRIORITY || filter.name != hook.name() || !goes {
                continue;
            }
            let handle = TcHandle::from(filter.handle);
            let found =
                SchedClassifierLink::attached(&link.name, hook.direction(), PRIORITY, handle, None);
            // Dropped, it is detached; its device may have gone.
            removed += usize::from(found.is_ok());
        }
    }
    removed
}
