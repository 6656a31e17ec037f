//! Who calls: which cgroups are workloads.
//!
//! A workload is a pod, a container or a unit: the ancestor that its manager
//! made, never a leaf that the workload itself can make, else a new leaf would
//! be a way out of an open breaker. Everything below a workload belongs to it.
//!
//! Of a pod the pod is the workload, not its containers: a container that
//! crashes and comes back, which is how many retry storms look from the node,
//! keeps its history.
//!
//! Going down from the cgroup root, each name says what its cgroup is; see
//! [`Role`]. Patterns: coroot's `cgroup/cgroup.go`; the tests hold their fixtures.

/// What a cgroup below the root is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It only groups: each of its children is looked at.
    Group,
    /// A workload.
    Workload,
    /// A workload of its own, whose children are workloads where their names
    /// say so: a user's slice (the user manager), a container runtime's unit
    /// (containers it starts below itself).
    Host,
}

/// Directories that only group, beside systemd's slices.
const GROUPS: [&str; 12] = [
    // kubelet with the cgroupfs driver
    "kubepods",
    "burstable",
    "besteffort",
    // docker and podman with the cgroupfs driver, containerd's namespaces, LXC, ECS, Garden
    "docker",
    "libpod_parent",
    "k8s.io",
    "moby",
    "lxc",
    "ecs",
    "garden",
    // Talos
    "podruntime",
    "system",
];

/// Units that may start containers below themselves, where the kubelet uses
/// the systemd driver and the runtime does not.
const RUNTIMES: [&str; 6] = [
    "containerd.service",
    "docker.service",
    "crio.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
];

/// Where a cgroup belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// It only groups workloads.
    Group,
    /// It belongs to the workload with this path (perhaps its own).
    Within(&'a str),
}

/// Where the cgroup at `path` (below the cgroup root, `/` itself included) belongs.
pub fn place(path: &str) -> Place<'_> {
    let mut host = None;
    let mut parent = "";
    for (end, name) in names(path) {
        let role = match host {
            None => role(name),
            Some(_) if is_child_workload(parent, name) => Role::Workload,
            Some(_) => break,
        };
        match role {
            Role::Group => {}
            Role::Workload => return Place::Within(&path[..end]),
            Role::Host => host = Some(&path[..end]),
        }
        parent = name;
    }
    host.map_or(Place::Group, Place::Within)
}

/// Whether workloads may appear directly below the cgroup at `path`.
pub fn holds_workloads(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    match place(path) {
        Place::Group => true,
        Place::Within(workload) => workload == path && role(last) == Role::Host,
    }
}

/// Each name of the path and where it ends.
fn names(path: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = path.as_ptr() as usize;
    path.split('/')
        .filter(|name| !name.is_empty())
        .map(move |name| (name.as_ptr() as usize - start + name.len(), name))
}

fn role(name: &str) -> Role {
    if is_pod(name) {
        Role::Workload
    } else if is_user_slice(name) || RUNTIMES.contains(&name) {
        Role::Host
    } else if name.ends_with(".slice") || GROUPS.contains(&name) {
        Role::Group
    } else {
        Role::Workload
    }
}

/// Children of a [`Role::Host`] that are workloads of their own. A login
/// session is not: each `cron` job or `ssh` makes a new one.
fn is_child_workload(parent: &str, name: &str) -> bool {
    if is_user_slice(parent) {
        name.starts_with("user@") && name.ends_with(".service")
    } else {
        is_slice_colon_container(name)
    }
}

/// `kubepods-burstable-pod<uid>.slice`, `kubepods-pod<uid>.slice`,
/// `pod<uid>`, `machine-libpod_pod_<id>.slice`.
fn is_pod(name: &str) -> bool {
    let uid = match name.strip_suffix(".slice") {
        None => name.strip_prefix("pod"),
        Some(slice) => slice
            .contains("kubepods")
            .then(|| slice.rsplit_once("-pod"))
            .flatten()
            .or_else(|| slice.split_once("libpod_pod_"))
            .map(|(_, uid)| uid),
    };
    uid.is_some_and(is_uid)
}

/// A UUID (with `_` for `-` in slices), or 32 or more hex digits (static pods, podman).
fn is_uid(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let hyphens = text.bytes().filter(|b| matches!(b, b'-' | b'_')).count();
    digits + hyphens == text.len() && digits >= 32 && (hyphens == 0 || hyphens == 4)
}

/// `kubepods-burstable-pod<uid>.slice:cri-containerd:<id>`: what runc makes of
/// a systemd-driver path when it was told to use the cgroupfs driver.
fn is_slice_colon_container(name: &str) -> bool {
    name.split_once(':')
        .is_some_and(|(slice, _)| slice.ends_with(".slice"))
}

