//! Installing Debian packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    needs::Need,
    run::{self, User, run},
};

/// Installs what is needed, saying why; nothing needed, nothing done.
pub fn install(needs: &[Need]) -> Result<()> {
    if needs.is_empty() {
        return Ok(());
    }
    for need in needs {
        eprintln!("  {:<22} {}", need.package, need.reason);
    }
    let packages: Vec<&str> = needs.iter().map(|it| it.package.as_str()).collect();
    if run::which("apt-get").is_none() {
        bail!(
            "this is no Debian: install what Debian calls {} by hand and start again \
             (untested on this system)",
            packages.join(", ")
        );
    }
    run(apt_get()?.arg("update"))?;
    // Never at the price of something the machine has: Debian's own rustc
    // conflicts with rustc-web, and would be gone without a question.
    run(apt_get()?
        .args(["install", "--yes", "--no-remove", "--no-install-recommends"])
        .args(&packages))
}

/// `apt-get` as root, which asks nothing.
fn apt_get() -> Result<Command> {
    let mut command = as_root("env")?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=1"]);
    command.args(["-o", "Dpkg::Use-Pty=0"]);
    Ok(command)
}

fn as_root(program: &str) -> Result<Command> {
    match run::user()? {
        User::Root => Ok(Command::new(program)),
        User::Other if run::which("sudo").is_some() => {
            let mut command = Command::new("sudo");
            command.arg(program);
            Ok(command)
        }
        User::Other => bail!(
            "packages can be installed by root only: no sudo here (run `cargo xtask setup` as root)"
        ),
    }
}
