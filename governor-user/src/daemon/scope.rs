//! Whom an order concerns: what an operator names becomes a key of the kernel,
//! and it is said where the order would have no effect.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use governor_core::key::{DestinationKey, OrderKey};

use super::inforce::InForce;
use super::left::Left;
use super::names::{Names, single};
use super::operators::Declined;
use crate::policy::prefix::Prefix;
use crate::policy::rules::{EXEMPT, Target};
use crate::policy::schema::Mode;

/// Every destination.
pub const ANYWHERE: DestinationKey = DestinationKey {
    address: [0; 16],
    port: 0,
    group: 0,
};

/// Whom an order concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// As the kernel knows it.
    pub key: OrderKey,
    /// The destination, as it is shown; none: every one.
    pub destination: Option<String>,
    /// In plain words.
    pub words: String,
    /// Added where nothing would come of refusing.
    pub caveat: String,
    /// Orders that stand under the same name, for what is called so no more.
    pub former: Vec<OrderKey>,
}

const NO_EFFECT: &str =
    "; nothing will be refused, because no policy in Enforce mode applies there";

impl Scope {
    /// From the names of a destination and a workload, where they are given.
    pub fn find(
        destination: Option<&str>,
        workload: Option<&str>,
        names: &Names,
        in_force: &InForce,
    ) -> Result<Self, Declined> {
        let (key, enforced) = match destination {
            None => (
                ANYWHERE,
                in_force
                    .effective
                    .iter()
                    .any(|p| p.spec.mode == Mode::Enforce),
            ),
            Some(name) => named(name, workload, names, in_force)?,
        };
        let key = OrderKey {
            workload: workload.map_or(Ok(0), |path| find_workload(path, names))?,
            destination: key,
        };
        let left = Left::of(&key, names, in_force).map(|left| left.caveat());
        Ok(Self {
            caveat: match enforced {
                true => left.unwrap_or_default(),
                false => NO_EFFECT.to_owned(),
            },
            ..Self::of(key, names)
        })
    }

    /// Of an order that stands.
    pub fn of(key: OrderKey, names: &Names) -> Self {
        Self {
            destination: shown_destination(&key, names),
            words: words(&key, names),
            caveat: names.caveats.get(&key).cloned().unwrap_or_default(),
            former: Vec::new(),
            key,
        }
    }
}

/// The destination of an order as it is shown; none: every one.
pub fn shown_destination(key: &OrderKey, names: &Names) -> Option<String> {
    (key.destination != ANYWHERE).then(|| names.destination(&key.destination))
}

/// `destination auth by /a.service`, `every destination`.
pub fn words(key: &OrderKey, names: &Names) -> String {
    let destination = match shown_destination(key, names) {
        None => "every destination".to_owned(),
        Some(name) => format!("destination {name}"),
    };
    match key.workload {
        0 => destination,
        id => format!("{destination} by {}", names.workload(id)),
    }
}

fn find_workload(path: &str, names: &Names) -> Result<u64, Declined> {
    names.find_workload(path).ok_or_else(|| {
        Declined::Unknown(format!(
            "workload {path}: there is no such cgroup (`retry-governor status` lists workloads)"
        ))
    })
}

/// A destination that an operator names, and whether a policy enforces there.
fn named(
    name: &str,
    workload: Option<&str>,
    names: &Names,
    in_force: &InForce,
) -> Result<(DestinationKey, bool), Declined> {
    let groups = in_force.table.groups();
    if let Some((id, group)) = groups.iter().find(|(_, group)| group.name == name) {
        let policy = in_force
            .effective
            .iter()
            .find(|policy| policy.name == group.policy);
        let enforced = policy.is_some_and(|policy| policy.spec.mode == Mode::Enforce);
        return Ok((group_key(*id), enforced));
    }
    let address: SocketAddr = name.parse().map_err(|_| {
        Declined::Unknown(format!(
            "destination {name}: no policy names it, and it is no ip:port (`retry-governor status` lists destinations)"
        ))
    })?;
    let targets = targets(address, workload, in_force);
    let enforced = |target: &Target| {
        let policy = in_force.effective.get(target.rule as usize);
        target.rule != EXEMPT && policy.is_some_and(|policy| policy.spec.mode == Mode::Enforce)
    };
    let groups: BTreeSet<u32> = targets.iter().map(|target| target.group).collect();
    let key = match groups.iter().copied().collect::<Vec<_>>().as_slice() {
        // The address of a group means the group: the kernel keeps one account for it.
        [group] if *group != 0 => group_key(*group),
        [first, _, ..] if *first != 0 => {
            let names: Vec<_> = groups
                .iter()
                .map(|id| names.destination(&group_key(*id)))
                .collect();
            return Err(Declined::Refused(format!(
                "destination {name}: it belongs to {} for different workloads (name one of them)",
                names.join(", ")
            )));
        }
        _ => single(address),
    };
    let concerned = targets.iter().filter(|target| target.group == key.group);
    Ok((key, concerned.into_iter().any(enforced)))
}

