//! The storm lab: real storms, without and with the governor.

pub mod findings;
pub mod late;
pub mod measure;
pub mod peers;
pub mod progress;
pub mod report;
pub mod scenario;
mod scenarios;
pub mod stage;
pub mod stop;
mod sweeps;
pub mod watch;
