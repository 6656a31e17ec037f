//! The cgroup (v2) file system: where it is, who we are in it, and a cgroup of
//! our own for `exec`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::errors::{Failure, Result};

/// Where cgroup2 is mounted: `/sys/fs/cgroup` as a rule, `/sys/fs/cgroup/unified`
/// beside v1 (hybrid).
pub fn root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Failure::failed("/proc/self/mountinfo", error))?;
    match mount_of_cgroup2(&mounts) {
        Some(Mount::Whole(path)) => Ok(path),
        Some(Mount::Part(path)) => {
            let why = format!("{} shows a part of the hierarchy only", path.display());
            Err(Failure::missing("cgroup2", why).hint("mount the host's /sys/fs/cgroup here"))
        }
        None => Err(Failure::missing("cgroup2", "not mounted")
            .hint("mount -t cgroup2 none /sys/fs/cgroup, or /sys/fs/cgroup/unified beside v1")),
    }
}

/// Path of this process below the root, as `/proc/self/cgroup` has it.
pub fn own() -> Result<String> {
    let text = fs::read_to_string("/proc/self/cgroup")
        .map_err(|error| Failure::failed("/proc/self/cgroup", error))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    let path = path.ok_or_else(|| Failure::missing("cgroup2", "this process is in none"))?;
    Ok(path.trim_end_matches(" (deleted)").to_owned())
}

/// The id of a cgroup, as the kernel programs see it: its inode.
pub fn id(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path);
    metadata
        .map(|metadata| metadata.ino())
        .map_err(|error| Failure::failed(format!("cgroup {}", path.display()), error))
}

/// Depth below the root: 0 is the root itself.
pub fn level(path: &Path) -> Result<u32> {
    let below = below_root(&root()?, path)?;
    let levels = below
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .count();
    Ok(u32::try_from(levels).unwrap_or(u32::MAX))
}

/// The path below the root, as policies spell it: `/system.slice/cron.service`.
pub fn name(path: &Path) -> Result<String> {
    let below = below_root(&root()?, path)?;
    Ok(format!("/{}", below.display()))
}

fn below_root(root: &Path, path: &Path) -> Result<PathBuf> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::failed(format!("cgroup {}", path.display()), why)
            .hint(format!("a directory below {}", root.display()))
    };
    let path = fs::canonicalize(path).map_err(|error| failed(&error))?;
    let below = path
        .strip_prefix(root)
        .map_err(|_| failed(&"not a cgroup"))?;
    Ok(below.to_path_buf())
}

/// What a mount shows.
#[derive(Debug, PartialEq, Eq)]
enum Mount {
    Whole(PathBuf),
    Part(PathBuf),
}

/// `id parent major:minor ROOT MOUNT options... - TYPE source options`
fn mount_of_cgroup2(mountinfo: &str) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let path = PathBuf::from(unescape(mount));
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        Some(match root {
            "/" => Mount::Whole(path),
            _ => Mount::Part(path),
        })
    });
    let mut part = None;
    for mount in mounts {
        match mount {
            Mount::Whole(_) => return Some(mount),
            Mount::Part(_) => part = part.or(Some(mount)),
        }
    }
    part
}

/// mountinfo writes space, tab, newline and backslash in octal.
fn unescape(path: &str) -> String {
    let codes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    codes
        .into_iter()
        .fold(path.to_owned(), |path, (code, plain)| {
            path.replace(code, plain)
        })
}

/// Names of the cgroups that `exec` makes, before the pid.
const PREFIX: &str = "retry-governor-exec-";

/// A cgroup that `exec` made for its command; removed when dropped, if empty.
#[derive(Debug)]
pub struct Scoped {
    path: PathBuf,
    /// Why it is not below the caller's own cgroup, where it is not.
    pub displaced: Option<String>,
}

impl Scoped {
    /// Makes `retry-governor-exec-<pid>`: below the caller's own cgroup, so that
    /// the caller's limits hold for the command too; where that can't be, below
    /// the root. Removes what killed predecessors left there.
    pub fn create() -> Result<Self> {
        let root = root()?;
        let home = root.join(own()?.trim_start_matches('/'));
        sweep(&home);
        sweep(&root);
        let name = format!("{PREFIX}{}", std::process::id());
        let below = |parent: &Path| usable(&parent.join(&name));
        match below(&home) {
            Ok(path) => Ok(Self {
                path,
                displaced: None,
            }),
            Err(error) if home != root => Ok(Self {
                path: below(&root).map_err(|error| not_made(&root, &error))?,
                displaced: Some(format!("{}: {error}", home.display())),
            }),
            Err(error) => Err(not_made(&root, &error)),
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file into which a process writes `0` to move itself here.
    pub fn entrance(&self) -> Result<File> {
        let path = self.path.join("cgroup.procs");
        let file = File::options().write(true).open(&path);
        file.map_err(|error| Failure::failed(path.display(), error))
    }

    /// Removes it; false if processes live in it still.
    pub fn remove(self) -> bool {
        // The last process leaves its cgroup a moment after it was waited for.
        for _ in 0..25 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                removed => return removed.is_ok(),
            }
        }
        false
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        // After `remove`: gone already, or left on purpose.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Makes the cgroup and sees whether processes may enter: below a threaded
/// cgroup they may not.
fn usable(path: &Path) -> io::Result<PathBuf> {
    match fs::create_dir(path) {
        // A dead process of our pid left it, or one in another pid namespace
        // uses it: then it is not empty.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(path)?;
            fs::create_dir(path)?;
        }
        made => made?,
    }
    let kind = fs::read_to_string(path.join("cgroup.type")).unwrap_or_default();
    if kind.trim() == "domain invalid" {
        fs::remove_dir(path)?;
        return Err(io::Error::other(
            "it is threaded: no process may enter a new cgroup there",
        ));
    }
    Ok(path.to_path_buf())
}

fn not_made(parent: &Path, error: &io::Error) -> Failure {
    let what = format!("make a cgroup below {}", parent.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Failure::missing(what, error).hint("run it as root, with a writable cgroup file system")
        }
        _ => Failure::failed(what, error),
    }
}

/// Removes the empty cgroups of `exec`s that are no more.
pub fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let dead = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if dead {
            // One that is not empty stays: its processes go on.
            let _ = fs::remove_dir(entry.path());
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
    const POD: &str = "\
30 23 0:26 /../.. /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate
52 23 0:26 / /host\\040root/cgroup rw - cgroup2 cgroup2 rw";

    #[test]
    fn cgroup2_is_found_beside_v1() {
        let found = mount_of_cgroup2(HYBRID);
        assert_eq!(found, Some(Mount::Whole("/sys/fs/cgroup/unified".into())));
        assert_eq!(
            mount_of_cgroup2("31 23 0:28 / /sys rw - tmpfs tmpfs rw"),
            None
        );
    }

    #[test]
    fn a_mount_of_the_whole_hierarchy_wins_over_a_part() {
        let found = mount_of_cgroup2(POD);
        assert_eq!(found, Some(Mount::Whole("/host root/cgroup".into())));
        let part = POD.lines().next().unwrap_or_default();
        assert_eq!(
            mount_of_cgroup2(part),
            Some(Mount::Part("/sys/fs/cgroup".into()))
        );
    }
}
