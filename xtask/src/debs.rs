//! Debian packages unpacked below `target/`: the machine's own stay as they are, and no service
//! starts.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::{apt, run};

/// Downloads packages and unpacks them into `root`: all of them, or there is no `root`. It needs
/// root's rights only where apt's lists are too old.
pub fn unpack(root: &Path, packages: impl Fn() -> Result<Vec<String>>) -> Result<()> {
    if run::which("apt-get").is_none() {
        bail!("no apt-get here, which would get it");
    }
    let fetched = root.with_extension("fetched");
    if let Err(why) = packages().and_then(|packages| download(&packages, &fetched)) {
        // Lists that are missing or old name no package, or one that is not there any more.
        eprintln!("setup: {why:#}");
        apt::update()?;
        download(&packages()?, &fetched)?;
    }
    let unpacked = root.with_extension("unpacked");
    make(&unpacked)?;
    let extract = r#"for it in *.deb; do dpkg-deb --extract "$it" "$0"; done"#;
    let mut each = Command::new("sh");
    run::run(
        each.args(["-ec", extract])
            .arg(&unpacked)
            .current_dir(&fetched),
    )?;
    fs::remove_dir_all(&fetched)?;
    let _ = fs::remove_dir_all(root);
    fs::rename(&unpacked, root).with_context(|| root.display().to_string())
}

/// As root apt would download as another user, who can not write there, and complain of that.
fn download(packages: &[String], to: &Path) -> Result<()> {
    make(to)?;
    let mut apt = Command::new("apt-get");
    apt.args(["--quiet=2", "-o", "APT::Sandbox::User=root", "download"]);
    run::run(apt.args(packages).current_dir(to))
}

/// A directory with nothing of an earlier one.
fn make(directory: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())
}

/// A package and all that it needs and the machine lacks.
pub fn with_what_it_needs(package: &str) -> Result<Vec<String>> {
    let plan = Command::new("apt-get")
        .args(["--simulate", "--no-install-recommends", "install", package])
        .env("LC_ALL", "C")
        .output()
        .context("`apt-get` does not start")?;
    match new_in(&String::from_utf8_lossy(&plan.stdout)) {
        new if plan.status.success() && !new.is_empty() => Ok(new),
        _ => bail!("apt can not plan to install {package}"),
    }
}

/// `Inst seabios (1.16.2-1 Debian:12.15/oldstable [all])`; not what the machine has in an older
/// version: `Inst libc6 [2.36-9+deb12u10] (2.36-9+deb12u14 Debian:12.15/oldstable [amd64])`.
fn new_in(plan: &str) -> Vec<String> {
    let installed = plan.lines().filter_map(|line| line.strip_prefix("Inst "));
    let new = installed.filter_map(|line| line.split_once(" ("));
    new.filter(|(name, _)| !name.contains(' '))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The libraries of what is unpacked in `root`, as the loader takes them.
pub fn library_path(root: &Path) -> Result<impl AsRef<OsStr>> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let places = ["usr/lib", "lib"].map(|place| root.join(place).join(&multiarch));
    std::env::join_paths(places).context("target/ has a colon in its path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_unpacked_with_what_is_new_to_the_machine() {
        let plan = "Reading package lists...\n\
            Remv qemu-utils [1:10.0.2+ds-2+deb13u1~bpo12+1]\n\
            Inst libc6 [2.36-9+deb12u10] (2.36-9+deb12u14 Debian:12.15/oldstable [amd64])\n\
            Inst seabios (1.16.2-1 Debian:12.15/oldstable [all])\n\
            Inst qemu-system-x86 (1:7.2+dfsg-7+deb12u18+b3 Debian:12.15/oldstable [amd64]) []\n\
            Conf seabios (1.16.2-1 Debian:12.15/oldstable [all])\n";
        assert_eq!(new_in(plan), ["seabios", "qemu-system-x86"]);
    }
}
