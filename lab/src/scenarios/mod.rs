//! The scenarios, one file each.

mod blip;
mod blip_90s;
mod cold_restart;
mod defaults;
mod governor_chaos;
mod layers;
mod many_nodes;
mod one_layer;
mod overload;
mod retries_off;
mod scale_out;

use crate::scenario::Scenario;

/// All of them, in the report's order.
pub const ALL: &[Scenario] = &[
    overload::SCENARIO,
    blip::SCENARIO,
    blip_90s::SCENARIO,
    cold_restart::SCENARIO,
    scale_out::SCENARIO,
    retries_off::SCENARIO,
    many_nodes::SCENARIO,
    one_layer::SCENARIO,
    governor_chaos::SCENARIO,
    defaults::SCENARIO,
];
