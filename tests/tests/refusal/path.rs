//! The ways from a caller to a server, each with the executor where it belongs.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use governor_tests::netns::Netns;
use governor_tests::preflight;
use governor_tests::veth::Veth;

use crate::kernel::executor::{Executor, Hook, Means, Witness};

const PORT: u16 = 8080;
/// Addresses of a service that only the router knows, and their port.
const SERVICE: [&str; 2] = ["10.96.0.1", "fd96::1"];
/// Addresses of a service that the caller's own namespace replaces.
const OWN_SERVICE: [&str; 2] = ["10.97.0.1", "fd97::1"];
const SERVICE_PORT: u16 = 80;
const LIMIT: Duration = Duration::from_secs(10);

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Caller and server on one host.
    Loopback,
    /// The executor in the pod, at its veth.
    Pod,
    /// The executor on the host, at its end of the pod's veth.
    Host,
}

/// By which address the server is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Its own.
    V4,
    /// Its own.
    V6,
    /// That of a service, which the router replaces.
    ServiceV4,
    /// As above.
    ServiceV6,
    /// That of a service, which the caller's own namespace replaces: a host with its services, a
    /// pod with a sidecar.
    OwnServiceV4,
    /// As above.
    OwnServiceV6,
}

/// A caller's namespace, a server's, perhaps a router between them.
pub struct Path {
    pub executor: Executor,
    pub caller: Netns,
    way: Way,
    server: Option<(Netns, Netns, [Veth; 2])>,
}

/// Both ends of a connection.
pub struct Connection {
    pub caller: TcpStream,
    pub server: TcpStream,
}

impl Path {
    pub fn new(way: Way, means: Means) -> Self {
        preflight::require_kernel();
        let mut executor = Executor::load();
        let caller = Netns::create();
        if way == Way::Loopback {
            executor.attach(&caller, "lo", Hook::Egress, means);
            for address in OWN_SERVICE {
                ip(&caller, &format!("address add {address} dev lo"));
            }
            let [v4, v6] = ["127.0.0.1", "::1"].map(|it| it.parse().unwrap());
            nft(&caller, &own_service(v4, v6));
            return Self {
                executor,
                caller,
                way,
                server: None,
            };
        }
        let (router, server) = (Netns::create(), Netns::create());
        let inner = Veth::between(&caller, &router);
        let outer = Veth::between(&router, &server);
        router.sysctl("ipv4/ip_forward", "1");
        router.sysctl("ipv6/conf/all/forwarding", "1");
        for (netns, via) in [(&caller, &inner.right), (&server, &outer.left)] {
            ip(netns, &format!("route add default via {}", via.v4));
            ip(netns, &format!("-6 route add default via {}", via.v6));
        }
        nft(&router, &service(outer.right.v4, outer.right.v6));
        nft(&caller, &own_service(outer.right.v4, outer.right.v6));
        match way {
            Way::Host => executor.attach(&router, &inner.right.device, Hook::Ingress, means),
            _ => executor.attach(&caller, &inner.left.device, Hook::Egress, means),
        }
        Self {
            executor,
            caller,
            way,
            server: Some((router, server, [inner, outer])),
        }
    }

    /// The server's namespace.
    pub fn server(&self) -> &Netns {
        self.server.as_ref().map_or(&self.caller, |(_, it, _)| it)
    }

    /// A program of somebody else, behind the executor.
    pub fn witness(&self, means: Means) -> Witness {
        match &self.server {
            None => Witness::attach(&self.caller, "lo", Hook::Egress, means),
            Some((router, _, [inner, _])) => match self.way {
                Way::Host => Witness::attach(router, &inner.right.device, Hook::Ingress, means),
                _ => Witness::attach(&self.caller, &inner.left.device, Hook::Egress, means),
            },
        }
    }

    /// Makes the caller's device leave no checksum to be completed by whoever comes after it: from there
    /// on a wrong one is a lost packet.
    pub fn complete_checksums(&self) {
        let (_, _, [inner, _]) = self.server.as_ref().unwrap();
        self.caller
            .run(|| transmit_checksums_off(&inner.left.device));
    }

