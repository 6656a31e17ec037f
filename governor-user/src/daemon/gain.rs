//! `GET /v1/gain`: rates are measured between two looks at the ledgers.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::task::block_in_place;

use super::node::Node;
use super::operators::Declined;
use super::tree::Tree;
use super::workloads::{Place, place};
use crate::errors::{Failure, Result};
use crate::gain::listeners::Listeners;
use crate::gain::{Gain, Measured, gain};
use crate::kernel;

/// Longest measurement: clients wait no longer for any answer.
const LONGEST: f64 = 10.0;

/// What is asked for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// How long to measure rates.
    #[serde(default = "usual")]
    seconds: f64,
}

fn usual() -> f64 {
    1.0
}

/// Measures it.
pub async fn measure(node: &Node, wanted: Wanted) -> Result<Gain, Declined> {
    if !(0.1..=LONGEST).contains(&wanted.seconds) {
        let why = format!("seconds: from 0.1 to {LONGEST}, not {}", wanted.seconds);
        return Err(Declined::Refused(why));
    }
    let before = block_in_place(|| node.state().governor.workloads())?;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs_f64(wanted.seconds)).await;
    let measured = block_in_place(|| {
        let now = node.state().governor.snapshot()?;
        let between = began.elapsed();
        let listeners = Listeners::look()?;
        // Every leaf, also those that the kernel is not told of.
        let tree = Tree::scan(&node.root).map_err(|error| Failure::failed("cgroups", error))?;
        let state = node.state();
        let measured = Measured {
            before: &before,
            now: &now,
            between,
            listeners: &listeners,
            orders: &state.governor.orders(),
            at: kernel::now(),
        };
        let names = state.names.shown(&state.in_force.effective);
        Ok::<_, Failure>(gain(&measured, &names, |cgroup| workload_of(&tree, cgroup)))
    });
    Ok(measured?)
}

/// The workload that a cgroup belongs to, as the kernel programs have it: what
/// lives in a cgroup that only groups is a workload of its own.
fn workload_of(tree: &Tree, cgroup: u64) -> Option<u64> {
    match place(&tree.get(cgroup)?.path) {
        Place::Group => Some(cgroup),
        Place::Within(workload) => tree.id_of(workload),
    }
}
