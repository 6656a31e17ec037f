//! Cargo inside cargo: the kernel programs are built for another target with
//! another compiler, so nothing of the outer build may leak in.

use std::{
    env,
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use crate::toolchain::Toolchain;

/// Little-endian BPF; the daemon runs on little-endian machines only.
const TARGET: &str = "bpfel-unknown-none";

/// The binary target of the kernel crate.
const PROGRAM: &str = "governor";

/// Set by the outer cargo, clippy, coverage or the user for the *outer* build.
const LEAKS: [&str; 13] = [
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_FEATURE_",
    "CARGO_INCREMENTAL",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
    "CLIPPY_",
    // Of build scripts: without it a build in one and one outside would each undo the other's, as
    // those of aya-ebpf run again where it has changed.
    "HOST",
    "LLVM_PROFILE_FILE",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
];

/// Why a build that could start did not end well. The compiler's own words are
/// on standard error.
#[derive(Debug)]
pub enum BuildError {
    /// cargo could not be started.
    Start(PathBuf, io::Error),
    /// cargo reported errors.
    Failed(ExitStatus),
    /// cargo was content, but no object is there.
    NoObject(PathBuf),
}

impl Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(cargo, why) => write!(f, "{} does not start: {why}", cargo.display()),
            Self::Failed(status) => write!(f, "the kernel programs do not build: {status}"),
            Self::NoObject(path) => write!(f, "no kernel object at {}", path.display()),
        }
    }
}

impl Toolchain {
    /// Builds the kernel programs; returns the object's path. About 40 s the first
    /// time (`core` and the macros), a fifth of a second when nothing changed.
    ///
    /// # Errors
    /// If cargo does not start or the programs do not compile.
    pub fn build(&self) -> Result<PathBuf, BuildError> {
        let mut cargo = self.nested("cargo");
        cargo.arg("build").args(self.arguments());
        run(&mut cargo)?;
        let object = self.target_dir().join(TARGET).join("release").join(PROGRAM);
        if object.is_file() {
            Ok(object)
        } else {
            Err(BuildError::NoObject(object))
        }
    }

    /// Lints the kernel programs, warnings are errors. `None`: this toolchain has
    /// no clippy.
    ///
    /// # Errors
    /// If clippy does not start or finds something.
    pub fn clippy(&self) -> Option<Result<(), BuildError>> {
        // By path: cargo looks for its subcommands among rustup's proxies first.
        let program = self.compiler.program("cargo-clippy");
        program.is_file().then(|| {
            let mut clippy = self.nested("cargo-clippy");
            clippy.env("CARGO", self.compiler.program("cargo"));
            clippy.arg("clippy").args(self.arguments());
            clippy.args(["--", "-D", "warnings"]);
            run(&mut clippy)
        })
    }

    /// The files whose change calls for a new build.
    #[must_use]
    pub fn inputs(&self) -> Vec<PathBuf> {
        let sources = [
            "governor-ebpf/src",
            "governor-ebpf/Cargo.toml",
            "governor-ebpf/Cargo.lock",
            "governor-core/src",
            "governor-core/Cargo.toml",
            "Cargo.toml",
        ];
        let mut inputs: Vec<PathBuf> = sources.iter().map(|it| self.root.join(it)).collect();
        inputs.push(self.compiler.program("rustc"));
        inputs.push(self.linker.path.clone());
        inputs
    }

    fn crate_dir(&self) -> PathBuf {
        self.root.join("governor-ebpf")
    }

    /// Its own: sharing the outer one would wait for the outer build's lock for ever.
    fn target_dir(&self) -> PathBuf {
        self.root.join("target/kernel")
    }

    fn arguments(&self) -> Vec<String> {
        let target_dir = self.target_dir().display().to_string();
        ["--release", "--target", TARGET, "-Zbuild-std=core"]
            .into_iter()
            .chain(["--target-dir", &target_dir])
            .map(str::to_owned)
            .collect()
    }

    fn nested(&self, program: &str) -> Command {
        let mut command = Command::new(self.compiler.program(program));
        command.current_dir(self.crate_dir());
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(leaks) {
                command.env_remove(name);
            }
        }
        command
            .env("RUSTC", self.compiler.program("rustc"))
            // `-Z build-std` and the intrinsics, on a stable compiler too.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", flags(&self.linker.path));
        command
    }
}

fn leaks(name: &str) -> bool {
    LEAKS.iter().any(|leak| name.starts_with(leak))
}

/// Encoded, because a build script inherits `CARGO_ENCODED_RUSTFLAGS=""`, which
/// overrides `RUSTFLAGS` without a word.
fn flags(linker: &Path) -> String {
    let linker = format!("-Clinker={}", linker.display());
    // Without v3 atomics do not return the old value, and 6.18 refuses every
    // program of variable length: the bounds are lost in 32-bit extensions.
    [
        "-Cdebuginfo=2",
        "-Clink-arg=--btf",
        "-Ctarget-cpu=v3",
        &linker,
    ]
    .join("\x1f")
}

fn run(cargo: &mut Command) -> Result<(), BuildError> {
    let status = cargo
        .status()
        .map_err(|why| BuildError::Start(cargo.get_program().into(), why))?;
    if status.success() {
        Ok(())
    } else {
        Err(BuildError::Failed(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_outer_build_do_not_leak() {
        for name in [
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_BUILD_TARGET",
        ] {
            assert!(leaks(name), "{name}");
        }
    }

    #[test]
    fn registry_network_and_jobserver_settings_are_kept() {
        for name in ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_MAKEFLAGS", "PATH"] {
            assert!(!leaks(name), "{name}");
        }
    }

    #[test]
    fn flags_are_separated_as_cargo_encodes_them() {
        let flags = flags(Path::new("/a b/bpf-linker"));
        let flags: Vec<_> = flags.split('\x1f').collect();
        assert!(flags.contains(&"-Ctarget-cpu=v3"));
        assert_eq!(flags.last(), Some(&"-Clinker=/a b/bpf-linker"));
    }
}
