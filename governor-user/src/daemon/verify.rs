//! Whether the programs are attached: asked of the cgroup, not of our links. A
//! link can outlive its cgroup (cilium#48420: links to a dead cgroup, a healthy
//! report and nothing attached), so holding one proves nothing.

use std::fs::File;
use std::io;
use std::path::Path;

use aya_obj::generated::bpf_attach_type;

use crate::cgroup;
use crate::errors::Result;
use crate::kernel::at_point;

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

/// The root of the whole hierarchy has the inode 1; the root of a cgroup
/// namespace looks just like it in mountinfo, but has another (measured on 6.18).
const HOST_ROOT: u64 = 1;

/// Whether `root` is the root of the host's hierarchy, not of a namespace.
pub fn is_host_root(root: &Path) -> Result<bool> {
    Ok(cgroup::id(root)? == HOST_ROOT)
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
