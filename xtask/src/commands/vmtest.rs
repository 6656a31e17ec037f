//! `cargo xtask vmtest`: the product with all its defaults, on the root cgroup of a machine of
//! its own: Debian 12's kernel 6.1, the oldest that is promised, in qemu.
//!
//! The machine is emulated in software, so that this works inside other virtual machines and
//! without access to KVM; what is checked there is `tests/src/bin/vm-guest`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kernel_toolchain::Toolchain;

use super::setup::{self, Purpose};
use crate::{
    apt, needs,
    run::{self, cargo},
    tree,
    vm::{archive, emulator, kernel, libraries, machine},
};

/// It takes half of that where nothing else runs.
const LIMIT: Duration = Duration::from_secs(420);
/// Static programs need nothing else in the machine's file system, and little of its memory.
const FLAGS: &str = "-C target-feature=+crt-static -C strip=symbols";
/// Named, so that build scripts and macros are not built with those flags.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The first process of the machine.
const INIT: &str = "vm-guest";
/// All of its programs.
const PROGRAMS: [&str; 3] = [INIT, "storm-client", "retry-governor"];

/// The harness of all tests makes networks with them.
const TOOLS: [&str; 2] = ["ip", "tc"];

/// Arguments of `vmtest`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("vmtest: Debian's kernel and qemu are set up for x86_64 only");
    }
    let toolchain = setup::ensure(Purpose::Build)?;
    let missing = needs::missing(needs::vm());
    if !missing.is_empty() {
        eprintln!("setup: packages that the virtual machine needs:");
        apt::install(&missing, "install their like by hand")?;
    }
    let home = tree::root().join("target/vm");
    fs::create_dir_all(&home).context("target/vm can not be made")?;
    let qemu = emulator::ensure(&tree::root().join("target/tools"))?;
    let kernel = kernel::ensure(&home)?;
    let initramfs = pack(&toolchain, &home, &kernel.modules)?;
    let verdict = machine::boot(qemu, &kernel.image, &initramfs, INIT)?.follow(LIMIT, &home)?;
    println!("\n{verdict}");
    verdict.finish()
}

/// Builds the machine's programs, and packs them with the kernel object and the kernel's modules.
fn pack(toolchain: &Toolchain, home: &Path, modules: &[PathBuf]) -> Result<PathBuf> {
    let build = home.join("build");
    let bins = PROGRAMS.into_iter().flat_map(|name| ["--bin", name]);
    run::run(
        cargo()
            .args(["build", "--release", "--target", TARGET, "--target-dir"])
            .arg(&build)
            .args(["--package", "governor-user", "--package", "governor-tests"])
            .args(bins)
            .env("RUSTFLAGS", FLAGS)
            // It would be stripped, and takes a while to make.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    )?;
    let built = build.join(TARGET).join("release");
    let in_bin = |name: &str, path| (PathBuf::from("bin").join(name), path);
    let mut files = libraries::with_libraries(&TOOLS)?;
    files.extend(PROGRAMS.map(|name| in_bin(name, built.join(name))));
    // Found as the binary's own build has left it.
    files.push(in_bin("governor.o", toolchain.build()?));
    let modules = kernel::MODULES.into_iter().zip(modules);
    files.extend(modules.map(|(name, path)| in_bin(name, path.clone())));
    let initramfs = home.join("initramfs");
    archive::pack(&initramfs, &files)?;
    Ok(initramfs)
}