/// `user-1000.slice`.
fn is_user_slice(name: &str) -> bool {
    name.strip_prefix("user-")
        .and_then(|rest| rest.strip_suffix(".slice"))
        .is_some_and(|uid| !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "56f49a1d4a5e7f4c2d3b0d0a9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c";

    #[rustfmt::skip]
    /// (path with `ID` for a container's 64 hex digits, its workload; "" where it only groups)
    const FIXTURES: &[(&str, &str)] = &[
        // systemd units
        ("/", ""),
        ("/system.slice", ""),
        ("/system.slice/nginx.service", "/system.slice/nginx.service"),
        (
            "/system.slice/nginx.service/workers/1",
            "/system.slice/nginx.service",
        ),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            "/system.slice/system-getty.slice/getty@tty1.service",
        ),
        (
            "/system.slice/system-postgresql.slice/postgresql@9.4-main.service",
            "/system.slice/system-postgresql.slice/postgresql@9.4-main.service",
        ),
        (
            "/system.slice/run-r2d1a.scope",
            "/system.slice/run-r2d1a.scope",
        ),
        ("/init.scope", "/init.scope"),
        (
            "/runtime.slice/kubelet.service",
            "/runtime.slice/kubelet.service",
        ),
        // users: the manager's unit; sessions belong to the user
        ("/user.slice", ""),
        ("/user.slice/user-1000.slice", "/user.slice/user-1000.slice"),
        (
            "/user.slice/user-1000.slice/session-3.scope",
            "/user.slice/user-1000.slice",
        ),
        (
            "/user.slice/user-1000.slice/session-c17.scope/made-by-user",
            "/user.slice/user-1000.slice",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service",
            "/user.slice/user-1000.slice/user@1000.service",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/init.scope",
            "/user.slice/user-1000.slice/user@1000.service",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-web.service",
            "/user.slice/user-1000.slice/user@1000.service",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
            "/user.slice/user-1000.slice/user@1000.service",
        ),
        // Kubernetes, systemd driver
        ("/kubepods.slice", ""),
        ("/kubepods.slice/kubepods-burstable.slice", ""),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a2f9a4e_0b1c_4f0e_9a57_2f1c8b7d6e5f.slice",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a2f9a4e_0b1c_4f0e_9a57_2f1c8b7d6e5f.slice",
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a2f9a4e_0b1c_4f0e_9a57_2f1c8b7d6e5f.slice/cri-containerd-ID.scope",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a2f9a4e_0b1c_4f0e_9a57_2f1c8b7d6e5f.slice",
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0d206349_0faf_445c_8c3f_2d2153784f15.slice/crio-ID.scope/container",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0d206349_0faf_445c_8c3f_2d2153784f15.slice",
        ),
        // guaranteed: no level of its own; kube-proxy: a leaf more
        (
            "/kubepods.slice/kubepods-podd63c5f2a_9f5b_4b0c_8a40_7a2a3ff2bfa3.slice/docker-ID.scope/kube-proxy",
            "/kubepods.slice/kubepods-podd63c5f2a_9f5b_4b0c_8a40_7a2a3ff2bfa3.slice",
        ),
        // static pods have a hash for a uid
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podad7c7fbf0ad1c0cbd2b1a8d9f1f8a3d0.slice/cri-containerd-ID.scope",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podad7c7fbf0ad1c0cbd2b1a8d9f1f8a3d0.slice",
        ),
        // Kubernetes, cgroupfs driver
        ("/kubepods", ""),
        ("/kubepods/burstable", ""),
        (
            "/kubepods/burstable/pod9729a196-c4bb-4a6a-b2a0-2f1a4c6d1e3b/ID",
            "/kubepods/burstable/pod9729a196-c4bb-4a6a-b2a0-2f1a4c6d1e3b",
        ),
        (
            "/kubepods/pod9729a196-c4bb-4a6a-b2a0-2f1a4c6d1e3b/ID/init",
            "/kubepods/pod9729a196-c4bb-4a6a-b2a0-2f1a4c6d1e3b",
        ),
        (
            "/kubepods/besteffort/podbda3d1a2-5b0d-4c0e-8d3f-111111111111",
            "/kubepods/besteffort/podbda3d1a2-5b0d-4c0e-8d3f-111111111111",
        ),
        // kubelet on systemd, runtime on cgroupfs
        (
            "/system.slice/containerd.service",
            "/system.slice/containerd.service",
        ),
        (
            "/system.slice/containerd.service/kubepods-burstable-pod4ed02c0b_0df8_4d14_a30e_fd589ee4143a.slice:cri-containerd:ID",
            "/system.slice/containerd.service/kubepods-burstable-pod4ed02c0b_0df8_4d14_a30e_fd589ee4143a.slice:cri-containerd:ID",
        ),
        (
            "/system.slice/containerd.service/anything",
            "/system.slice/containerd.service",
        ),
        (
            "/kubepods-besteffort-pod4ed02c0b_0df8_4d14_a30e_fd589ee4143a.slice:cri-containerd:ID",
            "/kubepods-besteffort-pod4ed02c0b_0df8_4d14_a30e_fd589ee4143a.slice:cri-containerd:ID",
        ),
        // kind: a node is a slice tree in a container of the host
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podbdd2f26f_9a0d_4a0e_9a0e_3f1f6d1b2c3d.slice/cri-containerd-ID.scope",
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podbdd2f26f_9a0d_4a0e_9a0e_3f1f6d1b2c3d.slice",
        ),
        (
            "/system.slice/docker-ID.scope/kubelet.slice/kubelet-kubepods.slice",
            "/system.slice/docker-ID.scope",
        ),
        // containers without Kubernetes
        (
            "/system.slice/docker-ID.scope",
            "/system.slice/docker-ID.scope",
        ),
        ("/docker", ""),
        ("/docker/ID", "/docker/ID"),
        (
            "/docker/ID/user.slice/user-1.slice/user@1.service",
            "/docker/ID",
        ),
        (
            "/machine.slice/libpod-ID.scope/container",
            "/machine.slice/libpod-ID.scope",
        ),
        (
            "/machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope",
            "/machine.slice/machine-libpod_pod_ID.slice",
        ),
        (
            "/machine.slice/systemd-nspawn@web.service/payload/system.slice/a.service",
            "/machine.slice/systemd-nspawn@web.service",
        ),
        (
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/vcpu0",
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope",
        ),
        (
            "/lxc.payload.web/system.slice/nginx.service",
            "/lxc.payload.web",
        ),
        ("/lxc/web", "/lxc/web"),
        (
            "/ecstasks.slice/ecstasks-4f1f.slice/docker-ID.scope",
            "/ecstasks.slice/ecstasks-4f1f.slice/docker-ID.scope",
        ),
        ("/ecs/4f1f", "/ecs/4f1f"),
        (
            "/nomad.slice/share.slice/0f1e2d3c.web.scope",
            "/nomad.slice/share.slice/0f1e2d3c.web.scope",
        ),
        ("/podruntime/kubelet", "/podruntime/kubelet"),
        ("/system/apid", "/system/apid"),
        // no manager that we know: the first level
        ("/legacy", "/legacy"),
        ("/legacy/made/by/itself", "/legacy"),
        // look-alikes are no pods
        ("/podium", "/podium"),
        ("/kubepods.slice/kubepods-podcast.slice", ""),
        ("/user.slice/user-x.slice", ""),
        ("/app/user-1000.slice/user@1000.service", "/app"),
        (
            "/app/kubepods.slice/kubepods-podd63c5f2a_9f5b_4b0c_8a40_7a2a3ff2bfa3.slice",
            "/app",
        ),
    ];

    #[test]
    fn each_cgroup_belongs_to_the_ancestor_that_its_manager_made() {
        for (path, workload) in FIXTURES {
            let (path, workload) = (path.replace("ID", ID), workload.replace("ID", ID));
            let expected = match workload.as_str() {
                "" => Place::Group,
                workload => Place::Within(workload),
            };
            assert_eq!(place(&path), expected, "{path}");
        }
    }

    #[test]
    fn nothing_below_a_workload_is_another_workload() {
        for (path, workload) in FIXTURES.iter().filter(|(_, workload)| !workload.is_empty()) {
            let (path, workload) = (path.replace("ID", ID), workload.replace("ID", ID));
            let hosts = ["user-1000.slice", "containerd.service"];
            if hosts.iter().any(|host| workload.ends_with(host)) {
                continue;
            }
            for leaf in [
                "a",
                "b.slice",
                "c.service",
                "user@0.service",
                "kubepods",
                "docker",
            ] {
                assert_eq!(
                    place(&format!("{path}/{leaf}")),
                    Place::Within(&workload),
                    "{path}/{leaf}"
                );
            }
        }
    }

    #[test]
    fn workloads_appear_in_groups_users_and_runtimes_and_nowhere_else() {
        for path in [
            "/",
            "/system.slice",
            "/kubepods/burstable",
            "/user.slice/user-1.slice",
            "/system.slice/containerd.service",
        ] {
            assert!(holds_workloads(path), "{path}");
        }
        for path in [
            "/system.slice/a.service",
            "/legacy/docker",
            "/user.slice/user-1.slice/session-1.scope",
        ] {
            assert!(!holds_workloads(path), "{path}");
        }
    }

    #[test]
    fn paths_of_a_governed_subtree_follow_the_same_names() {
        // `--cgroup /sys/fs/cgroup/kubepods`
        assert_eq!(
            place("/burstable/pod9729a196-c4bb-4a6a-b2a0-2f1a4c6d1e3b/x"),
            Place::Within("/burstable/pod9729a196-c4bb-4a6a-b2a0-2f1a4c6d1e3b")
        );
        assert_eq!(place("/nginx.service/x"), Place::Within("/nginx.service"));
    }
}
