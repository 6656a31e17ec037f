//! Names for what the kernel knows by number: destinations and workloads.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use governor_core::key::{DestinationKey, EndpointKey, OrderKey};

use crate::policy::Policy;
use crate::policy::rules::Group;
use crate::status;

/// `10.0.0.5:8080`, `[fd00::1]:8080`.
pub fn endpoint(key: &EndpointKey) -> String {
    status::label(&key.address, key.port)
}

/// An ip:port as the kernel knows it.
pub fn single(address: SocketAddr) -> DestinationKey {
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    DestinationKey {
        address: octets,
        port: u32::from(address.port()),
        group: 0,
    }
}

/// The names in use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Destination groups by id, as policies name them or, with no policy, did.
    pub groups: BTreeMap<u32, Group>,
    /// Workloads by cgroup id; those that are gone stay while ledgers may.
    pub workloads: HashMap<u64, String>,
    /// What to say of orders that policies have left behind.
    pub caveats: HashMap<OrderKey, String>,
}

impl Names {
    /// Takes up the groups of the policies in force. Those that none of them names any more keep
    /// their names as long as this runs: their ledgers live on, and a counter of another name would
    /// have fallen.
    pub fn groups_are(&mut self, groups: &BTreeMap<u32, Group>) {
        let former = |id: &u32| !groups.contains_key(id);
        for (_, group) in self.groups.iter_mut().filter(|(id, _)| former(id)) {
            group.policy.clear();
        }
        self.groups.extend(groups.clone());
    }

    /// As the status shows them. `policies` are those in force.
    pub fn shown<'a>(&'a self, policies: &'a [Policy]) -> status::Names<'a> {
        status::Names {
            workloads: &self.workloads,
            groups: &self.groups,
            policies,
            caveats: &self.caveats,
        }
    }

    /// Whether this is a destination of a policy that is no more.
    pub fn unnamed(&self, key: &DestinationKey) -> bool {
        let group = self.groups.get(&key.group);
        key.group != 0 && group.is_none_or(|group| group.policy.is_empty())
    }

    /// The name of a destination.
    pub fn destination(&self, key: &DestinationKey) -> String {
        self.shown(&[]).destination(key)
    }

    /// The path of a workload's cgroup.
    pub fn workload(&self, id: u64) -> String {
        self.shown(&[]).workload(id)
    }

    /// The workload at a path.
    pub fn find_workload(&self, path: &str) -> Option<u64> {
        // The newest of several with one path: a unit that was restarted has a new cgroup.
        let ids = self.workloads.iter().filter(|(_, known)| *known == path);
        ids.map(|(id, _)| *id).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            groups: [(
                7,
                Group {
                    policy: "p".to_owned(),
                    name: "auth".to_owned(),
                },
            )]
            .into(),
            workloads: [(42, "/a.service".to_owned())].into(),
            ..Names::default()
        }
    }

    #[test]
    fn a_single_address_is_shown_as_it_was_given() {
        for shown in ["10.0.0.5:8080", "[fd00::1]:80"] {
            assert_eq!(names().destination(&single(shown.parse().unwrap())), shown);
        }
    }

    #[test]
    fn a_destination_that_no_policy_names_any_more_keeps_its_name() {
        let mut names = names();
        names.groups_are(&BTreeMap::new());
        let key = DestinationKey {
            address: [0; 16],
            port: 0,
            group: 7,
        };
        assert_eq!(names.destination(&key), "auth");
        assert_eq!(
            (names.groups[&7].policy.as_str(), names.unnamed(&key)),
            ("", true)
        );
    }

    #[test]
    fn a_workload_is_found_by_its_path_the_newest_where_it_was_restarted() {
        let mut names = names();
        names.workloads.insert(43, "/a.service".to_owned());
        assert_eq!(names.find_workload("/a.service"), Some(43));
        assert_eq!(names.find_workload("/b.service"), None);
    }
}
