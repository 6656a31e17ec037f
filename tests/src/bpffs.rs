//! A private `/sys/fs/bpf`: pins of one test are invisible to the host and to other tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::{must, names, sweep};

const DIRECTORY: &str = "/run/governor-test";

/// A BPF file system of its own. It outlives the processes that use it, as the host's
/// would, so that a restart can find its pins; it goes with this guard.
#[derive(Debug)]
pub struct BpfFs {
    path: PathBuf,
}

impl BpfFs {
    /// Mounts an empty one.
    pub fn mount() -> Self {
        sweep::once();
        let path = Path::new(DIRECTORY).join(names::unique());
        must(
            mount_at(&path)
                .with_context(|| format!("cannot mount a BPF file system at {}", path.display())),
        );
        Self { path }
    }

    /// Where it is, seen from outside.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BpfFs {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn mount_at(path: &Path) -> Result<()> {
    fs::create_dir_all(path)?;
    mount(
        Some("bpf"),
        path,
        Some("bpf"),
        MsFlags::empty(),
        None::<&str>,
    )
    .inspect_err(|_| remove(path))?;
    Ok(())
}

pub(crate) fn remove_where(orphan: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&orphan))
    {
        remove(&entry.path());
    }
}

fn remove(path: &Path) {
    // Not mounted is no error here: a killed test may have stopped between the directory and the mount.
    let _ = umount2(path, MntFlags::MNT_DETACH);
    if let Err(error) = fs::remove_dir(path) {
        eprintln!("harness: {} stays: {error}", path.display());
    }
}
