//! Programs that cargo built beside the test.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The program `name` of the same build (debug or release) as this test.
///
/// Tests run from `target/PROFILE/deps`, programs from `target/PROFILE`.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = directory()?.join(name);
    if !path.is_file() {
        bail!(
            "{name}: not built at {} (run `cargo xtask test`, which builds it)",
            path.display()
        );
    }
    Ok(path)
}

/// The directory of this build's programs.
pub(crate) fn directory() -> Result<PathBuf> {
    let test = env::current_exe().context("cannot find the running program")?;
    let directory = test
        .parent()
        .context("the running program has no directory")?;
    match directory.file_name() {
        Some(name) if name == "deps" => Ok(directory.parent().unwrap_or(directory).to_path_buf()),
        _ => Ok(directory.to_path_buf()),
    }
}
