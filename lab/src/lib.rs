//! The storm lab: real storms, without and with the governor.

pub mod findings;
pub mod progress;
pub mod report;
