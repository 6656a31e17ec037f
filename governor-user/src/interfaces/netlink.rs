//! What the kernel says of the devices of this network namespace (rtnetlink).
//!
//! Messages are framed and their attributes walked by `netlink-packet-core`.
//! Typed messages of a larger crate were not taken: there a message with one
//! attribute that it reads differently than this kernel is lost whole, and with
//! it a device; five attributes are needed here.

use std::io;

use netlink_packet_core::{ErrorBuffer, NetlinkBuffer, NlasIterator};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::device::{Filter, Kind, Layer, Link, Master, Qdisc};

/// A message's header, and what it is rounded up to.
const HEADER: usize = 16;
const ALIGN: usize = 4;
/// Flag of a request that lists everything.
const DUMP: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
/// `struct ifinfomsg`, `struct tcmsg`, `struct rtmsg`.
const LINK_HEADER: usize = 16;
const TC_HEADER: usize = 20;
const ROUTE_HEADER: usize = 12;
/// Attributes within `IFLA_LINKINFO`.
const INFO_KIND: u16 = 1;
const INFO_SLAVE_KIND: u16 = 4;
const LINK_NETNSID: u16 = 37;
/// Attributes of a queueing discipline or filter.
const TC_KIND: u16 = 1;
const TC_OPTIONS: u16 = 2;
/// Attributes within the options of a filter of kind `bpf`.
const BPF_NAME: u16 = 7;
const BPF_ID: u16 = 11;
/// Parents of what is not within a discipline.
const ROOT: u32 = 0xffff_ffff;
/// An address of nobody (RFC 5737, RFC 3849): the way to it is the way to the world.
const NOBODY_V4: [u8; 4] = [198, 51, 100, 1];
const NOBODY_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Every device of this network namespace. One that comes or goes meanwhile may
/// be missed or be there twice: whoever follows changes hears of it.
pub fn links() -> io::Result<Vec<Link>> {
    let answers = ask(libc::RTM_GETLINK, DUMP, &[0; LINK_HEADER])?;
    let mut links: Vec<_> = answers.iter().filter_map(|body| link(body)).collect();
    links.sort_by_key(|link| link.index);
    links.dedup_by_key(|link| link.index);
    Ok(links)
}

/// Every queueing discipline of every device.
pub fn qdiscs() -> io::Result<Vec<Qdisc>> {
    let answers = ask(libc::RTM_GETQDISC, DUMP, &[0; TC_HEADER])?;
    Ok(answers.iter().filter_map(|body| qdisc(body)).collect())
}

