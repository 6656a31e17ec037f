//! Whether the programs are attached: asked of the cgroup, not of our links. A
//! link can outlive its cgroup (cilium#48420: links to a dead cgroup, a healthy
//! report and nothing attached), so holding one proves nothing.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd};

/// Programs at one attach point that are told apart; the kernel allows 64.
const MOST: usize = 64;

/// `BPF_F_ALLOW_MULTI`; links always have it.
const ALLOW_MULTI: u32 = 2;

/// Attach points of a cgroup, for our hooks and for others'.
pub const POINTS: [(&str, bpf_attach_type); 12] = [
    ("connect4", bpf_attach_type::BPF_CGROUP_INET4_CONNECT),
    ("connect6", bpf_attach_type::BPF_CGROUP_INET6_CONNECT),
    ("sock_ops", bpf_attach_type::BPF_CGROUP_SOCK_OPS),
    ("skb_egress", bpf_attach_type::BPF_CGROUP_INET_EGRESS),
    ("skb_ingress", bpf_attach_type::BPF_CGROUP_INET_INGRESS),
    ("sock_create", bpf_attach_type::BPF_CGROUP_INET_SOCK_CREATE),
    (
        "sock_release",
        bpf_attach_type::BPF_CGROUP_INET_SOCK_RELEASE,
    ),
    ("bind4", bpf_attach_type::BPF_CGROUP_INET4_BIND),
    ("bind6", bpf_attach_type::BPF_CGROUP_INET6_BIND),
    ("sendmsg4", bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG),
    ("sendmsg6", bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG),
    ("device", bpf_attach_type::BPF_CGROUP_DEVICE),
];

/// What is attached to a cgroup itself at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtPoint {
    /// Ids of the programs.
    pub programs: Vec<u32>,
    /// They let nobody else in beside them.
    pub exclusive: bool,
}

/// Asks the kernel what is attached to `cgroup` at one point.
pub fn at_point(cgroup: &File, point: bpf_attach_type) -> io::Result<AtPoint> {
    let mut ids = [0u32; MOST];
    // SAFETY: bpf_attr is a union of plain integers; all zero is a value of each.
    let mut attr: bpf_attr = unsafe { mem::zeroed() };
    attr.query.__bindgen_anon_1.target_fd = cgroup.as_raw_fd().unsigned_abs();
    attr.query.attach_type = point as u32;
    attr.query.prog_ids = ids.as_mut_ptr() as u64;
    attr.query.__bindgen_anon_2.prog_cnt = MOST as u32;
    // SAFETY: the kernel reads the attributes and writes at most `prog_cnt` ids
    // to `prog_ids`; both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            bpf_cmd::BPF_PROG_QUERY,
            &raw mut attr,
            size_of::<bpf_attr>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written the count and the flags.
    let (count, flags) = unsafe {
        (
            attr.query.__bindgen_anon_2.prog_cnt,
            attr.query.attach_flags,
        )
    };
    let programs: Vec<_> = ids.into_iter().take(count as usize).collect();
    Ok(AtPoint {
        exclusive: !programs.is_empty() && flags & ALLOW_MULTI == 0,
        programs,
    })
}

/// The hooks whose program is not attached to the cgroup, of (hook, program id).
pub fn missing<'a>(
    cgroup: &Path,
    hooks: impl Iterator<Item = (&'a str, u32)>,
) -> io::Result<Vec<&'a str>> {
    let cgroup = File::open(cgroup)?;
    let mut missing = Vec::new();
    for (hook, id) in hooks {
        let point = POINTS.iter().find(|(name, _)| *name == hook);
        let attached = match point {
            Some((_, point)) => at_point(&cgroup, *point)?.programs.contains(&id),
            None => false,
        };
        if !attached {
            missing.push(hook);
        }
    }
    Ok(missing)
}
