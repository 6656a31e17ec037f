//! One daemon per BPF file system: two would replace each other's links and
//! policies. The lock is on the directory of our pins, so that it holds
//! wherever the sockets are, and ends with the process that holds it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::errors::{Failure, Result};

/// Held for as long as it lives.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not read")] Flock<File>);

impl Lock {
    /// Takes it, or says who has it.
    pub fn take(directory: &Path) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("lock {}", directory.display()), error)
        };
        let file = File::open(directory).map_err(|error| failed(&error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self(lock)),
            Err((_, Errno::EWOULDBLOCK)) => {
                let who = match holder(directory) {
                    Some(pid) => format!("another one runs, pid {pid}"),
                    None => "another one runs".to_owned(),
                };
                Err(Failure::failed("daemon", who).hint("stop it first"))
            }
            Err((_, error)) => Err(failed(&error)),
        }
    }
}

/// Who holds the lock on a directory.
pub fn holder(directory: &Path) -> Option<u32> {
    let metadata = fs::metadata(directory).ok()?;
    holder_in(
        &fs::read_to_string("/proc/locks").ok()?,
        metadata.dev(),
        metadata.ino(),
    )
}

/// `1: FLOCK  ADVISORY  WRITE 1234 00:1f:5678 0 EOF`
fn holder_in(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, pid, at, ..] if *at == place => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_and_told_who_was_first() {
        let directory = tempfile::tempdir().unwrap();
        let first = Lock::take(directory.path()).unwrap();
        let refused = Lock::take(directory.path()).unwrap_err().to_string();
        let expected = format!(
            "error: daemon: another one runs, pid {} (stop it first)",
            std::process::id()
        );
        assert_eq!(refused, expected);
        drop(first);
        assert!(Lock::take(directory.path()).is_ok());
    }

    #[test]
    fn a_lock_on_another_file_is_not_ours() {
        let locks = "1: FLOCK  ADVISORY  WRITE 77 00:1f:5678 0 EOF\n2: POSIX  ADVISORY  WRITE 78 00:1f:99 0 EOF\n";
        let device = nix::sys::stat::makedev(0, 0x1f);
        assert_eq!(holder_in(locks, device, 5678), Some(77));
        assert_eq!(holder_in(locks, device, 99), None);
    }
}
