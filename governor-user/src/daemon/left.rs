//! Orders that policies leave behind: no policy names their destination any more, or their ip:port
//! has become part of one. The kernel looks an order up by the destination, and finds these no
//! longer.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use governor_core::key::{DestinationKey, OrderKey, plain};

use super::inforce::InForce;
use super::names::Names;
use super::scope::{ANYWHERE, group_key, targets};
use crate::policy::prefix::Prefix;

/// Why the kernel finds an order no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// No policy names its destination any more.
    Unnamed,
    /// Its ip:port is part of what these names are of.
    Joined(String),
    /// The same for some of the workloads that it is for.
    Partly(String),
}

impl Left {
    /// What became of the destination of an order; none: it is what it was.
    pub fn of(key: &OrderKey, names: &Names, in_force: &InForce) -> Option<Self> {
        if names.unnamed(&key.destination) {
            return Some(Self::Unnamed);
        }
        let found = found(key, names, in_force);
        let joined = found.iter().filter(|group| **group != 0);
        let joined: Vec<_> = joined
            .map(|group| names.destination(&group_key(*group)))
            .collect();
        match (joined.is_empty(), found.contains(&0)) {
            (true, _) => None,
            (false, false) => Some(Self::Joined(joined.join(", "))),
            (false, true) => Some(Self::Partly(joined.join(", "))),
        }
    }

    /// Added to what is said of the order.
    pub fn caveat(&self) -> String {
        match self {
            Self::Unnamed => {
                "; nothing will be refused, because no policy names that destination any more"
                    .to_owned()
            }
            Self::Joined(to) => format!(
                "; nothing will be refused, because it belongs to destination {to} now (order that)"
            ),
            Self::Partly(to) => format!(
                "; nothing will be refused of workloads for which it belongs to destination {to} \
                 (order that, too)"
            ),
        }
    }

    /// Why it is told.
    pub fn why(&self) -> String {
        match self {
            Self::Unnamed => "no policy names that destination any more".to_owned(),
            Self::Joined(to) => {
                format!("it belongs to destination {to} now, where it does nothing")
            }
            Self::Partly(to) => format!(
                "for some workloads it belongs to destination {to} now, where it does nothing"
            ),
        }
    }
}

/// The groups that the kernel finds for the ip:port of an order, 0 for none; empty where it is for
/// no single ip:port.
fn found(key: &OrderKey, names: &Names, in_force: &InForce) -> BTreeSet<u32> {
    let Some(address) = address(&key.destination) else {
        return BTreeSet::new();
    };
    let workload = (key.workload != 0).then(|| names.workload(key.workload));
    let targets = targets(address, workload.as_deref(), in_force);
    targets.into_iter().map(|target| target.group).collect()
}

/// The destination that an order for an ip:port is one for by now: nothing else belongs to it, and
/// nothing else can (a host name may get another address tomorrow).
pub fn same(key: &OrderKey, names: &Names, in_force: &InForce) -> Option<OrderKey> {
    let found = found(key, names, in_force);
    let group = *found.first().filter(|id| **id != 0 && found.len() == 1)?;
    let named = in_force.table.groups().get(&group)?;
    let policy = in_force
        .effective
        .iter()
        .find(|policy| policy.name == named.policy)?;
    let mut written = policy.spec.destinations.iter();
    let written = written.find(|written| written.label() == named.name)?;
    let address = address(&key.destination)?;
    let host = Prefix::host(address.ip());
    let alone = written.hosts.is_empty()
        && written.ports == [address.port()]
        && written.cidrs.iter().all(|net| Prefix::from(*net) == host);
    alone.then_some(OrderKey {
        destination: group_key(group),
        ..*key
    })
}

/// The ip:port of a destination that is one.
fn address(key: &DestinationKey) -> Option<SocketAddr> {
    if key.group != 0 || *key == ANYWHERE {
        return None;
    }
    let address = Ipv6Addr::from(plain(key.address));
    let address = address
        .to_ipv4_mapped()
        .map_or(IpAddr::V6(address), IpAddr::V4);
    Some(SocketAddr::new(address, u16::try_from(key.port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::names::single;
    use std::collections::HashMap;

    const AUTH: &str = "
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: p}
spec:
  workloads: WHO
  destinations: [{name: auth, WHERE}]
";

    /// What became of an order for 10.0.0.5:8080, of a workload or of all.
    fn order(workload: Option<&str>, who: &str, place: &str) -> (Option<Left>, bool) {
        let text = AUTH.replace("WHERE", place);
        let text = match who {
            "" => text.replace("  workloads: WHO\n", ""),
            who => text.replace("WHO", &format!("[{{cgroup: {who}}}]")),
        };
        let policies = crate::policy::parse(&text, "test").unwrap();
        let hosts = [(
            "auth.internal".to_owned(),
            vec!["10.0.0.5".parse().unwrap()],
        )];
        let mut in_force = InForce::compiled(policies, &HashMap::from(hosts)).unwrap();
        for path in ["/a.service", "/b.service"] {
            in_force.table.class_of(path).unwrap();
        }
        let names = Names {
            groups: in_force.table.groups().clone(),
            workloads: [(1, "/a.service".to_owned()), (2, "/b.service".to_owned())].into(),
            ..Names::default()
        };
        let key = OrderKey {
            workload: workload
                .and_then(|path| names.find_workload(path))
                .unwrap_or(0),
            destination: single("10.0.0.5:8080".parse().unwrap()),
        };
        let same = same(&key, &names, &in_force);
        (Left::of(&key, &names, &in_force), same.is_some())
    }

    fn joined() -> Option<Left> {
        Some(Left::Joined("auth".to_owned()))
    }

    #[test]
    fn an_order_is_taken_over_by_a_destination_that_is_its_address_and_nothing_else() {
        let alone = "cidrs: [10.0.0.5/32], ports: [8080]";
        assert_eq!(order(None, "", alone), (joined(), true));
        for more in [
            "cidrs: [10.0.0.0/24], ports: [8080]",
            "cidrs: [10.0.0.5/32, 10.0.0.6/32], ports: [8080]",
            "cidrs: [10.0.0.5/32], ports: [8080, 9090]",
            "cidrs: [10.0.0.5/32]",
            "hosts: [auth.internal], ports: [8080]",
        ] {
            assert_eq!(order(None, "", more), (joined(), false), "{more}");
        }
    }

    #[test]
    fn an_order_for_an_address_that_policies_leave_alone_is_what_it_was() {
        for other in [
            "cidrs: [10.0.0.6/32]",
            "cidrs: [10.0.0.5/32], ports: [9090]",
        ] {
            assert_eq!(order(None, "", other), (None, false), "{other}");
        }
    }

    #[test]
    fn a_policy_for_one_workload_takes_from_an_order_for_all_that_workload_alone() {
        let alone = "cidrs: [10.0.0.5/32], ports: [8080]";
        let partly = Some(Left::Partly("auth".to_owned()));
        assert_eq!(order(None, "/a.service", alone), (partly, false));
        let of_one = |path| order(Some(path), "/a.service", alone);
        assert_eq!(of_one("/a.service"), (joined(), true));
        assert_eq!(of_one("/b.service"), (None, false));
    }
}
