//! Programs of this machine for the other one, with the libraries that they are linked to.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::run;

/// These programs, for `/bin`, and their libraries, where the programs look for them: each with
/// its place in the archive.
pub fn with_libraries(programs: &[&str]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files = Vec::new();
    let mut libraries = BTreeSet::new();
    for name in programs {
        let path = run::which(name).with_context(|| format!("no program {name}"))?;
        let listed = Command::new("ldd")
            .arg(&path)
            .output()
            .context("`ldd` does not start")?;
        if !listed.status.success() {
            bail!("`ldd {}` failed: {}", path.display(), listed.status);
        }
        let listed = String::from_utf8_lossy(&listed.stdout);
        libraries.extend(listed.lines().filter_map(library));
        files.push((PathBuf::from("bin").join(name), path));
    }
    let place = |path: &PathBuf| path.components().skip(1).collect();
    files.extend(libraries.into_iter().map(|path| (place(&path), path)));
    Ok(files)
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)`, `/lib64/ld-linux-x86-64.so.2 (0x7f)`;
/// not the one that the kernel brings.
fn library(line: &str) -> Option<PathBuf> {
    let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_where_the_loader_finds_them() {
        let listed = "\tlinux-vdso.so.1 (0x00007f84)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f84)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f84)\n";
        let found: Vec<_> = listed.lines().filter_map(library).collect();
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
