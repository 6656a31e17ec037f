//! One file per command: what it asks for and how it runs.

pub mod breaker;
pub mod detach;
pub mod doctor;
pub mod events;
pub mod exec;
pub mod policy;
pub mod retries;
pub mod run;
pub mod shed;
pub mod status;
