//! One file per command.

pub mod build;
pub mod setup;
pub mod test;
