//! Where a budget lives: with each client, or with the host.

use super::law::{Law, simulate};
use super::simple::Rules;
use super::world::{Backend, Caller, Jitter, Mode, Random, Workload, World, poisson};

/// Where the budget lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each client has one, as libraries and sidecars do.
    Client,
    /// One for the host, spent as fast as asked for.
    Host,
    /// The real law's, for the host.
    Governor,
}

const CLIENTS: usize = 100;
const SECONDS: usize = 120;

/// Load over first tries with 100 clients x 1/s and three retries, after a
/// healthy minute, while the destination is down.
pub fn amplification(place: Place, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let workloads = (0..CLIENTS).map(|client| Workload {
        node: if place == Place::Client { client } else { 0 },
        arrivals: poisson(&mut random, 1.0, 0.0, SECONDS as f64),
        backends: vec![0],
        caller: Caller::retrying(Jitter::Full),
    });
    let backend = Backend::quick().that(|time, _, _| {
        if time >= 60.0 {
            Mode::Fail
        } else {
            Mode::Serve
        }
    });
    let world = World {
        seconds: SECONDS,
        workloads: workloads.collect(),
        backends: vec![backend],
    };
    let law = match place {
        Place::Client | Place::Host => Law::Simple(Rules::BUDGET),
        Place::Governor => Law::REAL_BUDGET,
    };
    simulate(&world, law, seed).all.amplification(61..SECONDS)
}
