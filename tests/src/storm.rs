//! The storm client: a real caller that fails, waits and tries again.
//!
//! The program `storm-client` is a thin shell around these modules; tests, demo and
//! benchmarks start it as processes of their own. Each try becomes one line of JSON.

pub mod exchange;
pub mod fleet;
pub mod keepalive;
pub mod open_loop;
pub mod remote;
pub mod report;
pub mod requests;
pub mod retry;
pub mod wire;
