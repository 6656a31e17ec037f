//! Mistakes between policies: one name twice, too many of them, two rules of
//! which neither is more specific.

use std::collections::{HashMap, HashSet};

use super::check::MOST_DESTINATIONS;
use super::error::{PolicyError, Position, Wrong};
use super::prefix::Prefix;
use super::schema::Policy;

/// At most so many policies on a node.
pub const MOST_POLICIES: usize = 1024;
/// At most so many rules (places x ports) of all policies together: what the
/// tie check and the kernel's table are sized for.
pub const MOST_RULES: usize = 65_536;

/// Checks the policies of a node as a whole; they are in file order.
pub fn check(policies: &[Policy]) -> Result<(), Vec<PolicyError>> {
    let mut errors = repeated_names(policies);
    match too_many(policies) {
        Some(error) => errors.push(error),
        None => errors.extend(ties(policies)),
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors),
    }
}

fn repeated_names(policies: &[Policy]) -> Vec<PolicyError> {
    let mut errors = Vec::new();
    let mut names: HashMap<&str, &Policy> = HashMap::new();
    for policy in policies {
        if let Some(first) = names.get(policy.name.as_str()) {
            let wrong = Wrong::new(format!("{} is taken: {}", policy.name, place(first)));
            let wrong = wrong.hint("give each policy its own name");
            errors.push(at(policy, policy.source.name, "metadata.name", wrong));
        } else {
            names.insert(policy.name.as_str(), policy);
        }
        let mut labels = HashMap::new();
        for (i, destination) in policy.spec.destinations.iter().enumerate() {
            if let Some(first) = labels.insert(destination.label(), i) {
                let label = destination.label();
                let wrong = Wrong::new(format!("{label} is taken: by destinations[{first}]"));
                let wrong = wrong.hint("give each destination its own name");
                let path = format!("spec.destinations[{i}].name");
                errors.push(at(policy, entry_position(policy, i), &path, wrong));
            }
        }
    }
    errors
}

fn too_many(policies: &[Policy]) -> Option<PolicyError> {
    let (mut destinations, mut rules) = (0, 0);
    for (i, policy) in policies.iter().enumerate() {
        destinations += policy.spec.destinations.len();
        rules += policy.spec.destinations.iter().fold(0, |sum, entry| {
            sum + (entry.hosts.len() + entry.cidrs.len()).max(1) * entry.ports.len().max(1)
        });
        let over = |what: &str, most: usize| {
            let wrong = Wrong::new(format!("too many {what}: with this policy over {most}"));
            Some(at(policy, policy.source.name, "metadata.name", wrong))
        };
        if i >= MOST_POLICIES {
            return over("policies", MOST_POLICIES);
        }
        if destinations > MOST_DESTINATIONS {
            return over("destinations", MOST_DESTINATIONS);
        }
        if rules > MOST_RULES {
            return over("pairs of place and port", MOST_RULES);
        }
    }
    None
}

/// What a rule names; two rules for one place are equally specific.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    /// No destinations: below every rule that names some.
    Everything,
    /// Any address, at named ports.
    Anywhere,
    Net(Prefix),
    Host(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everything => f.write_str("every destination"),
            Self::Anywhere => f.write_str("any address"),
            Self::Net(net) => net.fmt(f),
            Self::Host(host) => f.write_str(host),
        }
    }
}

/// Where a rule was written: a policy, and an entry of its destinations.
#[derive(Clone, Copy)]
struct Written<'a> {
    policy: &'a Policy,
    entry: Option<usize>,
}

/// What a rule names, with the port.
type Spot = (Place, Option<u16>);

fn spots(policy: &Policy) -> Vec<(Written<'_>, Spot)> {
    let destinations = &policy.spec.destinations;
    if destinations.is_empty() {
        let written = Written {
            policy,
            entry: None,
        };
        return vec![(written, (Place::Everything, None))];
    }
    let mut spots = Vec::new();
    for (i, destination) in destinations.iter().enumerate() {
        let nets = destination
            .cidrs
            .iter()
            .map(|net| Place::Net((*net).into()));
        let hosts = destination.hosts.iter().cloned().map(Place::Host);
        let mut places: Vec<_> = nets.chain(hosts).collect();
        if places.is_empty() {
            places.push(Place::Anywhere);
        }
        let mut ports: Vec<_> = destination.ports.iter().copied().map(Some).collect();
        if ports.is_empty() {
            ports.push(None);
        }
        let entry = Some(i);
        for place in places {
            let written = Written { policy, entry };
            spots.extend(ports.iter().map(|port| (written, (place.clone(), *port))));
        }
    }
    spots
}

/// One error for each entry that ties with one before it; the file order of two
/// rules decides only where their workloads differ.
fn ties(policies: &[Policy]) -> Vec<PolicyError> {
    let mut errors = Vec::new();
    let mut before: HashMap<Spot, Vec<Written<'_>>> = HashMap::new();
    let mut reported = HashSet::new();
    for (later, spot) in policies.iter().flat_map(spots) {
        let others = before.entry(spot.clone()).or_default();
        let tied = others
            .iter()
            .find_map(|first| Some((first, shared_workload(first.policy, later.policy)?)));
        if let Some((first, workload)) = tied
            && reported.insert((later.policy.name.as_str(), later.entry))
        {
            errors.push(tie(first.policy, later, &spot, &workload));
        }
        others.push(later);
    }
    errors
}

fn tie(first: &Policy, later: Written<'_>, (spot, port): &Spot, workload: &str) -> PolicyError {
    let port = port.map(|port| format!(" port {port}")).unwrap_or_default();
    let Written { policy, entry } = later;
    let wrong = Wrong::new(format!(
        "tie: {} and {} both name {spot}{port} for {workload}",
        place(first),
        place(policy),
    ));
    let wrong = wrong.hint("remove one, or make one more specific");
    match entry {
        Some(i) => {
            let path = format!("spec.destinations[{i}]");
            at(policy, entry_position(policy, i), &path, wrong)
        }
        None => at(policy, policy.source.name, "metadata.name", wrong),
    }
}

/// What both policies select by the same words.
fn shared_workload(a: &Policy, b: &Policy) -> Option<String> {
    let (a, b) = (&a.spec.workloads, &b.spec.workloads);
    if a.is_empty() && b.is_empty() {
        return Some("every workload".to_owned());
    }
    let shared = a.iter().find(|workload| b.contains(workload))?;
    Some(shared.cgroup.clone())
}

fn place(policy: &Policy) -> String {
    let Policy { name, source, .. } = policy;
    format!("policy {name} ({}:{})", source.file, source.name.line)
}

fn entry_position(policy: &Policy, entry: usize) -> Position {
    let at = policy.source.destinations.get(entry);
    at.copied().unwrap_or(policy.source.name)
}

fn at(policy: &Policy, at: Position, path: &str, wrong: Wrong) -> PolicyError {
    PolicyError::at(&policy.source.file, at, path, wrong)
}
