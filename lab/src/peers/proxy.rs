//! What people put between callers and services today: a proxy, one per workload, as a sidecar.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use governor_tests::process::Process;
use governor_tests::scratch::Scratch;

use crate::stage::Stage;

/// Where the programs of the proxies are: the root of what was unpacked. See [`find`].
static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();

/// Looks that the programs of all proxies are below this directory, and takes them from there.
///
/// # Errors
/// Where one is missing.
pub fn find(root: &Path) -> Result<()> {
    let all = Proxy::ALL.map(Proxy::program);
    let missing = all.iter().find(|program| !root.join(program).is_file());
    if let Some(program) = missing {
        bail!(
            "{}: there is no {program} (`cargo xtask bench peers` unpacks them into target/peers/root)",
            root.display()
        );
    }
    // Once: it is a command line's.
    let _ = PROGRAMS.set(root.to_owned());
    Ok(())
}

/// How long a proxy may take to listen: a hundred of them start at once.
const LISTENS_WITHIN: Duration = Duration::from_secs(120);

/// A kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// Envoy; callers retry through it.
    Envoy,
    /// Envoy, which retries itself, within its budget; callers do not.
    EnvoyRetries,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
    /// No proxy: nginx as the server of the healthy load.
    Server,
}

impl Proxy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Envoy, Self::EnvoyRetries, Self::Haproxy, Self::Nginx];

    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Envoy => "Envoy",
            Self::EnvoyRetries => "Envoy, which retries",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Server => "the server",
        }
    }

    fn config(self) -> (&'static str, &'static str) {
        match self {
            Self::Envoy | Self::EnvoyRetries => {
                ("envoy.yaml", include_str!("../../peers/envoy.yaml"))
            }
            Self::Haproxy => ("haproxy.cfg", include_str!("../../peers/haproxy.cfg")),
            Self::Nginx => ("nginx.conf", include_str!("../../peers/nginx.conf")),
            Self::Server => ("backend.conf", include_str!("../../peers/backend.conf")),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Envoy | Self::EnvoyRetries => "envoy/_bin/envoy",
            Self::Haproxy => "usr/sbin/haproxy",
            Self::Nginx | Self::Server => "usr/sbin/nginx",
        }
    }

    /// What the program says of its version.
    pub fn version(self) -> String {
        let argument = match self {
            Self::Envoy | Self::EnvoyRetries => "--version",
            Self::Haproxy | Self::Nginx | Self::Server => "-v",
        };
        let output = self.command().arg(argument).output();
        let output = output
            .map(|it| [it.stdout, it.stderr].concat())
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&output).into_owned();
        let line = text.lines().find(|line| !line.trim().is_empty());
        let words = line.unwrap_or("not found").split_whitespace();
        words
            // Envoy calls itself by its path here.
            .map(|word| match word.strip_prefix('/') {
                Some(path) => path.rsplit('/').next().unwrap_or(path),
                None => word,
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn command(self) -> Command {
        let root = PROGRAMS.get().map_or(Path::new("/"), PathBuf::as_path);
        let mut command = Command::new(root.join(self.program()));
        let arch = std::env::consts::ARCH;
        command.env(
            "LD_LIBRARY_PATH",
            root.join(format!("usr/lib/{arch}-linux-gnu")),
        );
        command
    }
}

/// A running sidecar. Dropping it ends it.
#[derive(Debug)]
pub struct Sidecar {
    proxy: Proxy,
    port: u16,
    process: Process,
    _files: Scratch,
}

impl Sidecar {
    /// Starts one in a workload's cgroup. It listens later: see [`Sidecar::listens`].
    #[track_caller]
    pub fn start(
        proxy: Proxy,
        stage: &Stage<'_>,
        workload: &str,
        port: u16,
        upstream: u16,
    ) -> Self {
        let files = Scratch::new();
        let (name, template) = proxy.config();
        let (timeout, retries) = match proxy {
            Proxy::EnvoyRetries => (
                "5s",
                "retry_policy: {retry_on: \"5xx,reset,connect-failure\", num_retries: 3, per_try_timeout: 1s}",
            ),
            _ => ("1s", ""),
        };
        let config = files.path(name);
        let text = template
            .replace("@PORT@", &port.to_string())
            .replace("@UPSTREAM@", &upstream.to_string())
            .replace(
                "@DIR@",
                &config
                    .parent()
                    .unwrap_or(Path::new("/"))
                    .display()
                    .to_string(),
            )
            .replace("@TIMEOUT@", timeout)
            .replace("@RETRIES@", retries);
        let written = fs::write(&config, text);
        assert!(
            written.is_ok(),
            "cannot write {}: {written:?}",
            config.display()
        );
        let mut command = proxy.command();
        match proxy {
            Proxy::Envoy | Proxy::EnvoyRetries => {
                // As many workers as it has CPUs, its default; no hot restart: there are several of them.
                command
                    .args(["--disable-hot-restart", "--log-level", "error", "-c"])
                    .arg(&config)
            }
            Proxy::Haproxy => command.args(["-db", "-f"]).arg(&config),
            Proxy::Nginx | Proxy::Server => command
                .arg("-p")
                .arg(config.parent().unwrap_or(Path::new("/")))
                .arg("-c")
                .arg(&config),
        };
        let process = stage.within(workload, |place| Process::start(command, place));
        Self {
            proxy,
            port,
            process,
            _files: files,
        }
    }

    /// Waits until it listens.
    #[track_caller]
    pub fn listens(mut self, stage: &Stage<'_>) -> Self {
        let (name, port) = (self.proxy.name(), self.port);
        let deadline = Instant::now() + LISTENS_WITHIN;
        let listens = || {
            stage
                .lab()
                .netns()
                .run(|| TcpStream::connect(("127.0.0.1", port)).is_ok())
        };
        while !listens() {
            assert!(
                self.process.is_running(),
                "{name} ended: {:?}",
                self.process.finish(LISTENS_WITHIN).stderr
            );
            assert!(Instant::now() < deadline, "{name} does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        self
    }

    /// What it has in memory of its own, bytes: its workers are its children.
    pub fn memory(&self) -> f64 {
        let pid = self.process.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split(' ').filter_map(|pid| pid.parse().ok());
        memory(pid) + children.map(memory).sum::<f64>()
    }
}

/// The proportional set size of a process, bytes.
pub fn memory(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    kilobytes.map_or(f64::NAN, |kilobytes: f64| kilobytes * 1024.0)
}
