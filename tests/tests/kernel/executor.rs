//! The programs of tc alone, on devices of the test's own namespaces. What the judge writes into a
//! socket's record, the test writes: the record is reached by the socket's descriptor.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{MapData, SkStorage};
use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcAttachType, qdisc_add_clsact,
};
use aya::programs::{LinkOrder, SchedClassifier};
use bytemuck::{Pod, Zeroable};
use governor_core::key::map;
use governor_core::record::{Record, flag};
use governor_core::verdict::Reason;
use governor_tests::bench::empty;
use governor_tests::netns::Netns;

use super::{Kernel, Wire, now};

/// From linux/tcp.h.
const SEND_QUEUE: libc::c_int = 2;
const REPAIR_ON: libc::c_int = 1;
const REPAIR_OFF_WITHOUT_PROBE: libc::c_int = -1;

/// Where it meets a caller's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// As they leave the caller's namespace: `act_egress`.
    Egress,
    /// As they come from a pod, at the host's end of its wire: `act_ingress`.
    Ingress,
}

/// How it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A link, from Linux 6.6 on.
    Tcx,
    /// A filter of the clsact queue, which gives way to any link.
    Clsact,
}

impl Means {
    /// All that this kernel has, the usual one first.
    pub fn of_this_kernel() -> &'static [Self] {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map(|it| it.parse::<u32>().unwrap_or(0));
        let has_links = numbers.next() >= Some(7) || numbers.next() >= Some(6);
        if has_links {
            &[Self::Tcx, Self::Clsact]
        } else {
            &[Self::Clsact]
        }
    }

    /// The usual one.
    pub fn usual() -> Self {
        Self::of_this_kernel()[0]
    }
}

/// The loaded programs and what is attached. Dropped, they are gone.
pub struct Executor {
    kernel: Kernel,
    links: Vec<SchedClassifierLink>,
}

/// A record that says: refuse what is sent next, for this reason.
pub fn refusal(reason: Reason, retry_after: u32) -> Record {
    Record {
        flags: flag::CONNECTED | flag::REFUSED,
        refused_why: reason as u32,
        retry_after,
        ..Record::zeroed()
    }
}

impl Executor {
    /// Loads both programs.
    pub fn load() -> Self {
        Self {
            kernel: Kernel::verified(&[], |name| name.starts_with("act_")),
            links: Vec::new(),
        }
    }

    /// What went wrong, and what the verifier said.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Attaches a program to a device of `netns`.
    pub fn attach(&mut self, netns: &Netns, device: &str, hook: Hook, means: Means) {
        let name = match hook {
            Hook::Egress => "act_egress",
            Hook::Ingress => "act_ingress",
        };
        let program = self.kernel.0.program_mut(name).unwrap();
        let program: &mut SchedClassifier = program.try_into().unwrap();
        let link = attach(program, netns, device, hook, means, 1);
        self.links.extend(keep(link, means));
    }

    /// Gives a socket a record, as connecting does.
    pub fn govern(&mut self, socket: &TcpStream) {
        self.set(
            socket,
            &Record {
                flags: flag::CONNECTED,
                ..Record::zeroed()
            },
        );
    }

    /// Refuses what the socket sends next.
    pub fn refuse(&mut self, socket: &TcpStream, record: &Record) {
        let reached = self.record(socket).flags & flag::REACHED;
        self.set(
            socket,
            &Record {
                refused: next_sequence(socket),
                flags: record.flags | reached,
                ..*record
            },
        );
    }

    /// Holds back what the socket sends next, from now on.
    pub fn hold(&mut self, socket: &TcpStream, delay: Duration) {
        let record = Record {
            not_before: now() + u64::try_from(delay.as_nanos()).unwrap(),
            ..self.record(socket)
        };
        self.set(socket, &record);
    }

