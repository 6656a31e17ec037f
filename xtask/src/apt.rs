//! Installing Debian packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    needs::Need,
    run::{self, User, run},
};

const INSTALL: [&str; 4] = [
    "install",
    "--yes",
    // Never at the price of something the machine has: Debian's own rustc
    // conflicts with rustc-web, and would be gone without a question.
    "--no-remove",
    "--no-install-recommends",
];

/// Installs what is needed, saying why; nothing needed, nothing done. `elsewhere`
/// is what to do where there is no apt.
pub fn install(needs: &[Need], elsewhere: &str) -> Result<()> {
    if needs.is_empty() {
        return Ok(());
    }
    for need in needs {
        eprintln!("  {:<22} {}", need.package, need.reason);
    }
    if run::which("apt-get").is_none() {
        bail!("no apt-get here: {elsewhere} (untested on this system)");
    }
    let packages: Vec<&str> = needs.iter().map(|it| it.package.as_str()).collect();
    if run::user()? == User::Other && run::which("sudo").is_none() {
        bail!(
            "only root installs packages: no sudo here (as root: apt-get {} {})",
            INSTALL.join(" "),
            packages.join(" ")
        );
    }
    update()?;
    run(apt_get()?.args(INSTALL).args(&packages))
}

/// Brings apt's lists up to date.
pub fn update() -> Result<()> {
    run(apt_get()?.arg("update"))
}

/// `apt-get` as root, which asks nothing.
fn apt_get() -> Result<Command> {
    let mut command = run::as_root("env")?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=1"]);
    command.args(["-o", "Dpkg::Use-Pty=0"]);
    Ok(command)
}
