//! What the kernel tests need of the machine. Nothing is skipped: a missing piece fails the test.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::cgroup;

/// Panics with one line that names all that is missing. Tests call it first ([`crate::lab::Lab`] does).
#[track_caller]
pub fn require_kernel() {
    static MISSING: OnceLock<Vec<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(missing);
    assert!(
        missing.is_empty(),
        "kernel tests cannot run here: {} (run `cargo xtask test`)",
        missing.join("; ")
    );
}

/// Bits of `CapEff`, from linux/capability.h.
const CAPABILITIES: [(&str, u32); 3] = [
    ("CAP_NET_ADMIN", 12),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_BPF", 39),
];

/// All that is missing, in words; nothing: kernel tests can run.
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !nix::unistd::geteuid().is_root() {
        missing.push("not root".to_owned());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = effective_capabilities(&status);
    missing.extend(
        CAPABILITIES
            .iter()
            .filter(|(_, bit)| effective >> bit & 1 == 0)
            .map(|(name, _)| format!("no {name}")),
    );
    match cgroup::root() {
        Ok(root) if !root.join("cgroup.procs").exists() => {
            missing.push(format!("{} is no cgroup root", root.display()))
        }
        Ok(_) => {}
        Err(error) => missing.push(format!("{error:#}")),
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        missing.push("the kernel has no BTF".to_owned());
    }
    for (program, package) in [("ip", "iproute2"), ("nft", "nftables")] {
        if !runs(program) {
            missing.push(format!("no {program} (package {package})"));
        }
    }
    missing
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

fn runs(program: &str) -> bool {
    let status = Command::new(program)
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_of_a_process() {
        let status = "CapPrm:\t0\nCapEff:\t0000008000201000\nCapBnd:\t0\n";
        let effective = effective_capabilities(status);
        for (name, bit) in CAPABILITIES {
            assert_eq!(effective >> bit & 1, 1, "{name}");
        }
        assert_eq!(effective_capabilities("CapEff:\tnonsense"), 0);
    }
}