    /// Where the server listens, and where it is called.
    pub fn addresses(&self, address: Address) -> (SocketAddr, SocketAddr) {
        let own = |v6: bool| -> IpAddr {
            match &self.server {
                None if v6 => "::1".parse().unwrap(),
                None => "127.0.0.1".parse().unwrap(),
                Some((_, _, [_, outer])) if v6 => outer.right.v6,
                Some((_, _, [_, outer])) => outer.right.v4,
            }
        };
        let listens = SocketAddr::new(
            own(matches!(
                address,
                Address::V6 | Address::ServiceV6 | Address::OwnServiceV6
            )),
            PORT,
        );
        let service = |name: &str| SocketAddr::new(name.parse().unwrap(), SERVICE_PORT);
        let called = match address {
            Address::V4 | Address::V6 => listens,
            Address::ServiceV4 => service(SERVICE[0]),
            Address::ServiceV6 => service(SERVICE[1]),
            Address::OwnServiceV4 => service(OWN_SERVICE[0]),
            Address::OwnServiceV6 => service(OWN_SERVICE[1]),
        };
        (listens, called)
    }

    /// Connects, and gives the caller's socket a record.
    pub fn connect(&mut self, address: Address) -> Connection {
        let connection = self.dial(address);
        self.executor.govern(&connection.caller);
        connection
    }

    /// Connects.
    pub fn dial(&self, address: Address) -> Connection {
        let (listens, called) = self.addresses(address);
        let listener = self.server().run(|| TcpListener::bind(listens).unwrap());
        let caller = self
            .caller
            .run(|| TcpStream::connect_timeout(&called, LIMIT).unwrap());
        let (server, _) = listener.accept().unwrap();
        for socket in [&caller, &server] {
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket.set_write_timeout(Some(LIMIT)).unwrap();
            socket.set_nodelay(true).unwrap();
        }
        Connection { caller, server }
    }

    /// Packets that fit no connection the router knows.
    pub fn invalid(&self) -> u64 {
        let Some((router, ..)) = &self.server else {
            return 0;
        };
        let listing = run(
            router,
            "nft",
            &["list", "counter", "inet", "router", "invalid"],
            "",
        );
        let mut words = listing.split_whitespace().skip_while(|it| *it != "packets");
        words.nth(1).unwrap().parse().unwrap()
    }
}

/// Lets answers through again when dropped.
pub struct Hole<'a>(&'a Netns);

impl<'a> Hole<'a> {
    /// Swallows what the executor sends back to the callers in `netns`.
    pub fn for_answers(netns: &'a Netns) -> Self {
        let window = governor_core::record::SYNTHETIC_WINDOW;
        let chain = "type filter hook input priority 0;";
        let drop = format!("tcp window {window} drop");
        nft(
            netns,
            &format!("table inet hole {{ chain in {{ {chain} {drop}; }}; }}"),
        );
        Self(netns)
    }
}

impl Drop for Hole<'_> {
    fn drop(&mut self) {
        nft(self.0, "delete table inet hole");
    }
}

/// What kube-proxy sets up for a service, and drops.
fn service(v4: IpAddr, v6: IpAddr) -> String {
    let [service_v4, service_v6] = SERVICE;
    format!(
        "table inet router {{
            counter invalid {{ }}
            chain nat {{
                type nat hook prerouting priority dstnat;
                ip daddr {service_v4} tcp dport {SERVICE_PORT} dnat ip to {v4}:{PORT}
                ip6 daddr {service_v6} tcp dport {SERVICE_PORT} dnat ip6 to [{v6}]:{PORT}
            }}
            chain forward {{
                type filter hook forward priority filter;
                ct state invalid counter name invalid drop
            }}
        }}"
    )
}

/// The same where the caller is.
fn own_service(v4: IpAddr, v6: IpAddr) -> String {
    let [service_v4, service_v6] = OWN_SERVICE;
    format!(
        "table inet own {{
            chain nat {{
                type nat hook output priority -100;
                ip daddr {service_v4} tcp dport {SERVICE_PORT} dnat ip to {v4}:{PORT}
                ip6 daddr {service_v6} tcp dport {SERVICE_PORT} dnat ip6 to [{v6}]:{PORT}
            }}
        }}"
    )
}

/// `ethtool -K DEVICE tx off`.
fn transmit_checksums_off(device: &str) {
    /// From linux/ethtool.h.
    const SET_TRANSMIT_CHECKSUM: u32 = 0x17;
    // A command and its value.
    let mut order = [SET_TRANSMIT_CHECKSUM, 0];
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = libc::c_char::try_from(from).unwrap();
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: order.as_mut_ptr().cast(),
        },
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // SAFETY: request and order are alive, and of the form that this call asks for.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

fn ip(netns: &Netns, arguments: &str) {
    run(netns, "ip", &arguments.split(' ').collect::<Vec<_>>(), "");
}

fn nft(netns: &Netns, rules: &str) {
    run(netns, "nft", &["-f", "-"], rules);
}

fn run(netns: &Netns, program: &str, arguments: &[&str], input: &str) -> String {
    let output = netns.run(|| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
