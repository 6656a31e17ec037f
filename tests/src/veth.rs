//! A wire between two namespaces: traffic that leaves the host, as far as a caller can tell.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::must;
use crate::netns::Netns;

static NEXT: AtomicU8 = AtomicU8::new(0);

/// One end of a wire.
#[derive(Clone, Debug)]
pub struct End {
    /// The device, named inside its namespace.
    pub device: String,
    /// Its IPv4 address.
    pub v4: IpAddr,
    /// Its IPv6 address.
    pub v6: IpAddr,
}

/// A veth pair. It lives as long as its namespaces do.
#[derive(Clone, Debug)]
pub struct Veth {
    /// The end in the first namespace.
    pub left: End,
    /// The end in the second namespace.
    pub right: End,
}

impl Veth {
    /// Joins two namespaces by a new wire with addresses of both families, up and ready.
    pub fn between(left: &Netns, right: &Netns) -> Self {
        let wire = NEXT.fetch_add(1, Ordering::Relaxed);
        let veth = Self {
            left: end(wire, 1),
            right: end(wire, 2),
        };
        let (left_device, right_device) = (&veth.left.device, &veth.right.device);
        left.ip(&[
            "link",
            "add",
            left_device,
            "type",
            "veth",
            "peer",
            "name",
            right_device,
            "netns",
            right.name(),
        ]);
        for (netns, end) in [(left, &veth.left), (right, &veth.right)] {
            netns.ip(&["link", "set", &end.device, "up"]);
        }
        for (netns, end) in [(left, &veth.left), (right, &veth.right)] {
            name(netns, end);
        }
        must(left.run(|| veth.right.wait_until_reached()));
        veth
    }
}

fn end(wire: u8, side: u8) -> End {
    End {
        device: format!("wire{wire}-{side}"),
        v4: Ipv4Addr::new(10, 77, wire, side).into(),
        v6: Ipv6Addr::new(0xfd77, 0, 0, wire.into(), 0, 0, 0, side.into()).into(),
    }
}

fn name(netns: &Netns, end: &End) {
    netns.ip(&[
        "address",
        "add",
        &format!("{}/24", end.v4),
        "dev",
        &end.device,
    ]);
    // Duplicate address detection would keep the address unusable for a second.
    netns.ip(&[
        "address",
        "add",
        &format!("{}/64", end.v6),
        "dev",
        &end.device,
        "nodad",
    ]);
}

impl End {
    /// The kernel tells its protocols late that a new link has a carrier; what is sent before that is
    /// lost, and the neighbour is asked again only a second later. A refusal proves that both ways work.
    fn wait_until_reached(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        for address in [self.v4, self.v6] {
            let nobody = SocketAddr::new(address, 1);
            let is_refused = || {
                let answer = TcpStream::connect_timeout(&nobody, Duration::from_millis(1500));
                answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            };
            while !is_refused() {
                ensure!(
                    Instant::now() < deadline,
                    "{address} is not reached over the new wire"
                );
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}
