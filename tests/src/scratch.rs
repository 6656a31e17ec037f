//! A directory for the files of one test: sockets, policies, mounts.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::mount::{MntFlags, umount2};

use crate::{must, names, sweep};

const DIRECTORY: &str = "/run/governor-test";

/// Where a [`crate::bpffs::BpfFs`] is mounted; the sweep must unmount it before it can remove the rest.
pub(crate) const MOUNT: &str = "bpf";

/// A directory that only root can enter. Dropping it removes it with all that is inside.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty one.
    pub fn new() -> Self {
        sweep::once();
        let path = Path::new(DIRECTORY).join(names::unique());
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path);
        must(made.with_context(|| format!("cannot make {}", path.display())));
        Self(path)
    }

    /// The path of a file or directory inside.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
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
    // Most have no mount inside: an error here says only that.
    let _ = umount2(&path.join(MOUNT), MntFlags::MNT_DETACH);
    if let Err(error) = fs::remove_dir_all(path) {
        eprintln!("harness: {} stays: {error}", path.display());
    }
}
