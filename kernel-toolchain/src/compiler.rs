//! Rust compilers that can build `core` for a target without a shipped one.

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest release that has the atomic intrinsics in the form the kernel
/// programs use; also the `rust-version` of the workspace.
pub const OLDEST_RELEASE: Release = Release {
    major: 1,
    minor: 95,
};

/// A major version of LLVM. Bitcode is read safely only by the LLVM that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Llvm(pub u32);

impl fmt::Display for Llvm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LLVM {}", self.0)
    }
}

/// A release of rustc, without patch level and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Release {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A rustc with its cargo and its library sources, all in one sysroot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// `/usr` for a distribution's packages, else a rustup toolchain.
    pub sysroot: PathBuf,
    /// What `rustc -vV` says.
    pub release: Release,
    /// The LLVM that writes this compiler's bitcode.
    pub llvm: Llvm,
}

impl Compiler {
    /// A program of this sysroot: `rustc`, `cargo`, `cargo-clippy`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.sysroot.join("bin").join(name)
    }

    /// The programs are asked for by path, never through rustup's proxies: inside
    /// a cargo run those answer for the toolchain of the outer build.
    fn at(sysroot: PathBuf) -> Option<Self> {
        if !sysroot
            .join("lib/rustlib/src/rust/library/Cargo.lock")
            .is_file()
            || !sysroot.join("bin/cargo").is_file()
        {
            return None;
        }
        let said = output_of(Command::new(sysroot.join("bin/rustc")).arg("-vV"))?;
        let (release, llvm) = parse_version(&said)?;
        Some(Self {
            sysroot,
            release,
            llvm,
        })
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {} in {}", self.release, self.sysroot.display())
    }
}

/// Every compiler with its sources, the distribution's first: it changes least.
pub(crate) fn installed() -> Vec<Compiler> {
    let rustup = rustup_toolchains();
    let mut sysroots: Vec<PathBuf> = sysroots_on_path()
        .into_iter()
        .filter(|sysroot| !rustup.contains(sysroot))
        .collect();
    sysroots.extend(rustup.iter().cloned());
    sysroots.into_iter().filter_map(Compiler::at).collect()
}

fn sysroots_on_path() -> BTreeSet<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let compilers: BTreeSet<PathBuf> = env::split_paths(&path)
        .filter_map(|dir| fs::canonicalize(dir).ok())
        .map(|dir| dir.join("rustc"))
        .filter(|rustc| rustc.is_file())
        .collect();
    compilers
        .iter()
        .filter_map(|rustc| output_of(Command::new(rustc).args(["--print", "sysroot"])))
        .filter_map(|said| fs::canonicalize(said.trim()).ok())
        .collect()
}

fn rustup_toolchains() -> BTreeSet<PathBuf> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME")?;
        Some(Path::new(&home).join(".rustup"))
    });
    home.and_then(|home| fs::read_dir(home.join("toolchains")).ok())
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.ok()?.path()).ok())
        .collect()
}

/// What a command prints, if it ends well.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|o| o.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// Reads `rustc -vV`.
fn parse_version(said: &str) -> Option<(Release, Llvm)> {
    let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let mut release = field("release: ")?.split('.');
    let release = Release {
        major: release.next()?.parse().ok()?,
        minor: release.next()?.parse().ok()?,
    };
    let llvm = field("LLVM version: ")?.split('.').next()?.parse().ok()?;
    Some((release, Llvm(llvm)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)
binary: rustc
commit-hash: ac68faa20c58cbccd01ee7208bf3b6e93a7d7f96
commit-date: 2026-05-25
host: x86_64-unknown-linux-gnu
release: 1.96.0
LLVM version: 22.1.8
";

    fn release(major: u32, minor: u32) -> Release {
        Release { major, minor }
    }

    #[test]
    fn release_and_llvm_are_read_from_debians_rustc() {
        assert_eq!(parse_version(DEBIAN), Some((release(1, 96), Llvm(22))));
    }

    #[test]
    fn release_and_llvm_are_read_from_a_nightly() {
        let nightly = "rustc 1.99.0-nightly\nrelease: 1.99.0-nightly\nLLVM version: 23.1.0";
        assert_eq!(parse_version(nightly), Some((release(1, 99), Llvm(23))));
    }

    #[test]
    fn an_answer_without_llvm_is_no_compiler() {
        assert_eq!(parse_version("release: 1.96.0\n"), None);
        assert_eq!(
            parse_version("release: 1.96.0\nLLVM version: unknown"),
            None
        );
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn releases_compare_by_number_not_by_text() {
        assert!(release(1, 100) > release(1, 95));
        assert!(release(1, 85) < OLDEST_RELEASE);
    }

    #[test]
    fn a_sysroot_without_library_sources_is_no_compiler() {
        let empty = env::temp_dir().join("no-such-sysroot");
        assert_eq!(Compiler::at(empty), None);
    }
}
