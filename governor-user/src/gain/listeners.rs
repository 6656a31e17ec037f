//! Who listens where, in every network namespace of this node (sock_diag).
//!
//! A listening socket names the cgroup that made it. One that somebody else made
//! for its service (socket activation) belongs to whoever made it.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use governor_core::key::{Address, COOKIE, namespace, plain};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, setns};

use super::model::NotLookedInto;
use crate::errors::{Failure, Result};
use crate::interfaces::netlink::{attributes, dump};

/// Where namespaces have names: `ip netns` and CNI, docker.
const NAMED: [&str; 2] = ["/run/netns", "/run/docker/netns"];
const FIRST: &str = "/proc/1/ns/net";
/// `SOCK_DIAG_BY_FAMILY`, `TCP_LISTEN`.
const BY_FAMILY: u16 = 20;
const LISTEN: u32 = 10;
/// `struct inet_diag_req_v2`, `struct inet_diag_msg`.
const REQUEST: usize = 56;
const ANSWER: usize = 72;
/// Attributes of an answer (Linux 5.8 tells the cgroup).
const V6_ONLY: u16 = 11;
const CGROUP_ID: u16 = 21;

/// One listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    /// IPv4 ones are IPv4-mapped; all zero: any address.
    address: Ipv6Addr,
    port: u16,
    takes: Takes,
    cgroup: u64,
}

/// Of which family a socket takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    V4,
    V6,
    Both,
}

/// One network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Namespace {
    addresses: BTreeSet<Ipv6Addr>,
    listeners: Vec<Listener>,
}

/// Who listens where.
#[derive(Debug, Default)]
pub struct Listeners {
    /// By cookie, as much of it as a key holds.
    namespaces: HashMap<u64, Namespace>,
    /// Of the host's own.
    host: Option<u64>,
    /// Where nobody could look.
    pub not_looked_into: NotLookedInto,
}

impl Listeners {
    /// Looks into every namespace that can be entered.
    pub fn look() -> Result<Self> {
        let look = std::thread::Builder::new().name("namespaces".to_owned());
        // A thread that has entered a namespace is of no other use.
        let looked = look.spawn(Self::look_from_here).map(|thread| thread.join());
        match looked {
            Ok(Ok(listeners)) => Ok(listeners),
            Ok(Err(_)) => Err(Failure::failed("listeners", "their reader died")),
            Err(error) => Err(Failure::failed("listeners", error)),
        }
    }

    fn look_from_here() -> Self {
        let mut found = Self::default();
        // The kernel keeps loopback of the first process's namespace apart.
        let first = inode(Path::new(FIRST)).ok();
        let (paths, silent) = paths();
        found.not_looked_into.processes = silent;
        let mut looked = BTreeSet::new();
        for path in paths {
            let Ok(inode) = inode(&path) else {
                continue;
            };
            if !looked.insert(inode) {
                continue;
            }
            match enter(&path) {
                Ok((cookie, namespace)) => {
                    if first == Some(inode) {
                        found.host = Some(cookie);
                    }
                    found.namespaces.insert(cookie, namespace);
                }
                Err(_) => found.not_looked_into.namespaces += 1,
            }
        }
        found
    }

    /// The cgroups that listen at an address, as the kernel programs know it.
    pub fn at(&self, address: &Address, port: u32) -> BTreeSet<u64> {
        let called = Ipv6Addr::from(plain(*address));
        let loopback = called.to_canonical().is_loopback();
        let of = match namespace(*address) {
            0 => self.host,
            cookie => Some(cookie),
        };
        let here = |(cookie, inside): &(&u64, &Namespace)| match loopback {
            true => of == Some(**cookie),
            false => inside.addresses.contains(&called),
        };
        let namespaces = self.namespaces.iter().filter(here);
        namespaces
            .flat_map(|(_, inside)| inside.at(called, port))
            .collect()
    }
}

impl Namespace {
    /// Who takes connections to an address: a socket that is bound to it goes
    /// before one that is bound to any.
    fn at(&self, called: Ipv6Addr, port: u32) -> Vec<u64> {
        let takes =
            |listener: &&Listener| u32::from(listener.port) == port && listener.takes.takes(called);
        let cgroups = |bound: Ipv6Addr| {
            let there = self.listeners.iter().filter(takes);
            let bound = there.filter(move |listener| listener.address == bound);
            bound.map(|listener| listener.cgroup).collect::<Vec<_>>()
        };
        let own = cgroups(called);
        if own.is_empty() {
            cgroups(Ipv6Addr::UNSPECIFIED)
        } else {
            own
        }
    }
}

impl Takes {
    fn takes(self, address: Ipv6Addr) -> bool {
        match self {
            Self::Both => true,
            Self::V4 => address.to_ipv4_mapped().is_some(),
            Self::V6 => address.to_ipv4_mapped().is_none(),
        }
    }
}

