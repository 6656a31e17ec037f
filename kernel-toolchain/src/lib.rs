//! Finds what can build the kernel programs on this machine, and builds them.
//!
//! Three things are needed: a Rust compiler with its library sources (`core` has
//! to be built for the BPF target), the cargo that belongs to it, and a
//! `bpf-linker` of the same LLVM major. They come as Debian packages, as a rustup
//! toolchain with `rust-src`, or in any other sysroot that has the sources; this
//! crate takes what is there and installs nothing. `cargo xtask setup` installs.

mod compiler;
mod linker;
mod nested;
mod toolchain;

use std::path::Path;

pub use compiler::{Compiler, Llvm, OLDEST_RELEASE, Release};
pub use linker::{Linker, install_root};
pub use nested::BuildError;
pub use toolchain::{Missing, Toolchain};

/// Picks the toolchain for the source tree at `root`.
///
/// # Errors
/// Says in one line what is missing and which command installs it.
pub fn find(root: &Path) -> Result<Toolchain, Missing> {
    toolchain::choose(root, compiler::installed(), &linker::installed(root))
}
