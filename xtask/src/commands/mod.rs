//! One file per command.

pub mod bench;
pub mod build;
pub mod demo;
pub mod lab;
pub mod setup;
pub mod test;
pub mod vmtest;
