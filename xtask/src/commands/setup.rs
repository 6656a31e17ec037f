//! `cargo xtask setup`: finds or installs what the other commands need.
//!
//! Packages come from apt (root, through sudo where need be); everything that is
//! built is built as the user, inside the tree. The second start only looks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use kernel_toolchain::{Compiler, Missing, Toolchain, find, install_root};

use crate::{
    apt, clients,
    needs::{self, Need},
    run::{self, cargo},
    tree,
};

/// The version that was tested with LLVM 22; it knows 21 to 23.
const BPF_LINKER: &str = "0.13.0";

/// Arguments of `setup`.
#[derive(clap::Args)]
pub struct Args {
    /// What to set up for
    #[arg(value_enum, default_value = "tests")]
    purpose: Purpose,
}

/// How much is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Purpose {
    /// What `cargo build` needs
    Build,
    /// Also what the demo runs
    Demo,
    /// Also what the benchmark runs
    Bench,
    /// Also what the storm lab runs: clients, and what drops packets
    Lab,
    /// Also what fetches the proxies that the governor is compared with
    Peers,
    /// Also the lints, and the clients that the tests run
    Tests,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    ensure(args.purpose).map(drop)
}

/// Sees to it that everything is there; says what is used.
pub fn ensure(purpose: Purpose) -> Result<Toolchain> {
    let toolchain = toolchain()?;
    let missing = needs::missing(match purpose {
        Purpose::Build => Vec::new(),
        Purpose::Demo => needs::demo(),
        Purpose::Bench => needs::bench(),
        Purpose::Lab => needs::tests(),
        Purpose::Peers => [needs::tests(), needs::bench(), needs::peers()].concat(),
        Purpose::Tests => for_tests(&toolchain.compiler),
    });
    if !missing.is_empty() {
        eprintln!("setup: packages for what is run:");
        apt::install(&missing, "install their like by hand")?;
    }
    if matches!(purpose, Purpose::Lab | Purpose::Tests) {
        clients::ensure()?;
    }
    eprintln!("setup: the kernel programs are built by {toolchain}");
    Ok(toolchain)
}

/// Adds one part after the other: a compiler, then the linker it needs.
fn toolchain() -> Result<Toolchain> {
    for _part in ["compiler", "linker"] {
        let missing = match find(&tree::root()) {
            Ok(toolchain) => return Ok(toolchain),
            Err(missing) => missing,
        };
        eprintln!("setup: {}", missing.what());
        match missing {
            Missing::Compiler { .. } => install_compiler()?,
            Missing::Linker { compiler, .. } => install_linker(&compiler)?,
        }
    }
    find(&tree::root()).context("set-up is done, and still")
}

fn install_compiler() -> Result<()> {
    eprintln!("setup: a compiler with its library sources, from Debian:");
    apt::install(&needs::compiler(), "run `rustup component add rust-src`")
}

/// Where a build of the linker leaves its own parts: inside the tree, for a minute.
fn scratch() -> PathBuf {
    tree::root().join("target/tools/build")
}

fn install_linker(compiler: &Compiler) -> Result<()> {
    let llvm = compiler.llvm;
    let prefix = format!("/usr/lib/llvm-{}", llvm.0);
    let missing = needs::missing(needs::linker(llvm));
    if !missing.is_empty() {
        eprintln!("setup: what bpf-linker is built against:");
        apt::install(&missing, &format!("put a bpf-linker for {llvm} on PATH"))?;
    }
    if !Path::new(&prefix).is_dir() {
        bail!("{llvm} is not in {prefix} (put a bpf-linker for {llvm} on PATH, untested)");
    }
    eprintln!("setup: bpf-linker for {llvm}, once, a minute or two:");
    run::run(
        cargo()
            .args(["install", "bpf-linker", "--version", BPF_LINKER, "--locked"])
            .args(["--no-default-features", "--features"])
            .arg(format!("llvm-{}", llvm.0))
            .arg("--root")
            .arg(install_root(&tree::root(), llvm))
            .arg("--target-dir")
            .arg(scratch())
            .env("LLVM_PREFIX", prefix),
    )?;
    fs::remove_dir_all(scratch()).context("the linker's build directory can not be removed")
}

fn for_tests(compiler: &Compiler) -> Vec<Need> {
    let mut needs = needs::tests();
    if compiler.sysroot == Path::new("/usr") {
        needs.push(needs::clippy());
    }
    needs
}
