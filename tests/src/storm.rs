//! The storm client: a real caller that fails, waits and tries again.
//!
//! The program `storm-client` is a thin shell around these modules; tests, demo and
//! benchmarks start it as processes of their own. Each try becomes one line of JSON.

pub mod arrivals;
pub mod client;
pub mod client_budget;
pub mod crowd;
pub mod exchange;
pub mod fleet;
pub mod keepalive;
pub mod open_loop;
pub mod output;
pub mod pace;
pub mod policy;
pub mod pool;
pub mod remote;
pub mod report;
pub mod requests;
pub mod retry;
pub mod wire;
