//! The metrics page: made anew for each scrape from a snapshot of the ledgers,
//! which are the only place where anything is counted.

mod histogram;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Instant;

use governor_core::key::{DestinationKey, loss};

use super::node::{Node, State};
use super::series::{Counts, OTHER, Pair};
use crate::errors::Result;
use crate::interfaces::{Attachment, Interfaces};
use crate::kernel::{Fill, HOOKS, Snapshot, params, selected};
use crate::printable::printable;
use crate::status::Status;
use crate::status::model::BreakerState;
use histogram::Histogram;

/// What a scrape shows.
#[derive(Debug, Default)]
pub struct Page {
    pairs: BTreeMap<Pair, Counts>,
    destinations: BTreeMap<String, Destination>,
    gauges: BTreeMap<Pair, Gauges>,
    reloads: [u64; 2],
    losses: [u64; loss::ALL as usize],
    fill: Vec<Fill>,
    hooks: Vec<(String, bool)>,
    /// Devices whose requests can't be refused.
    out_of_reach: Vec<String>,
}

/// One destination.
#[derive(Debug, Default)]
struct Destination {
    amplification: Option<f64>,
    balance: Option<f64>,
    latency: Option<Histogram>,
    probes_under_way: u64,
}

/// One pair now.
#[derive(Debug, Default)]
struct Gauges {
    breaker: Option<BreakerState>,
    limit: Option<u64>,
    in_flight: u64,
}

impl Node {
    /// The page, as text.
    pub fn metrics(&self) -> Result<String> {
        let not_attached = self.not_attached();
        let mut page = {
            let mut state = self.state();
            let snapshot = state.governor.snapshot()?;
            let status = self.status_of(&state, &snapshot);
            let mut page = state.page(&snapshot, &status);
            page.interfaces(state.interfaces.as_ref());
            page
        };
        page.reloads = [&self.reloads.applied, &self.reloads.refused]
            .map(|count| count.load(Ordering::Relaxed));
        let hooks = HOOKS.into_iter();
        page.hooks
            .extend(hooks.map(|hook| (hook.to_owned(), !not_attached.contains(&hook))));
        page.text()
    }
}

impl Page {
    fn interfaces(&mut self, interfaces: Option<&Interfaces>) {
        let Some(interfaces) = interfaces else { return };
        let places = interfaces.places();
        self.hooks = places
            .map(|(hook, device, state)| {
                let name = format!("{}/{device}", hook.name());
                (name, state == Attachment::There)
            })
            .collect();
        self.out_of_reach = interfaces.gaps().map(|gap| gap.device.clone()).collect();
    }
}

impl State {
    fn page(&mut self, snapshot: &Snapshot, status: &Status) -> Page {
        let names = &self.names;
        let pair = |workload: u64, destination: &DestinationKey| {
            (
                names.destination(destination),
                printable(&names.workload(workload)),
            )
        };
        let ledgers = snapshot
            .workloads
            .iter()
            .map(|(key, ledger)| (*key, pair(key.workload, &key.destination), ledger.counts));
        let pairs = self.series.update(ledgers, Instant::now());
        let shown = self.series.destinations();

        let mut destinations: BTreeMap<String, Destination> = BTreeMap::new();
        let mut gauges: BTreeMap<Pair, Gauges> = BTreeMap::new();
        for destination in &status.destinations {
            let name = destination.destination.as_str();
            if !shown.contains(name) || name == OTHER {
                continue;
            }
            let entry = destinations.entry(name.to_owned()).or_default();
            entry.amplification = destination.amplification;
            entry.balance = destination.budget.map(|budget| budget.balance);
            let half_open = |state: BreakerState| state == BreakerState::HalfOpen;
            entry.probes_under_way = destination
                .endpoints
                .iter()
                .filter(|e| half_open(e.breaker.state))
                .count() as u64;
            for endpoint in &destination.endpoints {
                let gauge = gauges
                    .entry((name.to_owned(), printable(&endpoint.workload)))
                    .or_default();
                gauge.breaker = gauge.breaker.max(Some(endpoint.breaker.state));
            }
        }
        for (key, ledger) in &snapshot.destinations {
            if let Some(destination) = destinations.get_mut(&names.destination(key)) {
                destination.latency = Some(Histogram::of(ledger));
            }
        }
        let rules: HashMap<_, _> = snapshot
            .endpoints
            .iter()
            .filter_map(|(key, ledger)| {
                let group = u32::try_from(ledger.group).unwrap_or(0);
                let rule = selected(ledger, snapshot.generation)?;
                Some(((key.workload, key.destination(group)), rule))
            })
            .collect();
        for (key, ledger) in &snapshot.workloads {
            let gauge = gauges
                .entry(pair(key.workload, &key.destination))
                .or_default();
            let limiter = ledger.view().limiter;
            gauge.in_flight += limiter.in_flight(snapshot.at);
            let rule = rules.get(&(key.workload, key.destination));
            let policy = rule.and_then(|rule| self.in_force.effective.get(*rule as usize));
            if let Some(limit) = policy.and_then(|policy| limiter.limit(&params(&policy.spec))) {
                gauge.limit = Some(gauge.limit.map_or(limit, |least| least.min(limit)));
            }
        }
        gauges.retain(|pair, _| self.series.shows(pair));
        Page {
            pairs,
            destinations,
            gauges,
            losses: snapshot.losses,
            fill: snapshot.fill.clone(),
            ..Page::default()
        }
    }
}
