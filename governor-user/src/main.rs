//! The retry governor: command line and daemon.
fn main() {}
