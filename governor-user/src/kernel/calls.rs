//! The `bpf(2)` calls that aya does not offer: asking a cgroup or a device what is
//! attached to it, and detaching a link that others hold too.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya::programs::TcAttachType;
use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd};

/// Programs at one attach point that are told apart: the kernel allows 64.
const MOST: usize = 64;
/// `BPF_F_ALLOW_MULTI`; links always have it.
const ALLOW_MULTI: u32 = 2;

/// What is attached to a cgroup itself at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtPoint {
    /// Ids of the programs.
    pub programs: Vec<u32>,
    /// They let nobody else in beside them.
    pub exclusive: bool,
}

fn blank() -> bpf_attr {
    // SAFETY: bpf_attr is a union of plain integers; all zero is a value of each.
    unsafe { mem::zeroed() }
}

/// # Safety
///
/// Pointers in `attr` must be good for what `command` does with them.
unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes `attr` within the size given; what it
    // points to is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<bpf_attr>()) };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks the kernel what is attached to `cgroup` at one point.
pub fn at_point(cgroup: &File, point: bpf_attach_type) -> io::Result<AtPoint> {
    let (programs, flags) = query(cgroup.as_raw_fd().unsigned_abs(), point)?;
    Ok(AtPoint {
        exclusive: !programs.is_empty() && flags & ALLOW_MULTI == 0,
        programs,
    })
}

/// Asks the kernel which programs are attached to a device, by its number, as links
/// (TCX, since Linux 6.6). aya's `query_tcx` opens each of them to know more of it,
/// which takes `CAP_SYS_ADMIN`; their ids are enough.
pub fn at_device(index: u32, direction: TcAttachType) -> io::Result<Vec<u32>> {
    let point = match direction {
        TcAttachType::Ingress => bpf_attach_type::BPF_TCX_INGRESS,
        TcAttachType::Egress => bpf_attach_type::BPF_TCX_EGRESS,
        TcAttachType::Custom(_) => return Ok(Vec::new()),
    };
    query(index, point).map(|(programs, _)| programs)
}

/// Ids of what is attached at one point of a target, and the flags of it. The target
/// is a descriptor or the number of a device, which share their place.
fn query(target: u32, point: bpf_attach_type) -> io::Result<(Vec<u32>, u32)> {
    let mut ids = [0u32; MOST];
    let mut attr = blank();
    attr.query.__bindgen_anon_1.target_fd = target;
    attr.query.attach_type = point as u32;
    attr.query.prog_ids = ids.as_mut_ptr() as u64;
    attr.query.__bindgen_anon_2.prog_cnt = MOST as u32;
    // SAFETY: `prog_ids` has room for `prog_cnt` ids.
    unsafe { bpf(bpf_cmd::BPF_PROG_QUERY, &mut attr)? };
    // SAFETY: the kernel has written the count and the flags.
    let (count, flags) = unsafe {
        (
            attr.query.__bindgen_anon_2.prog_cnt,
            attr.query.attach_flags,
        )
    };
    Ok((ids.into_iter().take(count as usize).collect(), flags))
}

/// Detaches the link that is pinned at `path`, whoever else holds it. Without
/// this a link ends with its last holder only, and a daemon that runs is one.
pub fn detach_pinned(path: &Path) -> io::Result<()> {
    let link = open_pinned(path)?;
    let mut attr = blank();
    attr.link_detach.link_fd = link.as_raw_fd().unsigned_abs();
    // SAFETY: no pointers.
    unsafe { bpf(bpf_cmd::BPF_LINK_DETACH, &mut attr)? };
    Ok(())
}

fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = blank();
    attr.__bindgen_anon_4.pathname = path.as_ptr() as u64;
    // SAFETY: the path outlives the call.
    let fd = unsafe { bpf(bpf_cmd::BPF_OBJ_GET, &mut attr)? };
    // SAFETY: the kernel has just given it to us, and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_cgroup_is_refused_by_the_kernel() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(at_point(&file, bpf_attach_type::BPF_CGROUP_INET4_CONNECT).is_err());
    }

    #[test]
    fn what_is_no_pin_is_not_detached() {
        let absent = detach_pinned(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(
            matches!(absent.raw_os_error(), Some(libc::ENOENT | libc::EPERM)),
            "{absent}"
        );
    }
}