/// The BPF filters below `parent` of a device, none where it has no classifier.
pub fn filters(device: u32, parent: u32) -> io::Result<Vec<Filter>> {
    let mut request = [0; TC_HEADER];
    request[4..8].copy_from_slice(&device.to_ne_bytes());
    request[12..16].copy_from_slice(&parent.to_ne_bytes());
    match ask(libc::RTM_GETTFILTER, DUMP, &request) {
        Ok(answers) => Ok(answers.iter().filter_map(|body| filter(body)).collect()),
        // No classifier, or the device has just gone.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EINVAL | libc::ENOENT | libc::ENODEV)
            ) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// The devices by which packets leave for the world, of either family. Asked as
/// the way to an address of nobody: a router's million routes are not listed.
pub fn uplinks() -> Vec<u32> {
    let ways = [
        way(libc::AF_INET, &NOBODY_V4),
        way(libc::AF_INET6, &NOBODY_V6),
    ];
    let mut devices: Vec<_> = ways.into_iter().flatten().collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// The device on the way to an address; none: there is no way.
fn way(family: i32, address: &[u8]) -> Option<u32> {
    let mut request = vec![0; ROUTE_HEADER];
    request[0] = u8::try_from(family).ok()?;
    request[1] = u8::try_from(address.len() * 8).ok()?;
    let length = u16::try_from(4 + address.len()).ok()?;
    request.extend(length.to_ne_bytes());
    request.extend(libc::RTA_DST.to_ne_bytes());
    request.extend(address);
    let answers = ask(libc::RTM_GETROUTE, REQUEST, &request).ok()?;
    let body = answers.first()?;
    attributes(body, ROUTE_HEADER).find_map(|(kind, value)| match kind {
        libc::RTA_OIF => number(value),
        _ => None,
    })
}

fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    ask_of(NETLINK_ROUTE, kind, flags, body)
}

/// Lists everything of a kind that a netlink family knows: the bodies of the answers.
pub fn dump(family: isize, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    ask_of(family, kind, DUMP, body)
}

fn ask_of(family: isize, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut socket = Socket::new(family)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = vec![0; HEADER];
    request.extend(body);
    let length = u32::try_from(request.len()).map_err(io::Error::other)?;
    let mut message = NetlinkBuffer::new(&mut request);
    message.set_length(length);
    message.set_message_type(kind);
    message.set_flags(flags);
    socket.send(&request, 0)?;
    let mut answers = Vec::new();
    while let More::Follows = take(&socket, flags, &mut answers)? {}
    Ok(answers)
}

enum More {
    Follows,
    Ended,
}

/// One datagram of answers.
fn take(socket: &Socket, flags: u16, answers: &mut Vec<Vec<u8>>) -> io::Result<More> {
    let (datagram, _) = socket.recv_from_full()?;
    let mut rest = datagram.as_slice();
    while let Ok(message) = NetlinkBuffer::new_checked(rest) {
        match i32::from(message.message_type()) {
            libc::NLMSG_DONE => return Ok(More::Ended),
            libc::NLMSG_ERROR => {
                let error = ErrorBuffer::new_checked(message.payload())
                    .map_err(io::Error::other)?
                    .code();
                return match error {
                    None => Ok(More::Ended),
                    Some(code) => Err(io::Error::from_raw_os_error(code.get().abs())),
                };
            }
            _ => answers.push(message.payload().to_vec()),
        }
        let length = (message.length() as usize).next_multiple_of(ALIGN);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(match flags == DUMP {
        true => More::Follows,
        false => More::Ended,
    })
}

/// Kind and value of the attributes after a message's own header.
pub fn attributes(body: &[u8], header: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let attributes = body.get(header..).unwrap_or_default();
    NlasIterator::new(attributes)
        .map_while(Result::ok)
        .map(|attribute| {
            let kind = attribute.kind();
            (kind, attribute.into_inner())
        })
        .map(|(kind, raw)| {
            let length = usize::from(u16::from_ne_bytes([raw[0], raw[1]]));
            (kind, raw.get(ALIGN..length).unwrap_or_default())
        })
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

fn at(body: &[u8], offset: usize) -> Option<u32> {
    number(body.get(offset..)?)
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(value.get(..end.unwrap_or(value.len())).unwrap_or_default())
        .into_owned()
}

fn link(body: &[u8]) -> Option<Link> {
    let layer = u16::from_ne_bytes(body.get(2..4)?.try_into().ok()?);
    let layer = match layer {
        libc::ARPHRD_LOOPBACK => Layer::Loopback,
        libc::ARPHRD_ETHER => Layer::Ethernet,
        _ => Layer::Other,
    };
    let mut link = Link::named(at(body, 4)?, "", layer);
    link.up = at(body, 8)? & libc::IFF_UP as u32 != 0;
    let mut slave_kind = String::new();
    for (kind, value) in attributes(body, LINK_HEADER) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_LINK => link.lower = number(value),
            libc::IFLA_MASTER => link.master = number(value).map(|of| (of, Master::Other)),
            LINK_NETNSID => link.peer_elsewhere = true,
            libc::IFLA_LINKINFO => {
                for (kind, value) in attributes(value, 0) {
                    match kind {
                        INFO_KIND => link.kind = kind_of(&text(value)),
                        INFO_SLAVE_KIND => slave_kind = text(value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if let (Some((_, master)), "vrf") = (&mut link.master, slave_kind.as_str()) {
        *master = Master::Vrf;
    }
    if link.peer_elsewhere {
        // The number is one of that other namespace.
        link.lower = None;
    }
    Some(link)
}

fn kind_of(kind: &str) -> Kind {
    match kind {
        "veth" => Kind::Veth,
        "bond" | "team" => Kind::Bond,
        "vlan" => Kind::Vlan,
        "vrf" => Kind::Vrf,
        "netkit" => Kind::Netkit,
        _ => Kind::Other,
    }
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let parent = at(body, 12)?;
    let kind = attributes(body, TC_HEADER).find(|(kind, _)| *kind == TC_KIND);
    Some(Qdisc {
        device: at(body, 4)?,
        handle: at(body, 8)?,
        parent: (parent != ROOT).then_some(parent),
        kind: text(kind?.1),
    })
}

fn filter(body: &[u8]) -> Option<Filter> {
    let mut filter = Filter {
        priority: u16::try_from(at(body, 16)? >> 16).ok()?,
        handle: at(body, 8)?,
        name: String::new(),
        program: 0,
    };
    for (_, options) in attributes(body, TC_HEADER).filter(|(kind, _)| *kind == TC_OPTIONS) {
        for (kind, value) in attributes(options, 0) {
            match kind {
                BPF_NAME => filter.name = text(value),
                BPF_ID => filter.program = number(value)?,
                _ => {}
            }
        }
    }
    (!filter.name.is_empty()).then_some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_namespace_has_a_loopback_and_its_discipline_is_known() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.index, lo.layer), (1, Layer::Loopback));
        assert!(lo.master.is_none() && !lo.peer_elsewhere);
        let qdiscs = qdiscs().unwrap();
        let of = |device| qdiscs.iter().find(|qdisc| qdisc.device == device);
        assert!(of(1).is_none_or(|qdisc| qdisc.kind == "noqueue" && qdisc.parent.is_none()));
    }

    #[test]
    fn a_device_without_classifier_has_no_filters() {
        assert_eq!(filters(1, 0xffff_fff3).unwrap(), []);
    }
}
