//! The rules of all policies, one prefix at one port each, and what they lead to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::prefix::Prefix;
use super::schema::Policy;

/// The rule of what no policy applies to.
pub const EXEMPT: u32 = u32::MAX;

/// A place that no policy without destinations applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exempt {
    /// Its addresses.
    pub net: Prefix,
    /// Its port; none: every port.
    pub port: Option<u16>,
}

/// DNS: refusing it hurts everything at once.
pub const DNS: Exempt = Exempt {
    net: Prefix::ANY,
    port: Some(53),
};

/// What the kernel finds for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Index into the policies, or [`EXEMPT`].
    pub rule: u32,
    /// Id of the destination group; 0: the single ip:port is its own destination.
    pub group: u32,
}

impl Target {
    /// What no policy applies to.
    pub const EXEMPT: Self = Self {
        rule: EXEMPT,
        group: 0,
    };
}

/// A destination group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The policy that names it; empty where none does any more.
    pub policy: String,
    /// Its name in status and metrics.
    pub name: String,
}

/// A rule that names destinations: one prefix at one port.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its addresses.
    pub prefix: Prefix,
    /// Its port; none: every port.
    pub port: Option<u16>,
    /// What is found there.
    pub target: Target,
}

/// The rules that name destinations, in file order; their groups on the way.
pub fn rules(
    policies: &[Policy],
    hosts: &HashMap<String, Vec<IpAddr>>,
    groups: &mut BTreeMap<u32, Group>,
) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (policy, rule) in policies.iter().zip(0u32..) {
        for destination in &policy.spec.destinations {
            let group = add_group(groups, &policy.name, destination.label());
            let target = Target { rule, group };
            let resolved = destination
                .hosts
                .iter()
                .filter_map(|host| hosts.get(host))
                .flatten();
            let nets = destination.cidrs.iter().map(|net| Prefix::from(*net));
            let mut prefixes: Vec<_> = nets
                .chain(resolved.map(|addr| Prefix::host(*addr)))
                .collect();
            if destination.hosts.is_empty() && destination.cidrs.is_empty() {
                prefixes.push(Prefix::ANY);
            }
            for prefix in prefixes {
                let ports = destination.ports.iter().map(|port| Some(*port));
                let any = destination.ports.is_empty().then_some(None);
                let rule = |port| Rule {
                    prefix,
                    port,
                    target,
                };
                rules.extend(ports.chain(any).map(rule));
            }
        }
    }
    rules
}

fn add_group(groups: &mut BTreeMap<u32, Group>, policy: &str, name: String) -> u32 {
    let mut id = fnv1a(policy.bytes().chain([0]).chain(name.bytes()));
    // 0 says "no group".
    while id == 0 || groups.contains_key(&id) {
        id = id.wrapping_add(1);
    }
    let policy = policy.to_owned();
    groups.insert(id, Group { policy, name });
    id
}

/// FNV-1a, 32 bits: ids stay in pinned maps across versions of this binary, and
/// the hashers of the standard library promise nothing of the kind.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Ports that the same destinations and exemptions name share a class: a rule
/// without ports has an entry in every class, so classes must be few.
pub fn port_classes(rules: &[Rule], exempt: &[Exempt]) -> HashMap<u16, u32> {
    let named = rules.iter().map(|rule| (rule.port, rule.target));
    let exempt = exempt.iter().zip(0u32..).map(|(place, group)| {
        let rule = EXEMPT;
        (place.port, Target { rule, group })
    });
    let mut named_by: BTreeMap<u16, BTreeSet<Target>> = BTreeMap::new();
    for (port, by) in named.chain(exempt) {
        if let Some(port) = port {
            named_by.entry(port).or_default().insert(by);
        }
    }
    let mut classes = HashMap::new();
    let mut ids: HashMap<BTreeSet<Target>, u32> = HashMap::new();
    for (port, names) in named_by {
        let next = u32::try_from(ids.len() + 1).unwrap_or(u32::MAX);
        classes.insert(port, *ids.entry(names).or_insert(next));
    }
    classes
}