    /// The socket's record; zeroes where it has none.
    pub fn record(&self, socket: &TcpStream) -> Record {
        let map = self.kernel.0.map(map::RECORDS).unwrap();
        let records: SkStorage<&MapData, Wire<Record>> = map.try_into().unwrap();
        records
            .get(socket, 0)
            .map_or_else(|_| Record::zeroed(), |record| record.0)
    }

    fn set(&mut self, socket: &TcpStream, record: &Record) {
        let map = self.kernel.0.map_mut(map::RECORDS).unwrap();
        let mut records: SkStorage<&mut MapData, Wire<Record>> = map.try_into().unwrap();
        records.insert(socket, Wire(*record), 0).unwrap();
    }
}

/// A program of somebody else that lets everything go (TC_ACT_OK).
pub struct Witness {
    program: Ebpf,
    _link: Option<SchedClassifierLink>,
}

impl Witness {
    /// Attaches it behind an executor.
    pub fn attach(netns: &Netns, device: &str, hook: Hook, means: Means) -> Self {
        let mut ebpf = empty::load().unwrap();
        let program: &mut SchedClassifier = ebpf.program_mut("law").unwrap().try_into().unwrap();
        program.load().unwrap();
        let link = attach(program, netns, device, hook, means, 2);
        Self {
            program: ebpf,
            _link: keep(link, means),
        }
    }

    /// How often it ran, where the kernel counts that.
    pub fn seen(&self) -> u64 {
        let program: &SchedClassifier = self.program.program("law").unwrap().try_into().unwrap();
        program.info().unwrap().run_count()
    }
}

/// Detaching a filter looks for the device by its number, in whatever namespace the test is in then.
/// It goes with its device instead.
fn keep(link: SchedClassifierLink, means: Means) -> Option<SchedClassifierLink> {
    match means {
        Means::Tcx => Some(link),
        Means::Clsact => {
            std::mem::forget(link);
            None
        }
    }
}

/// Attaches a program; of two the one with the lower `priority` runs first.
fn attach(
    program: &mut SchedClassifier,
    netns: &Netns,
    device: &str,
    hook: Hook,
    means: Means,
    priority: u16,
) -> SchedClassifierLink {
    let kind = match hook {
        Hook::Egress => TcAttachType::Egress,
        Hook::Ingress => TcAttachType::Ingress,
    };
    netns.run(|| {
        let options = match means {
            Means::Tcx => TcAttachOptions::TcxOrder(LinkOrder::last()),
            Means::Clsact => {
                // There may be one.
                let _ = qdisc_add_clsact(device);
                let options = NlOptions {
                    priority,
                    ..NlOptions::default()
                };
                TcAttachOptions::Netlink(options)
            }
        };
        let id = program.attach_with_options(device, kind, options).unwrap();
        program.take_link(id).unwrap()
    })
}

/// The number that the next byte sent will have. Repair mode shows it, and is left without the probe
/// that would otherwise go out.
pub fn next_sequence(socket: &TcpStream) -> u32 {
    set_option(socket, libc::TCP_REPAIR, REPAIR_ON);
    set_option(socket, libc::TCP_REPAIR_QUEUE, SEND_QUEUE);
    let sequence = option(socket, libc::TCP_QUEUE_SEQ);
    set_option(socket, libc::TCP_REPAIR, REPAIR_OFF_WITHOUT_PROBE);
    sequence
}

/// Segments that a socket sent again.
pub fn retransmissions(socket: &TcpStream) -> u32 {
    // Words of 32 bits but for the first two; the wanted one is the last of Linux 2.6.
    let info: [u32; 26] = option(socket, libc::TCP_INFO);
    info[25]
}

fn option<T: Pod>(socket: &TcpStream, name: libc::c_int) -> T {
    let mut value = T::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).unwrap();
    // SAFETY: both out-parameters are alive, and as large as said.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    value
}

fn set_option(socket: &TcpStream, name: libc::c_int, value: libc::c_int) {
    // SAFETY: the value is alive, and as large as said.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw const value).cast(),
            libc::socklen_t::try_from(size_of_val(&value)).unwrap(),
        )
    };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
}
