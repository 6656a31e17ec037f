//! Where the clients are, and how each kind is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

use crate::artifact;

/// A shell script around a program of the machine.
pub fn shell(program: &str, script: &str) -> Result<Command> {
    installed(program, "--version", program)?;
    Ok(Command::new(source(script)))
}

/// A script for the Python that `cargo xtask setup` fitted out.
pub fn python(script: &str) -> Result<Command> {
    Ok(script_of(prepared("python/bin/python")?, script))
}

/// A script for Node with the packages that `cargo xtask setup` installed.
///
/// Node looks for packages above the script, and they are not in the source tree: a link beside
/// them leads to the scripts, and is kept as it is.
pub fn node(script: &str) -> Result<Command> {
    let node = installed("node", "--version", "nodejs")?;
    let mut command = Command::new(node);
    command.args(["--preserve-symlinks", "--preserve-symlinks-main"]);
    command.arg(prepared("node/scripts")?.join(script));
    Ok(command)
}

/// A script for Ruby.
pub fn ruby(script: &str) -> Result<Command> {
    let ruby = installed("ruby", "--version", "ruby")?;
    Ok(script_of(ruby.into(), script))
}

/// A single source file, which Java compiles as it starts.
pub fn java(script: &str) -> Result<Command> {
    let java = installed("java", "-version", "default-jdk-headless")?;
    let mut command = Command::new(java);
    // Two compilers of it and fifteen clients start at once on two cores: the quick one is enough.
    command.arg("-XX:TieredStopAtLevel=1").arg(source(script));
    Ok(command)
}

/// Built once per test process, beside cargo's own products.
pub fn go(script: &str) -> Result<Command> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build_go(script).map_err(|error| format!("{error:#}")));
    let built = built.clone().map_err(|error| anyhow!(error))?;
    Ok(Command::new(built))
}

fn build_go(script: &str) -> Result<PathBuf> {
    let go = installed("go", "version", "golang-go")?;
    let directory = artifact::directory()?.join("real-clients");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let program = directory.join(format!("go-client-{}", std::process::id()));
    let mut build = Command::new(go);
    build
        .arg("build")
        .arg("-o")
        .arg(&program)
        .arg(source(script));
    build
        .env("GOCACHE", directory.join("go-cache"))
        .env("GO111MODULE", "off")
        .env("GOFLAGS", "");
    let output = build.output().context("cannot start go")?;
    ensure!(
        output.status.success(),
        "go build: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    // Renamed in one step: test processes that build at the same time must not see half a program.
    let shared = directory.join("go-client");
    fs::rename(&program, &shared).context("cannot put the Go client in place")?;
    Ok(shared)
}

fn script_of(interpreter: PathBuf, script: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(source(script));
    // Root runs them in the source tree: no caches beside the scripts.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn source(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(script)
}

/// What `cargo xtask setup` put into the target directory of the tree.
fn prepared(path: &str) -> Result<PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = tree.join("target/clients").join(path);
    ensure!(
        path.exists(),
        "{} is not there: the test needs a real client (cargo xtask setup)",
        path.display()
    );
    Ok(path)
}

fn installed(program: &str, probe: &str, package: &str) -> Result<String> {
    let works = works(Command::new(program).arg(probe));
    ensure!(
        works,
        "{program} is not installed: the test needs a real client (cargo xtask setup, or apt-get install {package})"
    );
    Ok(program.to_owned())
}

fn works(probe: &mut Command) -> bool {
    let status = probe
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
