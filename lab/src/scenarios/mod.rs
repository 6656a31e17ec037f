//! The scenarios, one file each.

mod blip;
mod cold_restart;
mod many_nodes;
mod overload;
mod retries_off;

use crate::scenario::Scenario;

/// All of them, in the report's order.
pub const ALL: &[Scenario] = &[
    overload::SCENARIO,
    blip::SCENARIO,
    cold_restart::SCENARIO,
    retries_off::SCENARIO,
    many_nodes::SCENARIO,
];
