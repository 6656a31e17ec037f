//! Which compiler with which linker.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    compiler::{Compiler, OLDEST_RELEASE},
    linker::Linker,
};

/// What builds the kernel programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The source tree.
    pub(crate) root: PathBuf,
    /// rustc, cargo and the library sources.
    pub compiler: Compiler,
    /// A linker of the same LLVM.
    pub linker: Linker,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (compiler, linker) = (&self.compiler, self.linker.path.display());
        write!(f, "{compiler}, {} with {linker}", compiler.llvm)
    }
}

/// Why the kernel programs can not be built here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No compiler with library sources, or only ones that are too old.
    Compiler {
        /// The newest one seen.
        too_old: Option<Compiler>,
    },
    /// A compiler, but no linker of its LLVM.
    Linker {
        /// The compiler that would be used.
        compiler: Compiler,
        /// A linker of another LLVM.
        misfit: Option<Linker>,
    },
}

impl Error for Missing {}

impl Missing {
    /// What is missing, without the hint what to do about it.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Compiler { too_old: None } => format!(
                "no Rust compiler with its library sources (rust-src), {OLDEST_RELEASE} or newer"
            ),
            Self::Compiler { too_old: Some(old) } => {
                format!("{old} is older than {OLDEST_RELEASE}")
            }
            Self::Linker { compiler, misfit } => {
                let llvm = compiler.llvm;
                let others = misfit.as_ref().map_or(String::new(), |it| {
                    format!("; {} is for {}", it.path.display(), it.llvm)
                });
                format!("no bpf-linker for {llvm}, which {compiler} needs{others}")
            }
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what();
        write!(
            f,
            "the kernel programs can not be built: {what} (run `cargo xtask setup`)"
        )
    }
}

/// The first compiler that a linker fits; a pair that is there comes before a
/// better compiler whose linker would have to be built first.
pub(crate) fn choose(
    root: &Path,
    compilers: Vec<Compiler>,
    linkers: &[Linker],
) -> Result<Toolchain, Missing> {
    let (fresh, old): (Vec<_>, Vec<_>) = compilers
        .into_iter()
        .partition(|compiler| compiler.release >= OLDEST_RELEASE);
    let pair = fresh.iter().find_map(|compiler| {
        let linker = linkers.iter().find(|l| l.llvm == compiler.llvm)?;
        Some((compiler, linker))
    });
    if let Some((compiler, linker)) = pair {
        return Ok(Toolchain {
            root: root.to_owned(),
            compiler: compiler.clone(),
            linker: linker.clone(),
        });
    }
    Err(match fresh.into_iter().next() {
        Some(compiler) => Missing::Linker {
            compiler,
            misfit: linkers.first().cloned(),
        },
        None => Missing::Compiler {
            too_old: old.into_iter().max_by_key(|compiler| compiler.release),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::{Llvm, Release};

    fn compiler(sysroot: &str, minor: u32, llvm: u32) -> Compiler {
        Compiler {
            sysroot: sysroot.into(),
            release: Release { major: 1, minor },
            llvm: Llvm(llvm),
        }
    }

    fn linker(path: &str, llvm: u32) -> Linker {
        Linker {
            path: path.into(),
            llvm: Llvm(llvm),
        }
    }

    fn pick(compilers: Vec<Compiler>, linkers: &[Linker]) -> Result<(PathBuf, PathBuf), String> {
        choose(Path::new("tree"), compilers, linkers)
            .map(|it| (it.compiler.sysroot, it.linker.path))
            .map_err(|missing| missing.to_string())
    }

    #[test]
    fn the_first_compiler_with_a_linker_of_its_llvm_is_taken() {
        let compilers = vec![compiler("/usr", 96, 22), compiler("/nightly", 99, 23)];
        assert_eq!(
            pick(compilers.clone(), &[linker("/b23", 23), linker("/b22", 22)]),
            Ok(("/usr".into(), "/b22".into()))
        );
        assert_eq!(
            pick(compilers, &[linker("/b23", 23)]),
            Ok(("/nightly".into(), "/b23".into()))
        );
    }

    #[test]
    fn a_compiler_that_is_too_old_is_passed_over() {
        let compilers = vec![compiler("/usr", 85, 22), compiler("/stable", 95, 22)];
        assert_eq!(
            pick(compilers, &[linker("/b", 22)]),
            Ok(("/stable".into(), "/b".into()))
        );
    }

    #[test]
    fn a_bare_machine_is_told_what_a_compiler_needs() {
        assert_eq!(
            pick(vec![], &[]),
            Err(
                "the kernel programs can not be built: no Rust compiler with its library \
                 sources (rust-src), 1.95 or newer (run `cargo xtask setup`)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn an_old_compiler_alone_is_named() {
        assert_eq!(
            pick(vec![compiler("/usr", 85, 19)], &[linker("/b", 19)]),
            Err(
                "the kernel programs can not be built: rustc 1.85 in /usr is older than 1.95 \
                 (run `cargo xtask setup`)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_missing_linker_names_the_llvm_it_must_have() {
        assert_eq!(
            pick(vec![compiler("/usr", 96, 22)], &[]),
            Err(
                "the kernel programs can not be built: no bpf-linker for LLVM 22, which \
                 rustc 1.96 in /usr needs (run `cargo xtask setup`)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_linker_of_another_llvm_is_named_as_the_misfit() {
        assert_eq!(
            pick(vec![compiler("/usr", 96, 22)], &[linker("/b", 21)]),
            Err(
                "the kernel programs can not be built: no bpf-linker for LLVM 22, which \
                 rustc 1.96 in /usr needs; /b is for LLVM 21 (run `cargo xtask setup`)"
                    .to_owned()
            )
        );
    }
}
