//! Where a report goes: one lab at a time writes there, and what it writes is there as a whole or not at all.

use std::fs::{self, File, TryLockError};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file before it has its name.
const UNFINISHED: &str = ".storm-lab";

/// The directory of a report, this lab's alone for as long as this is there.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The lock is the directory's own: no file of it is left. The kernel unlocks it however the lab ends.
    _lock: File,
}

impl Directory {
    /// Makes it where it is missing, and looks that a report can be written there: before hours are
    /// spent on one.
    ///
    /// # Errors
    /// Where it can not, or another lab does.
    pub fn claim(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path)?;
        let lock = File::open(path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another lab writes its report there"),
            Err(TryLockError::Error(why)) => return Err(why).context("cannot be locked"),
        }
        let probe = path.join(UNFINISHED);
        fs::write(&probe, "")?;
        fs::remove_file(&probe)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Where a file of this name is.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file. Where that fails, the one that was there stays.
    pub(super) fn write(&self, name: &str, content: &str) -> anyhow::Result<()> {
        let (file, unfinished) = (self.file(name), self.file(UNFINISHED));
        let written =
            write_through(&unfinished, content).and_then(|()| fs::rename(&unfinished, &file));
        if written.is_err() {
            // What made the write fail is told, not what may follow of it.
            let _ = fs::remove_file(&unfinished);
        }
        written.with_context(|| file.display().to_string())
    }
}

/// Some file systems tell only here that the disk is full.
fn write_through(path: &Path, content: &str) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("storm-lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn where_the_disk_is_full_the_report_before_stays_whole() {
        let path = scratch("full");
        let directory = Directory::claim(&path).expect("claimed");
        directory.write("report.json", "{}").expect("written");
        // Whoever writes to it is told that no space is left.
        symlink("/dev/full", directory.file(UNFINISHED)).expect("linked");
        let failed = directory.write("report.json", "{\"holds\": true}");
        let why = format!("{:#}", failed.expect_err("nothing can be written"));
        assert!(why.contains("report.json: No space left"), "{why}");
        let names: Vec<_> = fs::read_dir(&path)
            .expect("it is there")
            .map(|it| it.expect("it is read").file_name())
            .collect();
        assert_eq!(names, ["report.json"]);
        let kept = fs::read_to_string(directory.file("report.json"));
        assert_eq!(kept.expect("it is there"), "{}");
        fs::remove_dir_all(&path).expect("removed");
    }

    #[test]
    fn a_directory_is_of_one_lab_at_a_time() {
        let path = scratch("locked");
        let first = Directory::claim(&path).expect("claimed");
        let why = Directory::claim(&path).expect_err("it is the first one's");
        assert_eq!(why.to_string(), "another lab writes its report there");
        drop(first);
        Directory::claim(&path).expect("nobody has it");
        fs::remove_dir_all(&path).expect("removed");
    }
}
