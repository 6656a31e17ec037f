//! The retry governor: command line and daemon.

mod cgroup;
mod errors;
mod kernel;
mod policy;

fn main() {}
