//! The machine: what an init system sets up, and the kernel's own counters.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::report::remark;

/// Where what is mounted, and of which type: as systemd does it, but for `/sys/fs/bpf`, which is
/// left to the daemon.
const MOUNTS: [(&str, &str); 5] = [
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/sys/fs/cgroup", "cgroup2"),
    ("/dev", "devtmpfs"),
    ("/run", "tmpfs"),
];

/// Of the kernel, packed beside the programs: nobody loads them here when they are first needed.
const MODULES: [&str; 4] = ["sch_ingress", "cls_bpf", "sch_fq", "veth"];
const NO_PARAMETERS: &CStr = c"";

/// Mounts the file systems, loads modules and brings up the loopback.
pub fn prepare() {
    for (place, kind) in MOUNTS {
        mount_at(place, kind).expect("the machine has its file systems");
    }
    fs::create_dir_all("/tmp").expect("a file system in memory");
    fs::create_dir_all("/var").expect("a file system in memory");
    // There `ip` looks for networks.
    symlink("/run", "/var/run").expect("a file system in memory");
    for module in MODULES {
        load(module).expect("the kernel takes its modules");
    }
    loopback_up("/sys").expect("the loopback comes up");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    remark(format_args!("Linux {}", release.trim()));
}

fn mount_at(place: &str, kind: &str) -> Result<()> {
    // Some are there: in the archive, or in the file system mounted before.
    fs::create_dir_all(place)?;
    mount(
        Some(kind),
        place,
        Some(kind),
        MsFlags::empty(),
        None::<&str>,
    )
    .with_context(|| format!("mount {kind} at {place}"))
}

fn load(module: &str) -> Result<()> {
    let path = format!("/bin/{module}.ko");
    let file = File::open(&path).with_context(|| path.clone())?;
    finit_module(&file, NO_PARAMETERS, ModuleInitFlags::empty()).context(path)
}

/// The flags of a device are a file (`IFF_UP` is 1), where sysfs shows the devices of the network
/// namespace that mounted it.
fn loopback_up(sysfs: &str) -> Result<()> {
    fs::write(Path::new(sysfs).join("class/net/lo/flags"), "1").context("lo up")
}

/// Runs `work` on a thread in a network namespace of its own with a loopback; processes that it
/// starts are in there too.
pub fn in_another_network<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        mount_at("/run/sys", "sysfs").expect("sysfs of the namespace");
        loopback_up("/run/sys").expect("its loopback comes up");
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// SYNs of new connections that left so far, in the calling thread's network namespace: a connect
/// that is denied sends none.
pub fn syns() -> u64 {
    count("snmp", "Tcp:", "ActiveOpens")
}

/// Segments that were sent again.
pub fn sent_again() -> u64 {
    count("snmp", "Tcp:", "RetransSegs")
}

/// Segments that came before one that was sent earlier.
pub fn out_of_order() -> u64 {
    count("netstat", "TcpExt:", "TCPOFOQueue")
}

/// A counter of the calling thread's network namespace.
fn count(file: &str, protocol: &str, name: &str) -> u64 {
    let path = format!("/proc/thread-self/net/{file}");
    let counters = fs::read_to_string(path).expect("the kernel counts");
    counter(&counters, protocol, name).unwrap_or_else(|| panic!("the kernel counts no {name}"))
}

/// A line of names and a line of numbers below it.
fn counter(snmp: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with(protocol));
    let names = lines.next()?.split(' ');
    let mut numbers = lines.next()?.split(' ');
    let at = names.into_iter().position(|each| each == name)?;
    numbers.nth(at)?.parse().ok()
}

/// Ends the machine; never returns, since the first process may not end.
pub fn power_off() {
    // Refused on a kernel without SysRq: then the host ends it.
    let _ = fs::write("/proc/sysrq-trigger", "o");
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn ActiveOpens\nTcp: 200 -1 42\n";
        assert_eq!(counter(snmp, "Tcp:", "ActiveOpens"), Some(42));
        assert_eq!(counter(snmp, "Tcp:", "Absent"), None);
    }
}
