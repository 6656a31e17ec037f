//! Unmodified clients of the real world, each with the retries its users would switch on.
//!
//! Each call gives a command line that asks for `url`, tries again up to `retries` times, and
//! ends with code 0 once it was answered well. A client that is not installed fails the test
//! with the name of its package. Times between tries are the client's own habit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

use crate::{artifact, must};

/// A client, by the name of its language or program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealClient {
    /// `curl --retry`: waits 1 s, doubling.
    Curl,
    /// requests with urllib3's `Retry`: no wait before the first retry, then doubling.
    Python,
    /// net/http of the standard library in a loop.
    Go,
    /// `fetch` in a loop.
    Node,
    /// `java.net.http.HttpClient` in a loop.
    Java,
}

impl RealClient {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Curl, Self::Python, Self::Go, Self::Node, Self::Java];

    /// Its command line.
    #[track_caller]
    pub fn command(self, url: &str, retries: u32) -> Command {
        let mut command = must(self.program());
        if self != Self::Curl {
            command.arg(url).arg(retries.to_string());
        } else {
            command.args([
                "--silent",
                "--show-error",
                "--fail",
                "--max-time",
                "10",
                "--retry-all-errors",
                "--retry",
            ]);
            command.arg(retries.to_string()).arg(url);
        }
        // A proxy of this machine must not come between the client and the lab.
        for name in [
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn program(self) -> Result<Command> {
        match self {
            Self::Curl => installed("curl", "--version", "curl").map(Command::new),
            Self::Python => python().map(|python| script(python, "client.py")),
            Self::Node => {
                installed("node", "--version", "nodejs").map(|node| script(node, "client.mjs"))
            }
            Self::Java => installed("java", "-version", "openjdk-17-jdk-headless")
                .map(|java| script(java, "Client.java")),
            Self::Go => go_client().map(Command::new),
        }
    }
}

fn script(interpreter: String, name: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(source(name));
    command
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(name)
}

fn installed(program: &str, probe: &str, package: &str) -> Result<String> {
    let works = works(Command::new(program).arg(probe));
    ensure!(
        works,
        "{program} is not installed: the test needs a real client (apt-get install {package})"
    );
    Ok(program.to_owned())
}

/// The first Python that has requests: a pyenv in front of Debian's often has not.
fn python() -> Result<String> {
    let has_requests =
        |python: &&str| works(Command::new(python).args(["-c", "import requests, urllib3"]));
    let found = ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(has_requests);
    let found = found.ok_or_else(|| anyhow!("no python3 has requests: the test needs a real client (apt-get install python3-requests)"));
    found.map(str::to_owned)
}

/// Built once per test process, beside cargo's own products.
fn go_client() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build_go_client().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|error| anyhow!(error))
}

fn build_go_client() -> Result<PathBuf> {
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
        .arg(source("client.go"));
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

fn works(probe: &mut Command) -> bool {
    let status = probe
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
