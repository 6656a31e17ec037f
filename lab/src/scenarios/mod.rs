//! The scenarios, one file each.

mod blip;
mod blip_90s;
mod cold_restart;
mod defaults;
mod fleet;
mod governor_chaos;
mod harmless;
mod herd;
pub mod herd_of_processes;
mod layers;
mod long_timeouts;
mod many_nodes;
mod noisy_neighbour;
mod not_retryable;
mod one_layer;
mod opaque_clients;
mod overload;
mod partial;
mod real_clients;
mod retries_off;
mod scale_out;
mod stalled;
pub mod usual;
mod wasted_work;

use crate::scenario::Scenario;

/// All of them, in the report's order.
pub const ALL: &[Scenario] = &[
    overload::SCENARIO,
    blip::SCENARIO,
    blip_90s::SCENARIO,
    cold_restart::SCENARIO,
    scale_out::SCENARIO,
    herd::SCENARIO,
    retries_off::SCENARIO,
    many_nodes::SCENARIO,
    partial::SCENARIO,
    one_layer::SCENARIO,
    wasted_work::SCENARIO,
    not_retryable::SCENARIO,
    herd_of_processes::SCENARIO,
    long_timeouts::SCENARIO,
    noisy_neighbour::SCENARIO,
    real_clients::SCENARIO,
    opaque_clients::SCENARIO,
    harmless::SCENARIO,
    governor_chaos::SCENARIO,
    fleet::SCENARIO,
    defaults::SCENARIO,
];
