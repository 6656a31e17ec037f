//! Which program belongs where. A pure function of what is known of a device.

use super::device::{Kind, Link};
use crate::kernel::ActHook;

/// Whose traffic is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// That of processes in this network namespace: it leaves by egress.
    Namespace,
    /// Also that of containers behind the veth devices of this namespace, which
    /// comes in there.
    Node,
}

/// Why a device gets no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passed {
    /// It is down: there is no traffic.
    Down,
    /// Its packets have no Ethernet header (WireGuard, tun): nothing to answer with.
    NoEthernet,
    /// Its programs run elsewhere than at traffic control.
    Netkit,
    /// Its traffic passes the device it is a part of.
    Member,
}

impl Passed {
    /// In words, after the name of the device.
    pub fn words(self) -> &'static str {
        match self {
            Self::Down => "is down",
            Self::NoEthernet => "has no Ethernet header",
            Self::Netkit => "is a netkit device",
            Self::Member => "is part of another device",
        }
    }

    /// Whether requests that leave by it go ungoverned.
    pub fn is_a_gap(self) -> bool {
        matches!(self, Self::NoEthernet | Self::Netkit)
    }
}

/// Named by the user, or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `--interface auto`.
    Auto,
    /// `--interface NAME`: a member too, where that is what is wanted.
    Name,
}

/// The programs for a device.
pub fn choose(link: &Link, scope: Scope, by: By) -> Result<&'static [ActHook], Passed> {
    use ActHook::{Egress, Ingress};
    if !link.layer.has_ethernet_header() {
        return Err(Passed::NoEthernet);
    }
    match link.kind {
        Kind::Netkit => return Err(Passed::Netkit),
        // What is sent through a VRF leaves by its members.
        Kind::Vrf => return Err(Passed::Member),
        _ => {}
    }
    if !link.up {
        return Err(Passed::Down);
    }
    // Callers of this namespace call containers through the host side of a veth
    // as well (a node agent, an ingress proxy): then they leave by its egress.
    let behind = scope == Scope::Node && link.is_host_side();
    match (link.is_member() && by == By::Auto, behind) {
        // A port of a bridge: the container behind it is reached here only; the
        // namespace's own traffic passes the bridge.
        (true, true) => Ok(&[Ingress]),
        (true, false) => Err(Passed::Member),
        (false, true) => Ok(&[Egress, Ingress]),
        (false, false) => Ok(&[Egress]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::device::{Layer, Master};
    use ActHook::{Egress, Ingress};

    fn ethernet(name: &str) -> Link {
        Link {
            up: true,
            ..Link::named(7, name, Layer::Ethernet)
        }
    }

    fn veth() -> Link {
        Link {
            kind: Kind::Veth,
            peer_elsewhere: true,
            ..ethernet("veth0")
        }
    }

    fn member_of(kind: Master, link: Link) -> Link {
        Link {
            master: Some((3, kind)),
            ..link
        }
    }

    fn auto(link: &Link, scope: Scope) -> Result<&'static [ActHook], Passed> {
        choose(link, scope, By::Auto)
    }

    #[test]
    fn what_leaves_this_namespace_is_reached_at_egress() {
        let lo = Link {
            up: true,
            ..Link::named(1, "lo", Layer::Loopback)
        };
        for link in [lo, ethernet("eth0")] {
            for scope in [Scope::Namespace, Scope::Node] {
                assert_eq!(auto(&link, scope), Ok(&[Egress][..]));
            }
        }
    }

    #[test]
    fn a_container_is_reached_where_its_veth_comes_in_and_called_where_it_goes_out() {
        assert_eq!(auto(&veth(), Scope::Node), Ok(&[Egress, Ingress][..]));
        // Seen from inside a pod its own end looks just the same.
        assert_eq!(auto(&veth(), Scope::Namespace), Ok(&[Egress][..]));
    }

    #[test]
    fn both_ends_of_a_veth_in_one_namespace_are_no_way_to_a_container() {
        let link = Link {
            peer_elsewhere: false,
            ..veth()
        };
        assert_eq!(auto(&link, Scope::Node), Ok(&[Egress][..]));
    }

    #[test]
    fn a_port_of_a_bridge_is_reached_for_the_container_behind_it_only() {
        let port = member_of(Master::Other, veth());
        assert_eq!(auto(&port, Scope::Node), Ok(&[Ingress][..]));
        assert_eq!(auto(&port, Scope::Namespace), Err(Passed::Member));
    }

    #[test]
    fn of_a_bond_only_the_whole_is_governed_unless_a_part_is_named() {
        let part = member_of(Master::Other, ethernet("eth1"));
        assert_eq!(auto(&part, Scope::Node), Err(Passed::Member));
        let named = choose(&part, Scope::Node, By::Name);
        assert_eq!(named, Ok(&[Egress][..]));
    }

    #[test]
    fn the_members_of_a_vrf_are_governed_and_not_the_vrf() {
        let member = member_of(Master::Vrf, ethernet("eth2"));
        assert_eq!(auto(&member, Scope::Node), Ok(&[Egress][..]));
        let vrf = Link {
            kind: Kind::Vrf,
            ..ethernet("blue")
        };
        assert_eq!(auto(&vrf, Scope::Node), Err(Passed::Member));
    }

    #[test]
    fn what_cannot_be_reached_says_why() {
        let down = Link {
            up: false,
            ..ethernet("eth3")
        };
        assert_eq!(auto(&down, Scope::Node), Err(Passed::Down));
        let tunnel = Link {
            up: true,
            ..Link::named(8, "wg0", Layer::Other)
        };
        assert_eq!(auto(&tunnel, Scope::Node), Err(Passed::NoEthernet));
        let netkit = Link {
            kind: Kind::Netkit,
            ..veth()
        };
        assert_eq!(auto(&netkit, Scope::Node), Err(Passed::Netkit));
    }
}
