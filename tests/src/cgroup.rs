//! Cgroups that vanish with their guard.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::{must, names, sweep};

/// How long killed processes may take to leave their cgroup.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);

/// A cgroup (v2) that this process made. Dropping it kills every process inside
/// and removes it with all its children.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes a cgroup of its own directly below the root of the hierarchy.
    /// `purpose` only helps whoever looks at the tree.
    pub fn create(purpose: &str) -> Self {
        sweep::once();
        let path = must(root()).join(format!("{}-{purpose}", names::unique()));
        must(
            fs::create_dir(&path).with_context(|| format!("cannot make cgroup {}", path.display())),
        );
        Self { path }
    }

    /// Makes a cgroup directly below the root with this very name: only for a machine of the
    /// test's own, where nobody else can have made it.
    pub fn top(name: &str) -> Self {
        let path = must(root()).join(name);
        must(
            fs::create_dir(&path).with_context(|| format!("cannot make cgroup {}", path.display())),
        );
        Self { path }
    }

    /// Makes a cgroup below this one: a pod below its node, a leaf below a pod.
    pub fn child(&self, name: &str) -> Self {
        let path = self.path.join(name);
        must(
            fs::create_dir(&path).with_context(|| format!("cannot make cgroup {}", path.display())),
        );
        Self { path }
    }

    /// The directory in the cgroup file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path below the cgroup root, as policies and `/proc/PID/cgroup` spell it.
    pub fn name(&self) -> String {
        let below = must(root().and_then(|root| Ok(self.path.strip_prefix(root)?.to_path_buf())));
        format!("/{}", below.display())
    }

    /// The id that the kernel programs see: the inode of its directory.
    pub fn id(&self) -> u64 {
        let metadata = fs::metadata(&self.path)
            .with_context(|| format!("cgroup {} is gone", self.path.display()));
        must(metadata).ino()
    }

    /// The processes in this cgroup, children not included.
    pub fn pids(&self) -> Vec<u32> {
        let text = must(
            fs::read_to_string(self.path.join("cgroup.procs")).context("cannot read cgroup.procs"),
        );
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// The file into which a process writes `0` to move itself here.
    pub(crate) fn entrance(&self) -> File {
        let path = self.path.join("cgroup.procs");
        let opened = fs::OpenOptions::new().write(true).open(&path);
        must(opened.with_context(|| format!("cannot open {}", path.display())))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            eprintln!("harness: cgroup {} stays: {error}", self.path.display());
        }
    }
}

/// Where cgroup2 is mounted: `/sys/fs/cgroup` as a rule, `/sys/fs/cgroup/unified` beside v1.
pub fn root() -> Result<PathBuf> {
    let text =
        fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    mount_of_cgroup2(&text).ok_or_else(|| anyhow!("no cgroup2 file system is mounted"))
}

/// `id parent major:minor root MOUNT options... - TYPE source options`
fn mount_of_cgroup2(mountinfo: &str) -> Option<PathBuf> {
    let is_cgroup2 = |line: &&str| {
        line.split(" - ")
            .nth(1)
            .is_some_and(|rest| rest.starts_with("cgroup2 "))
    };
    let line = mountinfo.lines().find(is_cgroup2)?;
    line.split(' ').nth(4).map(PathBuf::from)
}

pub(crate) fn remove_where(orphan: impl Fn(&str) -> bool) {
    let Some(entries) = root().ok().and_then(|root| fs::read_dir(root).ok()) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&orphan))
    {
        if let Err(error) = remove(&entry.path()) {
            eprintln!(
                "harness: leftover cgroup {} stays: {error}",
                entry.path().display()
            );
        }
    }
}

/// Kills what lives in the subtree (`cgroup.kill`, Linux 5.14), then removes it from the leaves up.
fn remove(path: &Path) -> io::Result<()> {
    match fs::write(path.join("cgroup.kill"), "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => return Ok(()),
        result => result?,
    }
    remove_tree(path, Instant::now() + EMPTY_WITHIN)
}

fn remove_tree(path: &Path, deadline: Instant) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path(), deadline)?;
        }
    }
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
    const UNIFIED: &str = "\
30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn cgroup2_is_found_beside_v1_and_alone() {
        assert_eq!(
            mount_of_cgroup2(HYBRID),
            Some("/sys/fs/cgroup/unified".into())
        );
        assert_eq!(mount_of_cgroup2(UNIFIED), Some("/sys/fs/cgroup".into()));
        assert_eq!(
            mount_of_cgroup2("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw"),
            None
        );
    }
}
