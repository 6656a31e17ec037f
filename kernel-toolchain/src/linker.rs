//! `bpf-linker`: turns bitcode into a BPF object with BTF.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::compiler::{Llvm, output_of};

/// A `bpf-linker` that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linker {
    /// The program.
    pub path: PathBuf,
    /// The LLVM it was built with.
    pub llvm: Llvm,
}

/// Where `cargo xtask setup` installs the linker: in the tree, one per LLVM, so
/// that a tree is removed without a trace.
#[must_use]
pub fn install_root(root: &Path, llvm: Llvm) -> PathBuf {
    root.join("target/tools").join(format!("llvm-{}", llvm.0))
}

/// Every linker that runs, the tree's own first.
pub(crate) fn installed(root: &Path) -> Vec<Linker> {
    let own = fs::read_dir(root.join("target/tools"))
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let llvm = Llvm(name.to_str()?.strip_prefix("llvm-")?.parse().ok()?);
            let path = install_root(root, llvm).join("bin/bpf-linker");
            runs(&path).then_some(Linker { path, llvm })
        });
    let search = env::var_os("PATH").unwrap_or_default();
    let others: Vec<PathBuf> = env::split_paths(&search).collect();
    let others = others.iter().filter_map(|dir| {
        let path = fs::canonicalize(dir.join("bpf-linker")).ok()?;
        let llvm = llvm_named_in(&fs::read(&path).ok()?)?;
        runs(&path).then_some(Linker { path, llvm })
    });
    own.chain(others).collect()
}

/// A linker whose `libLLVM` was removed is there, but does not start.
fn runs(linker: &Path) -> bool {
    output_of(Command::new(linker).arg("--version")).is_some()
}

/// `bpf-linker` has no option that tells its LLVM, but the binary names it: the
/// library it loads (`libLLVM.so.22.1`), or, linked statically, the signature it
/// writes into bitcode (`LLVM22.1.8`).
fn llvm_named_in(binary: &[u8]) -> Option<Llvm> {
    const NAME: &[u8] = b"LLVM";
    let mut rest = binary;
    while let Some(at) = rest.iter().position(|byte| *byte == NAME[0]) {
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(NAME) {
            let version = after.strip_prefix(b".so.").unwrap_or(after);
            if let Some(major) = major_version(version) {
                return Some(Llvm(major));
            }
        }
        rest = &rest[1..];
    }
    None
}

/// The two digits before a dot at the start of `text`.
fn major_version(text: &[u8]) -> Option<u32> {
    let [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'.', ..] = text else {
        return None;
    };
    Some(u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_linker_names_the_library_it_loads() {
        let binary = b"\x7fELF\0libc.so.6\0libLLVM.so.22.1\0GLIBC_2.34";
        assert_eq!(llvm_named_in(binary), Some(Llvm(22)));
    }

    #[test]
    fn a_static_linker_names_the_bitcode_signature() {
        assert_eq!(llvm_named_in(b"\0LLVM23.1.0\0"), Some(Llvm(23)));
    }

    #[test]
    fn other_mentions_of_llvm_are_passed_over() {
        let binary = b"LLVM 22 builds also support\0LLVM_PREFIX\0LLLVM22.1.8\0";
        assert_eq!(llvm_named_in(binary), Some(Llvm(22)));
        assert_eq!(llvm_named_in(b"LLVM 22 builds also support, LLVM"), None);
        assert_eq!(llvm_named_in(b""), None);
    }

    #[test]
    fn the_tree_keeps_one_linker_per_llvm() {
        let root = Path::new("tree");
        let path = install_root(root, Llvm(22));
        assert_eq!(path, Path::new("tree/target/tools/llvm-22"));
    }
}
