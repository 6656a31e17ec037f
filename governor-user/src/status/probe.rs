//! What the next probe of a breaker waits for.

use std::collections::HashSet;

use governor_core::breaker::State;
use governor_core::key::{Address, DestinationKey, EndpointKey, OrderKey, plain};
use governor_core::ledger::EndpointLedger;
use governor_core::order::{Order, hold};
use governor_core::units::{Millis, Nanos};
use serde::{Deserialize, Serialize};

use crate::kernel::Snapshot;

/// What the next probe waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextProbe {
    /// It is on its way.
    Sent,
    /// For its time.
    Later,
    /// For an attempt.
    Due,
    /// For the end of another workload's probe of the same ip:port.
    InTurn,
    /// For the end of an operator's order.
    Held,
}

/// What is known of all probes.
pub(super) struct Probes<'a> {
    /// Where a probe is on its way: the others that call there wait for its end.
    under_way: HashSet<(Address, u32)>,
    orders: &'a [(OrderKey, Order)],
    now: Nanos,
}

impl<'a> Probes<'a> {
    /// From a copy of the ledgers.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let now = snapshot.at;
        let probing = |(_, ledger): &&(EndpointKey, EndpointLedger)| {
            let view = ledger.view().breaker.view();
            view.state == State::HalfOpen && is_ahead(view.deadline, now)
        };
        let endpoints = snapshot.endpoints.iter().filter(probing);
        Self {
            under_way: endpoints.map(|(key, _)| (key.address, key.port)).collect(),
            orders: &snapshot.orders,
            now,
        }
    }

    /// What the next probe of a breaker waits for; none where it is closed.
    pub fn next(&self, key: &EndpointKey, ledger: &EndpointLedger) -> Option<NextProbe> {
        let breaker = ledger.view().breaker.view();
        let group = u32::try_from(ledger.group).unwrap_or(0);
        let held = held(key.destination(group), self.now, self.orders);
        match (breaker.state, is_ahead(breaker.deadline, self.now)) {
            (State::Closed, _) => None,
            (State::HalfOpen, true) => Some(NextProbe::Sent),
            _ if held != hold::NONE => Some(NextProbe::Held),
            (State::Open, true) => Some(NextProbe::Later),
            _ if self.under_way.contains(&(key.address, key.port)) => Some(NextProbe::InTurn),
            _ => Some(NextProbe::Due),
        }
    }
}

/// As the law has it: what is due in this millisecond may go.
fn is_ahead(time: Millis, now: Nanos) -> bool {
    now.stamp() < time
}

/// How an operator holds the breakers of a destination: a [`hold`].
pub fn held(destination: DestinationKey, at: Nanos, orders: &[(OrderKey, Order)]) -> u32 {
    // An order names an address, of whatever network namespace.
    let destination = DestinationKey {
        address: plain(destination.address),
        ..destination
    };
    orders
        .iter()
        .filter(|(key, _)| key.destination == destination)
        .map(|(_, order)| order.held(at))
        .find(|how| *how != hold::NONE)
        .unwrap_or(hold::NONE)
}
