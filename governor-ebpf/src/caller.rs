//! Who calls: the workload of the current process.

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::{
        bpf_get_current_cgroup_id,
        generated::{
            bpf_get_current_ancestor_cgroup_id, bpf_skb_ancestor_cgroup_id, bpf_skb_cgroup_id,
        },
    },
};
use governor_core::key::{CgroupEntry, Config};

use crate::maps::CGROUPS;

/// Deepest cgroup level that is looked at (the kernel's default limit is far
/// beyond what container runtimes nest).
const DEEPEST: u32 = 8;

/// The calling workload.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Cgroup id of the workload.
    pub workload: u64,
    /// Its class in the policy in force.
    pub class: u32,
    /// Whether the daemon has named its cgroup.
    pub named: bool,
}

#[inline(always)]
fn belongs(entry: &CgroupEntry, config: &Config) -> Caller {
    let class = if config.generation & 1 == 0 {
        entry.class[0]
    } else {
        entry.class[1]
    };
    Caller {
        workload: entry.workload,
        class,
        named: true,
    }
}

/// Finds the workload. A cgroup the daemon does not know yet belongs to its
/// nearest known ancestor: a child that a workload makes for itself stays the
/// workload's, and a new unit is a workload of its own, without a class until
/// the daemon names it.
#[inline(always)]
pub fn find(config: &Config) -> Caller {
    // SAFETY: no arguments, always valid in a process's context.
    let leaf = unsafe { bpf_get_current_cgroup_id() };
    // SAFETY: the daemon replaces entries as a whole; a stale one is harmless.
    if let Some(entry) = unsafe { CGROUPS.get(leaf) }
        && entry.workload != 0
    {
        return belongs(entry, config);
    }
    search(config, leaf, ancestor)
}

/// What is known of a workload by its id.
#[inline(always)]
pub fn of_workload(config: &Config, workload: u64) -> Caller {
    // SAFETY: as in `find`.
    match unsafe { CGROUPS.get(workload) } {
        Some(entry) => Caller {
            workload,
            ..belongs(entry, config)
        },
        None => Caller {
            workload,
            class: 0,
            named: false,
        },
    }
}

/// Finds the workload of a packet's socket, as [`find`] does for a process.
#[inline(always)]
pub fn of_packet(config: &Config, skb: *mut __sk_buff) -> Caller {
    // SAFETY: the kernel's context.
    let leaf = unsafe { bpf_skb_cgroup_id(skb) };
    search(config, leaf, |level| {
        // SAFETY: as above; a level that is not there gives 0.
        unsafe { bpf_skb_ancestor_cgroup_id(skb, level as i32) }
    })
}

#[inline(never)]
fn ancestor(level: u32) -> u64 {
    // SAFETY: any level is allowed; a level that is not there gives 0.
    unsafe { bpf_get_current_ancestor_cgroup_id(level as i32) }
}

#[inline(always)]
fn search(config: &Config, leaf: u64, ancestor: impl Fn(u32) -> u64) -> Caller {
    let mut level = DEEPEST;
    let mut below = leaf;
    while level > 0 {
        let id = ancestor(level);
        if id != 0 {
            // SAFETY: as in `find`.
            if let Some(entry) = unsafe { CGROUPS.get(id) } {
                if entry.workload != 0 {
                    return belongs(entry, config);
                }
                if id == leaf {
                    // A process right in a cgroup that only groups: it is a
                    // workload of its own there.
                    return Caller {
                        workload: leaf,
                        ..belongs(entry, config)
                    };
                }
                return Caller {
                    workload: below,
                    class: 0,
                    named: false,
                };
            }
            below = id;
        }
        if level <= config.level {
            break;
        }
        level -= 1;
    }
    Caller {
        workload: below,
        class: 0,
        named: false,
    }
}
