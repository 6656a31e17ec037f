//! From two looks at the ledgers, and who listens where, to what layers make.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use governor_core::key::{DestinationKey, EndpointKey, OrderKey, WorkloadKey};
use governor_core::ledger::{EndpointLedger, WorkloadLedger, count};
use governor_core::order::Order;
use governor_core::params::Params;
use governor_core::units::Nanos;

use super::allowed::Tries;
use super::listeners::Listeners;
use super::model::{Destination, Gain, Layer, Load, Multiplied};
use super::ordered::Share;
use super::paths::{Hop, Layers, Path};
use crate::kernel::{Snapshot, params, selected};
use crate::policy::Policy;
use crate::policy::schema::API_VERSION;
use crate::status::{Attempts, Names, label};

/// What was looked at.
pub struct Measured<'a> {
    /// Workloads' ledgers, a while ago.
    pub before: &'a [(WorkloadKey, WorkloadLedger)],
    /// Every ledger.
    pub now: &'a Snapshot,
    /// From one look to the other.
    pub between: Duration,
    /// Who listens where.
    pub listeners: &'a Listeners,
    /// What operators have ordered.
    pub orders: &'a [(OrderKey, Order)],
    /// When that holds.
    pub at: Nanos,
}

/// Endpoints that were called, by destination.
type Endpoints<'a> = HashMap<DestinationKey, Vec<(&'a EndpointKey, &'a EndpointLedger)>>;

/// Calls of one destination by one workload.
struct Called<'a> {
    key: &'a WorkloadKey,
    ledger: &'a WorkloadLedger,
    tries: Tries,
    allowed: f64,
}

/// Puts it together. `workload_of` tells the workload that a cgroup belongs to.
pub fn gain(
    measured: &Measured<'_>,
    names: &Names<'_>,
    workload_of: impl Fn(u64) -> Option<u64>,
) -> Gain {
    let endpoints = endpoints(measured.now);
    let destinations: Vec<_> = endpoints.keys().copied().collect();
    let numbers: HashMap<_, _> = destinations.iter().copied().zip(0..).collect();
    let (called, hops) = hops(measured, names, &endpoints, &numbers);
    let mut serves: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut served = vec![BTreeSet::new(); destinations.len()];
    for (number, key) in destinations.iter().enumerate() {
        for (endpoint, _) in &endpoints[key] {
            for cgroup in measured.listeners.at(&endpoint.address, endpoint.port) {
                if let Some(workload) = workload_of(cgroup)
                    && served[number].insert(workload)
                {
                    serves.entry(workload).or_default().push(number);
                }
            }
        }
    }
    let layers = Layers::new(&hops, &serves);
    let most: Vec<_> = called.iter().map(|it| it.tries.most() as f64).collect();
    let allowed: Vec<_> = called.iter().map(|it| it.allowed).collect();
    let (worst, passing) = (layers.worst(&most), layers.worst(&allowed));
    let operations = layers.operations();

    let multiplied = |paths: &[Path], tries: &[f64], number: usize| {
        let ending = (0..hops.len()).filter(|hop| hops[*hop].called == number);
        let Some(last) = ending.max_by(|a, b| paths[*a].product.total_cmp(&paths[*b].product))
        else {
            return Multiplied::default();
        };
        let layer = |hop: &usize| Layer {
            workload: names.workload(called[*hop].key.workload),
            destination: names.destination(&called[*hop].key.destination),
            tries: hundredths(tries[*hop]),
            inferred: called[*hop].tries.is_guess(),
        };
        let path: Vec<_> = paths[last].hops.iter().map(layer).collect();
        Multiplied {
            multiplier: hundredths(paths[last].product),
            inferred: path.iter().any(|layer| layer.inferred),
            path,
        }
    };
    let shown = |(number, key): (usize, &DestinationKey)| {
        let of = |hop: &usize| hops[*hop].called == number;
        let sum = |each: &dyn Fn(usize) -> f64| (0..hops.len()).filter(of).map(each).sum::<f64>();
        let count = |which: usize| -> u64 {
            let ledgers = (0..hops.len()).filter(of).map(|hop| called[hop].ledger);
            ledgers.map(|ledger| ledger.counts[which]).sum()
        };
        let offered = Attempts::offered(count);
        let tries = (0..hops.len()).filter(of).map(|hop| called[hop].tries);
        let longest = tries.max_by_key(|tries| tries.most());
        let worst_case = |hop: usize| becomes(operations[hop], worst[hop].product, &hops[hop]);
        let addresses: BTreeSet<_> = endpoints[key]
            .iter()
            .map(|(endpoint, _)| label(&endpoint.address, endpoint.port))
            .collect();
        Destination {
            destination: names.destination(key),
            addresses: addresses.into_iter().collect(),
            served_by: served[number]
                .iter()
                .map(|id| names.workload(*id))
                .collect(),
            operations: offered.first,
            attempts: offered.total(),
            suspected_retries: count(count::SUSPECTED),
            attempts_per_operation: (offered.first > 0)
                .then(|| hundredths(offered.total() as f64 / offered.first as f64)),
            longest_chain: longest.map_or(1, Tries::most),
            inferred: longest.is_some_and(Tries::is_guess),
            worst_case: multiplied(&worst, &most, number),
            allowed: multiplied(&passing, &allowed, number),
            load: Load {
                attempts_per_second: hundredths(sum(&|hop| hops[hop].attempts)),
                operations_per_second: hundredths(sum(&|hop| operations[hop])),
                worst_case_per_second: hundredths(sum(&worst_case)),
                allowed_per_second: hundredths(sum(&|hop| {
                    // Where nothing is refused, it is the same.
                    match passing[hop].product < worst[hop].product {
                        true => operations[hop] * passing[hop].product,
                        false => worst_case(hop),
                    }
                })),
            },
            survival: None,
        }
    };
    let mut destinations: Vec<_> = destinations.iter().enumerate().map(shown).collect();
    destinations.retain(|destination| destination.attempts > 0);
    destinations.sort_by(|a, b| {
        let worse = b.worst_case.multiplier.total_cmp(&a.worst_case.multiplier);
        worse.then_with(|| a.destination.cmp(&b.destination))
    });
    let node = nix::sys::utsname::uname();
    Gain {
        api_version: API_VERSION.to_owned(),
        node: node.map_or(String::new(), |it| {
            it.nodename().to_string_lossy().into_owned()
        }),
        sample_seconds: hundredths(measured.between.as_secs_f64()),
        destinations,
        not_looked_into: measured.listeners.not_looked_into,
    }
}

