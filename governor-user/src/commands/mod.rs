//! One file per command: what it asks for and how it runs.

pub mod breaker;
pub mod detach;
pub mod doctor;
pub mod events;
pub mod exec;
pub mod gain;
mod output;
pub mod policy;
pub mod retries;
pub mod run;
pub mod shed;
pub mod status;

use crate::policy::units::GoDuration;

/// A `--for`.
fn lasting(text: &str) -> Result<GoDuration, String> {
    let parsed = text.parse::<GoDuration>();
    parsed.map_err(|why| format!("{why}: write it like 30s, 15m or 1h"))
}
