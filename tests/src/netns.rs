//! Network namespaces that vanish with their guard.

use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::{must, names, sweep};

/// Where `ip -n NAME` looks for namespaces, so that people can look inside a running test.
const DIRECTORY: &str = "/run/netns";

/// A network namespace with its loopback up. Dropping it removes the name; the
/// kernel frees the rest with the last process inside.
#[derive(Debug)]
pub struct Netns {
    name: String,
    handle: File,
}

impl Netns {
    /// Makes an empty namespace.
    pub fn create() -> Self {
        sweep::once();
        let name = names::unique();
        let handle =
            must(make(&name).with_context(|| format!("cannot make network namespace {name}")));
        let netns = Self { name, handle };
        netns.ip(&["link", "set", "lo", "up"]);
        netns
    }

    /// The name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace as a file, for `setns`.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Runs `work` on a thread inside the namespace. Sockets that it opens and processes
    /// that it starts stay inside for good.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            self.enter();
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Moves the calling thread into the namespace, for the rest of its life.
    pub fn enter(&self) {
        let entered = setns(&self.handle, CloneFlags::CLONE_NEWNET);
        must(entered.with_context(|| format!("cannot enter network namespace {}", self.name)));
    }

    /// Sets a kernel parameter of this namespace, `name` as below `/proc/sys/net`: `ipv4/tcp_syn_retries`.
    pub fn sysctl(&self, name: &str, value: &str) {
        let path = Path::new("/proc/sys/net").join(name);
        must(
            self.run(|| fs::write(&path, value))
                .with_context(|| format!("cannot set {}", path.display())),
        );
    }

    /// Runs `ip` with these arguments inside the namespace.
    pub fn ip(&self, arguments: &[&str]) {
        let result = self.run(|| {
            let output = Command::new("ip")
                .args(arguments)
                .output()
                .context("cannot start ip (package iproute2)")?;
            ensure!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            Ok(())
        });
        must(result.with_context(|| format!("ip {}", arguments.join(" "))));
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        remove(&path_of(&self.name));
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// A thread leaves for a new namespace and pins it by a bind mount: nothing else of this process moves.
fn make(name: &str) -> Result<File> {
    let path = path_of(name);
    fs::create_dir_all(DIRECTORY).with_context(|| format!("cannot make {DIRECTORY}"))?;
    File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let made = thread::scope(|scope| {
        let pin = || {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare")?;
            mount(
                Some("/proc/thread-self/ns/net"),
                &path,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )
            .context("bind mount")
        };
        scope
            .spawn(pin)
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    });
    made.and_then(|()| Ok(File::open(&path)?))
        .inspect_err(|_| remove(&path))
}

pub(crate) fn remove_where(orphan: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&orphan))
    {
        remove(&entry.path());
    }
}

fn remove(path: &Path) {
    // Not mounted is no error here: a killed test may have stopped between the file and the mount.
    let _ = umount2(path, MntFlags::MNT_DETACH);
    if let Err(error) = fs::remove_file(path) {
        eprintln!(
            "harness: network namespace {} stays: {error}",
            path.display()
        );
    }
}
