//! What is known of a network device, and of what is attached to it.

/// What comes before the payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// An empty Ethernet header.
    Loopback,
    /// An Ethernet header.
    Ethernet,
    /// Something else, or nothing.
    Other,
}

impl Layer {
    /// Whether a packet can be turned round there.
    pub fn has_ethernet_header(self) -> bool {
        self != Self::Other
    }
}

/// Kinds of devices that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One end of a wire between two network namespaces.
    Veth,
    /// Several devices that act as one.
    Bond,
    /// A tag on another device.
    Vlan,
    /// A routing domain.
    Vrf,
    /// A veth whose programs run elsewhere.
    Netkit,
    /// Any other.
    Other,
}

/// What a device is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Master {
    /// A routing domain: packets leave by the member.
    Vrf,
    /// A bridge, a bond, a switch: packets leave by the master.
    Other,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// What its packets begin with.
    pub layer: Layer,
    /// What it is.
    pub kind: Kind,
    /// What it is part of.
    pub master: Option<(u32, Master)>,
    /// The device below it, of this network namespace.
    pub lower: Option<u32>,
    /// Its other end, or the device below it, is in another network namespace.
    pub peer_elsewhere: bool,
}

impl Link {
    /// A device that is down, and of which no more is known.
    pub fn named(index: u32, name: &str, layer: Layer) -> Self {
        Self {
            index,
            name: name.to_owned(),
            up: false,
            layer,
            kind: Kind::Other,
            master: None,
            lower: None,
            peer_elsewhere: false,
        }
    }

    /// Whether its packets leave by the device it is part of.
    pub fn is_member(&self) -> bool {
        self.master.is_some_and(|(_, master)| master != Master::Vrf)
    }

    /// Whether containers are behind it.
    pub fn is_host_side(&self) -> bool {
        self.kind == Kind::Veth && self.peer_elsewhere
    }
}

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The device.
    pub device: u32,
    /// Its own handle.
    pub handle: u32,
    /// What it is in; `None`: it is the device's root.
    pub parent: Option<u32>,
    /// `fq`, `mq`, `noqueue`.
    pub kind: String,
}

/// A BPF program at the classifier of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its priority.
    pub priority: u16,
    /// Its handle.
    pub handle: u32,
    /// Its name.
    pub name: String,
    /// The id of the program.
    pub program: u32,
}
