//! Clients of the tests that no distribution has: Python packages in an environment of their own,
//! npm packages beside it, all below `target/`, at the versions that the tree names.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{run::run, tree};

/// Copied beside what was installed when all of it is there: the second start only compares.
const INSTALLED: &str = "installed";

/// Installs both where they are not what the tree names. About 120 MB, half a minute.
pub fn ensure() -> Result<()> {
    let python = Set::new("python", "requirements.txt");
    python.ensure(
        "Python clients: requests, httpx, aiohttp, boto3, grpcio, redis-py, Kafka's",
        || install_python(&python),
    )?;
    let node = Set::new("node", "package-lock.json");
    node.ensure(
        "Node clients: got, axios, undici, the AWS SDK, grpc-js, ioredis",
        || install_node(&node),
    )
}

/// Packages and the file that names their versions.
struct Set {
    directory: PathBuf,
    versions: PathBuf,
}

impl Set {
    fn new(directory: &str, versions: &str) -> Self {
        Self {
            directory: tree::root().join("target/clients").join(directory),
            versions: sources().join(versions),
        }
    }

    fn ensure(&self, what: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
        let versions = fs::read(&self.versions)
            .with_context(|| format!("cannot read {}", self.versions.display()))?;
        let mark = self.directory.join(INSTALLED);
        if fs::read(&mark).is_ok_and(|installed| installed == versions) {
            return Ok(());
        }
        eprintln!("setup: {what}, into target/clients:");
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory).context("the old ones can not be removed")?;
        }
        fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        install()?;
        fs::write(&mark, versions).with_context(|| format!("cannot write {}", mark.display()))
    }
}

fn sources() -> PathBuf {
    tree::root().join("tests/clients")
}

fn install_python(set: &Set) -> Result<()> {
    run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(&set.directory))?;
    run(Command::new(set.directory.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--no-deps"])
        .arg("--requirement")
        .arg(&set.versions))
}

/// npm wants its files where it installs. The link lets the scripts find the packages.
fn install_node(set: &Set) -> Result<()> {
    for file in ["package.json", "package-lock.json"] {
        fs::copy(sources().join(file), set.directory.join(file))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&set.directory))?;
    let scripts = Path::new("../../../tests/clients");
    symlink(scripts, set.directory.join("scripts")).context("cannot link the scripts")
}
