//! A private `/sys/fs/bpf`: pins of one test are invisible to the host and to other tests.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

use crate::must;
use crate::scratch::{MOUNT, Scratch};

/// A BPF file system of its own. It outlives the processes that use it, as the host's
/// would, so that a restart can find its pins; it goes with this guard.
#[derive(Debug)]
pub struct BpfFs(Scratch);

impl BpfFs {
    /// Mounts an empty one.
    pub fn mount() -> Self {
        let bpffs = Self(Scratch::new());
        must(bpffs.mount_here().context("cannot mount a BPF file system"));
        bpffs
    }

    /// Where it is, seen from outside.
    pub fn path(&self) -> PathBuf {
        self.0.path(MOUNT)
    }

    fn mount_here(&self) -> Result<()> {
        fs::create_dir(self.path())?;
        mount(
            Some("bpf"),
            &self.path(),
            Some("bpf"),
            MsFlags::empty(),
            None::<&str>,
        )?;
        Ok(())
    }
}
