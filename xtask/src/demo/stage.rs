//! Where a scene is played: a network of its own and a cgroup of its own. Nothing of
//! the machine's own traffic is touched.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sched::{CloneFlags, unshare},
    sys::resource::{Resource, getrlimit, setrlimit},
};

/// Names of the cgroups, before the pid.
const PREFIX: &str = "retry-governor-demo-";
/// Open files of one process: the service holds 10,000 connections when the storm ends,
/// the legacy client's 800 threads some 3,000. A login allows 1,024.
const OPEN_FILES: u64 = 16_384;
/// How long killed processes may take to leave.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);

/// A stage. Dropping it kills everyone on it and removes the cgroup; the network goes
/// with the last process in it.
#[derive(Debug)]
pub struct Stage {
    cgroup: PathBuf,
}

impl Stage {
    /// Makes one. The calling thread lives in its network from now on.
    pub fn set() -> Result<Self> {
        let root = cgroup_root()?;
        sweep(&root);
        allow_open_files()?;
        unshare(CloneFlags::CLONE_NEWNET).context("a network namespace can not be made")?;
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        match up.context("`ip` does not start (package iproute2)")? {
            status if status.success() => {}
            status => bail!("`ip link set lo up` failed: {status}"),
        }
        let cgroup = root.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&cgroup)
            .with_context(|| format!("cgroup {} can not be made", cgroup.display()))?;
        Ok(Self { cgroup })
    }

    /// A program that starts on this stage: a shell moves itself there and becomes it.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo 0 >"$0" && exec "$@""#])
            .arg(self.cgroup.join("cgroup.procs"))
            .arg(program);
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.cgroup) {
            eprintln!("demo: cgroup {} stays: {error}", self.cgroup.display());
        }
    }
}

/// For this process and all that it starts.
fn allow_open_files() -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("limit of open files")?;
    let (soft, hard) = (soft.max(OPEN_FILES), hard.max(OPEN_FILES));
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard)
        .with_context(|| format!("the limit of open files can not be {soft} (ulimit -Hn)"))
}

/// Removes what demos left that were killed without mercy.
fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_orphan)
            && let Err(error) = remove(&entry.path())
        {
            eprintln!("demo: cgroup {} stays: {error}", entry.path().display());
        }
    }
}

/// One of ours whose process is no more.
fn is_orphan(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX);
    pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

/// Kills all that live in it, then removes it with what is below it.
fn remove(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.kill"), "1")?;
    remove_tree(cgroup, Instant::now() + EMPTY_WITHIN)
}

fn remove_tree(cgroup: &Path, deadline: Instant) -> io::Result<()> {
    for entry in fs::read_dir(cgroup)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path(), deadline)?;
        }
    }
    loop {
        match fs::remove_dir(cgroup) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            // The governor removes its own while we look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => return removed,
        }
    }
}

/// Where cgroup2 is mounted, which is not always `/sys/fs/cgroup` itself.
fn cgroup_root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    mount_of_cgroup2(&mounts)
        .context("no cgroup2 file system is mounted (mount -t cgroup2 none /sys/fs/cgroup)")
}

/// `id parent major:minor / MOUNT options... - TYPE source options`
fn mount_of_cgroup2(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let is_whole = fields.next()? == "/";
        let mount = fields.next()?;
        (is_whole && kind.starts_with("cgroup2 ")).then(|| mount.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup2_is_found_beside_v1() {
        let hybrid = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(
            mount_of_cgroup2(hybrid),
            Some("/sys/fs/cgroup/unified".into())
        );
        assert_eq!(mount_of_cgroup2("1 2 0:3 / /sys rw - tmpfs tmpfs rw"), None);
    }

    #[test]
    fn only_the_stages_of_the_dead_are_swept() {
        assert!(!is_orphan(&format!("{PREFIX}{}", process::id())));
        assert!(!is_orphan("system.slice"));
        // Above the kernel's largest pid: surely dead.
        assert!(is_orphan(&format!("{PREFIX}4194305")));
    }
}
