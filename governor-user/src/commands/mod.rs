//! One file per command: what it asks for and how it runs.

pub mod exec;
pub mod policy;
