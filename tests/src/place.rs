//! Where a process lives: its cgroup, its network, its view of `/sys/fs/bpf`.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::bpffs::BpfFs;
use crate::cgroup::Cgroup;
use crate::must;
use crate::netns::Netns;

/// Where a process is to live. What is not said stays as it is for the test itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    netns: Option<&'a Netns>,
    cgroup: Option<&'a Cgroup>,
    bpffs: Option<&'a BpfFs>,
    hosts: Option<&'a Path>,
}

impl<'a> Place<'a> {
    /// In a namespace and a cgroup: where callers live.
    pub fn new(netns: &'a Netns, cgroup: &'a Cgroup) -> Self {
        Self {
            netns: Some(netns),
            cgroup: Some(cgroup),
            bpffs: None,
            hosts: None,
        }
    }

    /// The same place in another cgroup.
    pub fn in_cgroup(self, cgroup: &'a Cgroup) -> Self {
        Self {
            cgroup: Some(cgroup),
            ..self
        }
    }

    /// The same place in another network.
    pub fn in_netns(self, netns: &'a Netns) -> Self {
        Self {
            netns: Some(netns),
            ..self
        }
    }

    /// The same place with this file system at `/sys/fs/bpf`, in a mount namespace of the process's own.
    pub fn with_bpffs(self, bpffs: &'a BpfFs) -> Self {
        Self {
            bpffs: Some(bpffs),
            ..self
        }
    }

    /// The same place with this file as `/etc/hosts`, in a mount namespace of the process's own: what is written
    /// to it is seen there.
    pub fn with_hosts(self, hosts: &'a Path) -> Self {
        Self {
            hosts: Some(hosts),
            ..self
        }
    }

    /// Whether a network is named; else it is the test's own.
    pub(crate) fn has_a_network(&self) -> bool {
        self.netns.is_some()
    }

    /// Runs `work` in the place's network, in the caller's own process and cgroup.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.netns {
            Some(netns) => netns.run(work),
            None => work(),
        }
    }

    /// Makes `command` start here. It moves itself before it executes its program, so that not
    /// one socket of it is made elsewhere (a socket keeps the cgroup it was made in).
    pub fn settle(&self, command: &mut Command) {
        let cgroup = self.cgroup.map(Cgroup::entrance);
        let netns = self.netns.map(|netns| {
            must(
                netns
                    .handle()
                    .try_clone()
                    .context("cannot share a namespace handle"),
            )
        });
        let bpffs = self.bpffs.map(BpfFs::path);
        let mut journey = Journey {
            cgroup,
            netns,
            mounts: bpffs
                .map(|path| (path, "/sys/fs/bpf"))
                .into_iter()
                .chain(self.hosts.map(|path| (path.to_owned(), "/etc/hosts")))
                .collect(),
        };
        // SAFETY: between fork and exec only system calls are made: all paths and files were prepared
        // before, and nix copies short paths to the stack.
        unsafe { command.pre_exec(move || journey.make()) };
    }
}

struct Journey {
    cgroup: Option<File>,
    netns: Option<File>,
    /// What is bound where.
    mounts: Vec<(PathBuf, &'static str)>,
}

impl Journey {
    fn make(&mut self) -> std::io::Result<()> {
        if let Some(entrance) = &mut self.cgroup {
            entrance.write_all(b"0")?;
        }
        if let Some(netns) = &self.netns {
            setns(netns, CloneFlags::CLONE_NEWNET)?;
        }
        if !self.mounts.is_empty() {
            unshare(CloneFlags::CLONE_NEWNS)?;
            // Private first: else the mount would appear on the host.
            mount(
                None::<&str>,
                "/",
                None::<&str>,
                MsFlags::MS_REC | MsFlags::MS_PRIVATE,
                None::<&str>,
            )?;
        }
        for (from, to) in &self.mounts {
            mount(
                Some(from),
                *to,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )?;
        }
        Ok(())
    }
}
