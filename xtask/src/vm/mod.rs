//! A virtual machine to test in: its kernel, its file system, its console.

pub mod archive;
pub mod emulator;
pub mod kernel;
pub mod libraries;
pub mod machine;
pub mod verdict;
