//! qemu: the machine's own, or Debian's, unpacked; nothing is installed.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{debs, run};

const PROGRAM: &str = "qemu-system-x86_64";
/// Debian's package of it.
const PACKAGE: &str = "qemu-system-x86";

/// The command that starts it; got into `tools` on the first call.
pub fn ensure(tools: &Path) -> Result<Command> {
    if let Some(program) = run::which(PROGRAM) {
        return Ok(Command::new(program));
    }
    let root = tools.join("qemu");
    if !root.exists() {
        eprintln!("vmtest: qemu emulates the machine; Debian's, once, 20 MB:");
        fs::create_dir_all(tools).with_context(|| tools.display().to_string())?;
        debs::unpack(&root, || debs::with_what_it_needs(PACKAGE))
            .with_context(|| format!("no {PROGRAM} on PATH"))?;
    }
    // It finds its firmware by its own place.
    let mut qemu = Command::new(root.join("usr/bin").join(PROGRAM));
    qemu.env("LD_LIBRARY_PATH", debs::library_path(&root)?);
    Ok(qemu)
}
