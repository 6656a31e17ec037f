//! Kernel toolchain.