/// A destination of a policy, as the kernel knows it.
pub const fn group_key(group: u32) -> DestinationKey {
    DestinationKey { group, ..ANYWHERE }
}

/// What the kernel finds for an ip:port: for this workload, or for any.
pub fn targets(
    address: SocketAddr,
    workload: Option<&str>,
    in_force: &InForce,
) -> BTreeSet<Target> {
    let table = &in_force.table;
    let port_class = table
        .port_classes()
        .get(&address.port())
        .copied()
        .unwrap_or(0);
    let host = Prefix::host(address.ip());
    let find = |class| {
        let entries = table.entries_of(class);
        let around =
            entries.filter(|entry| entry.port_class == port_class && entry.prefix.covers(host));
        around
            .max_by_key(|entry| entry.prefix.len())
            .map(|entry| entry.target)
    };
    let classes = match workload {
        None => 0..table.classes(),
        Some(path) => {
            let class = table.known_class_of(path).unwrap_or(0);
            class..class + 1
        }
    };
    classes
        .filter_map(|class| find(class).or_else(|| find(0)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use std::collections::HashMap;

    const POLICY: &str = "
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: NAME}
spec:
  mode: MODE
  destinations: [{name: NAME, cidrs: [NET], ports: [8080]}]
";

    fn policy(name: &str, mode: &str, net: &str) -> Policy {
        let text = POLICY
            .replace("NAME", name)
            .replace("MODE", mode)
            .replace("NET", net);
        crate::policy::parse(&text, "test").unwrap().remove(0)
    }

    fn find(destination: Option<&str>, policies: Vec<Policy>) -> Result<Scope, Declined> {
        let in_force = InForce::compiled(policies, &HashMap::new()).unwrap();
        let names = Names {
            groups: in_force.table.groups().clone(),
            workloads: [(42, "/a.service".to_owned())].into(),
            ..Names::default()
        };
        Scope::find(destination, None, &names, &in_force)
    }

    #[test]
    fn an_address_of_a_group_means_the_group() {
        let policies = || vec![policy("auth", "Enforce", "10.0.0.0/24")];
        let by_name = find(Some("auth"), policies()).unwrap();
        assert_eq!(find(Some("10.0.0.5:8080"), policies()).unwrap(), by_name);
        assert_eq!(
            (by_name.words.as_str(), by_name.caveat.as_str()),
            ("destination auth", "")
        );
        assert_ne!(by_name.key.destination.group, 0);
        let other_port = find(Some("10.0.0.5:9090"), policies()).unwrap();
        assert_eq!(other_port.words, "destination 10.0.0.5:9090");
        assert_eq!(other_port.key.destination.group, 0);
    }

    #[test]
    fn an_order_that_nothing_will_come_of_says_so() {
        let audit = || vec![policy("auth", "Audit", "10.0.0.0/24")];
        for destination in [
            Some("auth"),
            Some("10.0.0.5:8080"),
            Some("10.9.9.9:1"),
            None,
        ] {
            assert_eq!(
                find(destination, audit()).unwrap().caveat,
                NO_EFFECT,
                "{destination:?}"
            );
        }
        let enforce = vec![policy("auth", "Enforce", "10.0.0.0/24")];
        assert_eq!(find(None, enforce).unwrap().caveat, "");
    }

    #[test]
    fn what_nobody_knows_is_refused_by_name() {
        let Err(Declined::Unknown(why)) = find(Some("nobody"), Vec::new()) else {
            panic!("a destination that nobody knows")
        };
        assert!(why.starts_with("destination nobody: "), "{why}");
    }
}
