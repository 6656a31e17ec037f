//! The network: pods, a router that is the node, a server behind a service.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor_tests::caller::{Caller, Storm};
use governor_tests::cgroup::Cgroup;
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::place::Place;
use governor_tests::process::Process;
use governor_tests::server::faults::Plan;
use governor_tests::server::faulty::FaultyServer;
use governor_tests::server::{Behaviour, Protocol, Server};
use governor_tests::storm::exchange::Speech;
use governor_tests::veth::Veth;

const PORT: u16 = 8080;
/// Addresses of the service, known to the router alone, and its port.
const SERVICE: [&str; 2] = ["10.96.0.1", "fd96::1"];
const SERVICE_PORT: u16 = 80;
/// The same for a server that is slow.
const SLOW_PORT: u16 = 8081;
const SLOW_SERVICE_PORT: u16 = 81;

/// Which address of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The service, as callers name it.
    pub fn service(self) -> SocketAddr {
        let [v4, v6] = SERVICE.map(|it| it.parse::<IpAddr>().unwrap());
        SocketAddr::new(if self == Self::V4 { v4 } else { v6 }, SERVICE_PORT)
    }
}

/// A node with a service behind it. Its pods are made and unmade by the test.
pub struct Cluster {
    pub server: FaultyServer,
    kubepods: Cgroup,
    backend: Netns,
    pub lab: Lab,
}

impl Cluster {
    pub fn new() -> Self {
        let lab = Lab::new();
        let router = lab.netns();
        let backend = Netns::create();
        let wire = Veth::between(router, &backend);
        router.sysctl("ipv4/ip_forward", "1");
        router.sysctl("ipv6/conf/all/forwarding", "1");
        route(&backend, &wire.left.v4, &wire.left.v6);
        serve(router, wire.right.v4, wire.right.v6);
        Self {
            server: FaultyServer::start(&backend, PORT, Plan::healthy()),
            kubepods: lab.cgroup().child("kubepods.slice"),
            backend,
            lab,
        }
    }

    /// A second server, which answers each request so late, behind a port of the service of its own.
    pub fn slow_server(&self, family: Family, late: Duration) -> (Server, SocketAddr) {
        let behaviour = Behaviour::AnswerAfter(late);
        let server = Server::start(&self.backend, SLOW_PORT, Protocol::Http, behaviour);
        let service = SocketAddr::new(family.service().ip(), SLOW_SERVICE_PORT);
        (server, service)
    }

    /// A new pod, up and reachable.
    pub fn pod(&self) -> Pod {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let uid = format!("{number:08x}_0000_4000_8000_000000000000");
        let slice = self.kubepods.child(&format!("kubepods-pod{uid}.slice"));
        let netns = Netns::create();
        let wire = Veth::between(&netns, self.lab.netns());
        route(&netns, &wire.right.v4, &wire.right.v6);
        Pod {
            container: slice.child("cri-containerd-1.scope"),
            slice,
            host_side: wire.right.device,
            netns,
        }
    }
}

/// A pod with one container. It goes with all its processes.
pub struct Pod {
    container: Cgroup,
    slice: Cgroup,
    netns: Netns,
    /// The node's end of its wire.
    pub host_side: String,
}

impl Pod {
    fn place(&self) -> Place<'_> {
        Place::new(&self.netns, &self.container)
    }

    /// The end of its path: what the governor is to call it.
    pub fn name(&self) -> String {
        let name = self.slice.path().file_name().unwrap();
        format!("/kubepods.slice/{}", name.to_str().unwrap())
    }

    /// Lets a storm loose in it.
    pub fn storm(&self, arguments: &str) -> Storm {
        Storm::start(arguments, &self.place())
    }

    /// A caller of the service in it, led step by step.
    pub fn caller(&self, family: Family) -> Caller {
        Caller::start(family.service(), Speech::Http, &self.place())
    }

    /// Any program in it.
    pub fn start(&self, command: Command) -> Process {
        Process::start(command, &self.place())
    }
}

fn route(netns: &Netns, v4: &IpAddr, v6: &IpAddr) {
    netns.ip(&["route", "add", "default", "via", &v4.to_string()]);
    netns.ip(&["-6", "route", "add", "default", "via", &v6.to_string()]);
}

/// As kube-proxy does it, its rule against packets of no known connection included.
fn serve(router: &Netns, v4: IpAddr, v6: IpAddr) {
    let [service_v4, service_v6] = SERVICE;
    let translated = |service: u16, port: u16| {
        format!(
            "ip daddr {service_v4} tcp dport {service} dnat ip to {v4}:{port}
             ip6 daddr {service_v6} tcp dport {service} dnat ip6 to [{v6}]:{port}"
        )
    };
    let usual = translated(SERVICE_PORT, PORT);
    let slow = translated(SLOW_SERVICE_PORT, SLOW_PORT);
    let rules = format!(
        "table inet services {{
            chain nat {{
                type nat hook prerouting priority dstnat;
                {usual}
                {slow}
            }}
            chain forward {{
                type filter hook forward priority filter;
                ct state invalid drop
            }}
        }}"
    );
    let output = router.run(|| Command::new("nft").arg(rules).output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft: {errors}");
}
