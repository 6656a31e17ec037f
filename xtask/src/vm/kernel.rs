//! Debian 12's own kernel, downloaded with apt and unpacked; nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{apt, run};

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
    if let Some(kernel) = kernel_in(home)? {
        eprintln!("vmtest: kernel {}", name_of(&kernel.image));
        return Ok(kernel);
    }
    if run::which("apt-get").is_none() {
        bail!("no apt-get here: vmtest boots Debian 12's kernel, which apt gets");
    }
    eprintln!("vmtest: Debian 12's kernel, once, 30 MB:");
    // Lists that are missing or old name no package, or one that is not there any more.
    let package = match newest_package().and_then(|package| download(&package, home)) {
        Ok(package) => package,
        Err(why) => {
            eprintln!("vmtest: {why:#}");
            apt::update()?;
            newest_package().and_then(|package| download(&package, home))?
        }
    };
    unpack(&package, home)?;
    kernel_in(home)?.with_context(|| format!("no kernel with its modules in {}", name_of(&package)))
}

fn kernel_in(home: &Path) -> Result<Option<Kernel>> {
    let modules = MODULES.map(|name| home.join(name)).to_vec();
    let complete = modules.iter().all(|module| module.is_file());
    let image = image_in(home)?.filter(|_| complete);
    Ok(image.map(|image| Kernel { image, modules }))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn image_in(directory: &Path) -> Result<Option<PathBuf>> {
    find(directory, |name| name.starts_with("vmlinuz-"))
}

fn find(directory: &Path, is_it: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.into_iter().find(|path| is_it(&name_of(path))))
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

/// Downloads into `home`; that needs no root. As root apt would do it as another user, who can
/// not write there, and complain of that.
fn download(package: &str, home: &Path) -> Result<PathBuf> {
    let mut apt = Command::new("apt-get");
    apt.args([
        "--quiet=1",
        "-o",
        "APT::Sandbox::User=root",
        "download",
        package,
    ]);
    run::run(apt.current_dir(home))?;
    find(home, |name| {
        name.starts_with(package) && name.ends_with(".deb")
    })?
    .with_context(|| format!("apt has not downloaded {package}"))
}

/// Takes the image and the modules out of the package.
fn unpack(package: &Path, home: &Path) -> Result<()> {
    let unpacked = home.join("unpacked");
    run::run(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(package)
            .arg(&unpacked),
    )?;
    if let Some(image) = image_in(&unpacked.join("boot"))? {
        if let Some(older) = image_in(home)? {
            fs::remove_file(older)?;
        }
        fs::rename(&image, home.join(name_of(&image)))?;
    }
    take_modules(&unpacked.join("lib/modules"), home)?;
    fs::remove_dir_all(&unpacked)?;
    fs::remove_file(package).with_context(|| package.display().to_string())
}

/// Looks for the modules in `directory` and below.
fn take_modules(directory: &Path, home: &Path) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = name_of(&path);
        if path.is_dir() {
            take_modules(&path, home)?;
        } else if MODULES.contains(&name.as_str()) {
            fs::rename(&path, home.join(name))?;
        }
    }
    Ok(())
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
