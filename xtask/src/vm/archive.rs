//! The machine's file system: an archive that the kernel unpacks into memory.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// Packs files, each at its place below the root.
pub fn pack(home: &Path, files: &[(PathBuf, PathBuf)]) -> Result<PathBuf> {
    let root = home.join("root");
    // Nothing of an earlier one.
    let _ = fs::remove_dir_all(&root);
    // In this order a directory comes before what is in it.
    let mut names = BTreeSet::new();
    for (place, path) in files {
        let directories = place.ancestors().skip(1);
        names.extend(directories.filter(|it| !it.as_os_str().is_empty()));
        names.insert(place);
        let copy = root.join(place);
        let directory = copy.parent().unwrap_or(&root);
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        fs::copy(path, &copy).with_context(|| path.display().to_string())?;
    }
    let names: String = names
        .iter()
        .map(|it| format!("{}\n", it.display()))
        .collect();
    let archive = home.join("initramfs");
    let mut cpio = Command::new("cpio")
        .args(["--create", "--format=newc", "--owner=0:0", "--quiet"])
        .current_dir(&root)
        .stdin(Stdio::piped())
        .stdout(File::create(&archive).with_context(|| archive.display().to_string())?)
        .spawn()
        .context("`cpio` does not start")?;
    if let Some(mut input) = cpio.stdin.take() {
        input.write_all(names.as_bytes())?;
    }
    match cpio.wait()? {
        status if status.success() => Ok(archive),
        status => bail!("`cpio` failed: {status}"),
    }
}