/// Ways into namespaces, several into most; and of how many processes the way
/// is not told.
fn paths() -> (Vec<PathBuf>, u64) {
    let listed = |directory: &str| fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths = vec![PathBuf::from("/proc/thread-self/ns/net")];
    let mut silent = 0;
    for process in listed("/proc") {
        let name = process.file_name();
        let is_process = name
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process {
            continue;
        }
        let path = process.path().join("ns/net");
        match fs::metadata(&path) {
            Ok(_) => paths.push(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => silent += 1,
            // It has ended.
            Err(_) => {}
        }
    }
    let named = NAMED.into_iter().flat_map(listed);
    paths.extend(named.map(|entry| entry.path()));
    (paths, silent)
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.ino())
}

/// Enters a namespace, for the rest of this thread's life: its cookie, and what
/// is in it.
fn enter(path: &Path) -> io::Result<(u64, Namespace)> {
    setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
    here()
}

/// Cookie of this thread's namespace, and what is in it.
fn here() -> io::Result<(u64, Namespace)> {
    let cookie = cookie(&Socket::new(NETLINK_SOCK_DIAG)?)? & COOKIE;
    let mut listeners = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut request = [0; REQUEST];
        request[0] = u8::try_from(family).map_err(io::Error::other)?;
        request[1] = u8::try_from(libc::IPPROTO_TCP).map_err(io::Error::other)?;
        request[4..8].copy_from_slice(&(1u32 << LISTEN).to_ne_bytes());
        let answers = dump(NETLINK_SOCK_DIAG, BY_FAMILY, &request)?;
        listeners.extend(answers.iter().filter_map(|body| listener(body)));
    }
    let addresses = getifaddrs()?
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|it| it.ip().to_ipv6_mapped());
            v4.or_else(|| address.as_sockaddr_in6().map(|it| it.ip()))
        })
        .collect();
    let namespace = Namespace {
        addresses,
        listeners,
    };
    Ok((cookie, namespace))
}

fn listener(body: &[u8]) -> Option<Listener> {
    let bytes = |from: usize, count: usize| body.get(from..from + count);
    let v6 = i32::from(*body.first()?) == libc::AF_INET6;
    let address = match v6 {
        true => IpAddr::from(<[u8; 16]>::try_from(bytes(8, 16)?).ok()?),
        false => IpAddr::from(<[u8; 4]>::try_from(bytes(8, 4)?).ok()?),
    };
    let of = |kind: u16| move |(found, _): &(u16, &[u8])| *found == kind;
    let only = attributes(body, ANSWER).find(of(V6_ONLY));
    let only = only.is_some_and(|(_, value)| value.first() == Some(&1));
    let (_, cgroup) = attributes(body, ANSWER).find(of(CGROUP_ID))?;
    Some(Listener {
        address: match address {
            IpAddr::V4(v4) if v4.is_unspecified() => Ipv6Addr::UNSPECIFIED,
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        },
        port: u16::from_be_bytes(bytes(4, 2)?.try_into().ok()?),
        takes: match (v6, only) {
            (false, _) => Takes::V4,
            (true, true) => Takes::V6,
            (true, false) => Takes::Both,
        },
        cgroup: u64::from_ne_bytes(cgroup.get(..8)?.try_into().ok()?),
    })
}

/// The cookie of a socket's network namespace.
fn cookie(socket: &Socket) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).map_err(io::Error::other)?;
    // SAFETY: `cookie` is as long as `length` says, and both outlive the call.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match failed {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    use super::*;

    fn listener(address: &str, port: u16, takes: Takes, cgroup: u64) -> Listener {
        Listener {
            address: address.parse().unwrap(),
            port,
            takes,
            cgroup,
        }
    }

    fn at(listeners: &[Listener], called: &str) -> Vec<u64> {
        let namespace = Namespace {
            addresses: BTreeSet::new(),
            listeners: listeners.to_vec(),
        };
        namespace.at(called.parse().unwrap(), 80)
    }

    #[test]
    fn a_socket_of_this_process_is_found_with_its_cgroup() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else {
            panic!("no IPv4");
        };
        let (cookie, namespace) = here().unwrap();
        let called = address.ip().to_ipv6_mapped();
        let found = namespace.at(called, u32::from(address.port()));
        assert_eq!(found.len(), 1, "{namespace:?}");
        assert!(namespace.addresses.contains(&called), "lo has no address");
        assert_ne!(cookie, 0);
    }

    #[test]
    fn a_socket_bound_to_the_address_goes_before_one_bound_to_any() {
        let any = listener("::", 80, Takes::V4, 1);
        let own = listener("::ffff:10.0.0.1", 80, Takes::V4, 2);
        let other = listener("::ffff:10.0.0.1", 81, Takes::V4, 3);
        assert_eq!(at(&[any, own, other], "::ffff:10.0.0.1"), [2]);
        assert_eq!(at(&[any, own, other], "::ffff:10.0.0.2"), [1]);
        assert_eq!(at(&[own], "::ffff:10.0.0.2"), [0; 0]);
    }

    #[test]
    fn who_listens_to_one_family_takes_no_other() {
        let both = listener("::", 80, Takes::Both, 1);
        let six = listener("::", 80, Takes::V6, 2);
        assert_eq!(at(&[both], "::ffff:10.0.0.1"), [1]);
        assert_eq!(at(&[six], "::ffff:10.0.0.1"), [0; 0]);
        assert_eq!(at(&[six], "fd00::1"), [2]);
    }
}
