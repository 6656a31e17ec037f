//! `cargo xtask test`: everything that can show a mistake, in one run.
//!
//! Kernel tests are never skipped here: where they can not run they fail and say
//! what is missing.

use std::{env::consts::ARCH, fs, os::unix::fs::MetadataExt, process::Command};

use anyhow::Result;
use clap::ValueEnum;
use kernel_toolchain::Toolchain;

use super::setup::{self, Purpose};
use crate::{
    run::{self, User, cargo},
    steps::{Done, Steps},
    tree,
};

/// The crates whose tests need root and a kernel.
const KERNEL_TESTS: [&str; 2] = ["governor-tests", "governor-lab"];

/// Arguments of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Steps to take [default: all]
    #[arg(value_enum)]
    steps: Vec<Step>,
    /// Only tests with this in their name, for the steps `unit` and `kernel`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Args {
    /// Whether unit and kernel tests are built together. For a part of the workspace cargo builds
    /// what it depends on with other features: a second time, where the rest is built too.
    fn build_at_once(&self) -> bool {
        self.steps.is_empty() && has_nextest()
    }
}

/// The steps, in the order they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// rustfmt changes nothing
    Format,
    /// The kernel programs and the workspace build
    Build,
    /// clippy finds nothing, in the workspace and in the kernel programs
    Lints,
    /// rustdoc has no complaint
    Docs,
    /// Tests that need neither root nor a kernel feature
    Unit,
    /// Tests on the running kernel, as root
    Kernel,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let toolchain = setup::ensure(Purpose::Tests)?;
    let all = Step::value_variants();
    let chosen = all
        .iter()
        .filter(|step| args.steps.is_empty() || args.steps.contains(step));
    let mut steps = Steps::default();
    for step in chosen {
        match step {
            Step::Format => steps.take("format", format),
            Step::Build => steps.take("build", || build(&toolchain)),
            Step::Lints => {
                steps.take("lints", lints);
                steps.take("kernel lints", || kernel_lints(&toolchain));
            }
            Step::Docs => steps.take("docs", docs),
            Step::Unit => {
                steps.take("unit tests", || unit_tests(args));
                steps.take("doc tests", doc_tests);
            }
            Step::Kernel => steps.take("kernel tests", || kernel_tests(args)),
        }
    }
    steps.finish()
}

fn done(command: &mut Command) -> Result<Done> {
    run::run(command).map(|()| Done::Yes)
}

fn format() -> Result<Done> {
    run::run(cargo().args(["fmt", "--all", "--check"]))?;
    done(cargo().args([
        "fmt",
        "--check",
        "--manifest-path",
        "governor-ebpf/Cargo.toml",
    ]))
}

fn build(toolchain: &Toolchain) -> Result<Done> {
    toolchain.build()?;
    done(cargo().args(["build", "--workspace"]))
}

fn lints() -> Result<Done> {
    done(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn kernel_lints(toolchain: &Toolchain) -> Result<Done> {
    match toolchain.clippy() {
        Some(found) => Ok(found.map(|()| Done::Yes)?),
        None => Ok(Done::Skipped("this toolchain has no clippy")),
    }
}

fn docs() -> Result<Done> {
    done(
        cargo()
            .args(["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn unit_tests(args: &Args) -> Result<Done> {
    let mut tests = if args.build_at_once() {
        chosen_by(&format!("not ({})", kernel_packages()))
    } else {
        let mut tests = runner();
        tests.arg("--workspace");
        tests.args(KERNEL_TESTS.map(|package| format!("--exclude={package}")));
        tests
    };
    done(tests.args(args.only.as_deref()))
}

/// nextest does not run them.
fn doc_tests() -> Result<Done> {
    done(cargo().args(["test", "--doc", "--workspace"]))
}

/// Tests look for the programs of the same build, so those are built first; as
/// the user, like the tests themselves. Only what runs is run as root.
fn kernel_tests(args: &Args) -> Result<Done> {
    run::run(cargo().args(["build", "--workspace"]))?;
    let mut tests = if args.build_at_once() {
        chosen_by(&kernel_packages())
    } else {
        let mut tests = runner();
        tests.args(KERNEL_TESTS.map(|package| format!("--package={package}")));
        tests
    };
    tests.args(args.only.as_deref());
    if !has_nextest() {
        // With nextest the same is in .config/nextest.toml.
        tests.args(["--", "--test-threads=1"]);
    }
    if run::user()? == User::Root {
        return done(&mut tests);
    }
    let passed = done(tests.env(root_runner(), "sudo --preserve-env"));
    give_back_target()?;
    passed
}

/// What tests leave in `target/` as root must not stand in the user's way.
pub fn give_back_target() -> Result<()> {
    let target = tree::root().join("target");
    let owner = fs::metadata(&target)?.uid();
    run::run(
        run::as_root("chown")?
            .args(["--recursive", "--from=root", &owner.to_string()])
            .arg(target),
    )
}

/// cargo and nextest start every test program through the command in this variable.
fn root_runner() -> String {
    let arch = ARCH.to_uppercase();
    format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER")
}

/// nextest where it is installed: a process per test, a time for each, a summary.
fn runner() -> Command {
    let mut command = cargo();
    let test: &[&str] = if has_nextest() {
        &["nextest", "run"]
    } else {
        &["test"]
    };
    command.args(test).arg("--no-fail-fast");
    command
}

/// Tests of the whole workspace that are in this set of nextest's.
fn chosen_by(set: &str) -> Command {
    let mut tests = runner();
    tests.args(["--workspace", "--filterset", set]);
    tests
}

/// [`KERNEL_TESTS`] as a set of nextest's.
fn kernel_packages() -> String {
    KERNEL_TESTS
        .map(|package| format!("package({package})"))
        .join(" + ")
}

fn has_nextest() -> bool {
    run::which("cargo-nextest").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_runner_is_named_as_cargo_reads_it() {
        let name = root_runner();
        assert!(name.starts_with("CARGO_TARGET_"));
        assert!(name.ends_with("_UNKNOWN_LINUX_GNU_RUNNER"));
        assert!(!name.contains(char::is_lowercase));
    }
}