fn endpoints(snapshot: &Snapshot) -> Endpoints<'_> {
    let mut by = Endpoints::new();
    for (key, ledger) in &snapshot.endpoints {
        // One that no policy judges was only looked up.
        if ledger.touched != 0 {
            let group = u32::try_from(ledger.group).unwrap_or(0);
            by.entry(key.destination(group))
                .or_default()
                .push((key, ledger));
        }
    }
    by
}

/// Who calls what, how often and with how many tries.
fn hops<'a>(
    measured: &Measured<'a>,
    names: &Names<'_>,
    endpoints: &Endpoints<'_>,
    numbers: &HashMap<DestinationKey, usize>,
) -> (Vec<Called<'a>>, Vec<Hop>) {
    let before: HashMap<_, _> = measured.before.iter().map(|(key, it)| (key, it)).collect();
    let seconds = measured.between.as_secs_f64();
    let rate = |now: u64, before: u64| match seconds > 0.0 {
        // Counts that were read one after the other may seem to fall.
        true => now.saturating_sub(before) as f64 / seconds,
        false => 0.0,
    };
    let offered = |ledger: &WorkloadLedger| Attempts::offered(|which| ledger.counts[which]);
    let none = Attempts {
        first: 0,
        retries: 0,
    };
    let called = measured.now.workloads.iter().filter_map(|(key, ledger)| {
        let number = *numbers.get(&key.destination)?;
        let (now, then) = (
            offered(ledger),
            before.get(key).map_or(none, |it| offered(it)),
        );
        let tries = Tries {
            known: ledger.longest,
            guessed: ledger.longest_guess,
        };
        let hop = Hop {
            caller: key.workload,
            called: number,
            first: rate(now.first, then.first),
            attempts: rate(now.total(), then.total()),
        };
        let policy = policy(key, &endpoints[&key.destination], measured.now, names);
        let ordered = Share::of(measured.orders, key, measured.at);
        let called = Called {
            key,
            ledger,
            tries,
            allowed: tries.allowed(policy.as_ref(), ordered, hop.first),
        };
        Some((called, hop))
    });
    called.unzip()
}

/// The policy that judges a workload's calls of a destination: a group belongs
/// to one. Else the one that judged its last call; where there was none under the
/// policies in force, the one for all that no other names.
fn policy(
    key: &WorkloadKey,
    endpoints: &[(&EndpointKey, &EndpointLedger)],
    snapshot: &Snapshot,
    names: &Names<'_>,
) -> Option<Params> {
    let own = endpoints
        .iter()
        .filter(|(it, _)| it.workload == key.workload);
    let judged = || {
        let mut rules = own.filter_map(|(_, ledger)| selected(ledger, snapshot.generation));
        names.policies.get(rules.next()? as usize)
    };
    let everywhere = |it: &&Policy| it.spec.workloads.is_empty() && it.spec.destinations.is_empty();
    let policy = match names.groups.get(&key.destination.group) {
        Some(group) => names.policies.iter().find(|it| it.name == group.policy),
        None => judged().or_else(|| names.policies.iter().find(everywhere)),
    };
    Some(params(&policy?.spec))
}

/// Attempts a second that operations become where nothing is refused: no less
/// than are measured, which may be retries of what was tried first before.
fn becomes(operations: f64, product: f64, hop: &Hop) -> f64 {
    (operations * product).max(hop.attempts)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worst_case_is_never_below_what_is_measured() {
        let hop = Hop {
            caller: 1,
            called: 0,
            first: 39.0,
            attempts: 147.0,
        };
        assert_eq!(becomes(39.0, 3.0, &hop), 147.0);
        assert_eq!(becomes(39.0, 4.0, &hop), 156.0);
        assert_eq!(becomes(0.0, 4.0, &hop), 147.0);
    }
}
