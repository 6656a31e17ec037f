//! Debian 12's own kernel, unpacked; nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::debs;

/// Debian's kernel 6.1 is a package per ABI: `linux-image-6.1.0-57-cloud-amd64-unsigned`.
const BEFORE: &str = "linux-image-6.1.0-";
const AFTER: &str = "-cloud-amd64-unsigned";

/// What a distribution's kernel loads by itself when a device is governed or paced; the machine
/// loads them first of all.
pub const MODULES: [&str; 4] = ["sch_ingress.ko", "cls_bpf.ko", "sch_fq.ko", "veth.ko"];

/// A kernel.
pub struct Kernel {
    /// What boots.
    pub image: PathBuf,
    /// [`MODULES`].
    pub modules: Vec<PathBuf>,
}

/// The kernel in `home`, got there on the first call.
pub fn ensure(home: &Path) -> Result<Kernel> {
    let root = home.join("kernel");
    if !root.exists() {
        eprintln!("vmtest: Debian 12's kernel, once, 30 MB:");
        debs::unpack(&root, || Ok(vec![newest_package()?]))
            .context("vmtest boots Debian 12's kernel")?;
    }
    let get = |what: &str, is_it: &dyn Fn(&str) -> bool| {
        find(&root, is_it).with_context(|| format!("no {what} in {}", root.display()))
    };
    let modules = MODULES.iter().map(|name| get(name, &|it| it == *name));
    Ok(Kernel {
        image: get("kernel", &|it| it.starts_with("vmlinuz-"))?,
        modules: modules.collect::<Result<_>>()?,
    })
}

/// The file in `directory` or below.
fn find(directory: &Path, is_it: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).ok()?.flatten();
    entries.find_map(|entry| match entry.path() {
        path if path.is_dir() => find(&path, is_it),
        path => is_it(&entry.file_name().to_string_lossy()).then_some(path),
    })
}

fn newest_package() -> Result<String> {
    let known = Command::new("apt-cache")
        .args(["pkgnames", BEFORE])
        .output()
        .context("`apt-cache` does not start")?;
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    newest(known.lines())
        .map(str::to_owned)
        .context("apt knows no kernel 6.1 (Debian 12 has it)")
}

fn newest<'a>(packages: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let numbered = packages.filter_map(|name| {
        let number = name.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
        Some((number.parse::<u32>().ok()?, name))
    });
    numbered.max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_taken_by_number_not_by_spelling() {
        let known = [
            "linux-image-6.1.0-9-cloud-amd64-unsigned",
            "linux-image-6.1.0-57-cloud-amd64-unsigned",
            "linux-image-6.1.0-58-cloud-amd64-dbg",
            "linux-image-6.1.0-59-amd64-unsigned",
        ];
        assert_eq!(newest(known.into_iter()), Some(known[1]));
        assert_eq!(newest([].into_iter()), None);
    }
}
