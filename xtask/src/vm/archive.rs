//! The machine's file system: an archive that the kernel unpacks into memory.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// Packs files into `/bin`, each under its name.
pub fn pack(home: &Path, files: &[(&str, PathBuf)]) -> Result<PathBuf> {
    let root = home.join("root");
    let bin = root.join("bin");
    // Nothing of an earlier one.
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
    let mut names = String::from("bin\n");
    for (name, path) in files {
        fs::copy(path, bin.join(name)).with_context(|| path.display().to_string())?;
        names += &format!("bin/{name}\n");
    }
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
