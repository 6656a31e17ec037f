//! Who is never judged unless a policy names it: the node must stay reachable
//! for whoever repairs it (I8). DNS (port 53) is exempt by the compiler itself.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use super::kubeconfig::{Kubeconfig, Server, kubeconfigs};
use crate::policy::prefix::Prefix;
use crate::policy::rules::Exempt;

/// The kubelet's API.
const KUBELET: u16 = 10250;
/// DNS over TLS.
const DNS_OVER_TLS: u16 = 853;
/// Says where this node's resolvers are.
const RESOLVERS: &str = "/etc/resolv.conf";
/// Says to every pod where the API server is: at its service address.
pub const SERVICE: &str = "KUBERNETES_SERVICE_HOST";

/// An API server, and what it is known from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// Where it is.
    pub server: Server,
    /// The name of a file, or [`SERVICE`].
    pub source: String,
}

/// What is exempt on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemptions {
    /// Its resolvers.
    pub resolvers: Vec<IpAddr>,
    /// Its API servers.
    pub api_servers: Vec<ApiServer>,
    /// Kubeconfigs that say nothing: `what: why`.
    pub unread: Vec<String>,
}

impl Exemptions {
    /// As the files and the environment say now. `kubeconfig`: one to look into instead of those
    /// of a kubelet.
    pub fn of_this_node(kubeconfig: Option<&Path>) -> Self {
        let resolvers = fs::read_to_string(RESOLVERS).unwrap_or_default();
        let host = env::var(SERVICE).ok();
        let port = env::var("KUBERNETES_SERVICE_PORT").ok();
        let service = service(host.as_deref(), port.as_deref());
        Self::new(&resolvers, service, kubeconfigs(kubeconfig))
    }

    fn new(resolv_conf: &str, service: Option<Server>, kubeconfigs: Vec<Kubeconfig>) -> Self {
        let known = |server, source: String| ApiServer { server, source };
        let mut exempt = Self {
            resolvers: nameservers(resolv_conf).collect(),
            api_servers: Vec::new(),
            unread: Vec::new(),
        };
        let service = service.map(|server| known(server, SERVICE.to_owned()));
        exempt.api_servers.extend(service);
        for Kubeconfig { path, servers } in kubeconfigs {
            let path = path.display().to_string();
            match servers {
                Ok(servers) => exempt.api_servers.extend(
                    servers
                        .into_iter()
                        .map(|server| known(server, path.clone())),
                ),
                Err(why) => exempt.unread.push(format!("{path}: {why}")),
            }
        }
        exempt
    }

    /// Host names whose addresses are wanted.
    pub fn names(&self) -> BTreeSet<String> {
        let hosts = self.api_servers.iter().map(|api| &api.server.host);
        let names = hosts.filter(|host| host.parse::<IpAddr>().is_err());
        names.cloned().collect()
    }

    /// The places, with the present addresses of hosts.
    pub fn places(&self, addresses: &HashMap<String, Vec<IpAddr>>) -> Vec<Exempt> {
        let place = |address, port| Exempt {
            net: Prefix::host(address),
            port: Some(port),
        };
        // Only their DNS ports: a resolver is often the router, or this host, and
        // other services live there too.
        let resolvers = self.resolvers.iter();
        let resolvers = resolvers.map(|resolver| place(*resolver, DNS_OVER_TLS));
        let kubelet = Exempt {
            net: Prefix::ANY,
            port: Some(KUBELET),
        };
        let api_servers = self.api_servers.iter().flat_map(|api| {
            let Server { host, port } = &api.server;
            let found = match host.parse() {
                Ok(address) => vec![address],
                Err(_) => addresses.get(host).cloned().unwrap_or_default(),
            };
            found.into_iter().map(move |address| place(address, *port))
        });
        resolvers.chain([kubelet]).chain(api_servers).collect()
    }

    /// `DNS: port 53, 853 of 10.0.0.53 (/etc/resolv.conf); kubelet: port 10250; API server:
    /// 10.0.0.1:6443 (/etc/kubernetes/kubelet.conf)`.
    pub fn describe(&self) -> String {
        let resolvers: Vec<_> = self.resolvers.iter().map(IpAddr::to_string).collect();
        let resolvers = match resolvers.as_slice() {
            [] => format!("no resolver in {RESOLVERS}"),
            all => format!("{DNS_OVER_TLS} of {} ({RESOLVERS})", all.join(", ")),
        };
        let api_servers = self.api_servers.iter().map(ApiServer::words);
        let api_servers = match api_servers.collect::<Vec<_>>().as_slice() {
            [] => "none known".to_owned(),
            all => all.join(", "),
        };
        format!("DNS: port 53, {resolvers}; kubelet: port {KUBELET}; API server: {api_servers}")
    }
}

impl ApiServer {
    fn words(&self) -> String {
        let Server { host, port } = &self.server;
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        format!("{host}:{port} ({})", self.source)
    }
}

/// The API server, as the kubelet tells every pod.
fn service(host: Option<&str>, port: Option<&str>) -> Option<Server> {
    Some(Server {
        host: host?.to_ascii_lowercase(),
        port: port?.parse().ok()?,
    })
}

fn nameservers(resolv_conf: &str) -> impl Iterator<Item = IpAddr> {
    resolv_conf.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words
            .next()
            .filter(|word| *word == "nameserver")
            .and(words.next())?;
        // A link-local resolver has a zone: fe80::1%eth0.
        address.split('%').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOLV_CONF: &str =
        "# comment\nsearch x\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\n";

    fn kubelet(host: &str) -> Vec<Kubeconfig> {
        let server = Server {
            host: host.to_owned(),
            port: 6443,
        };
        vec![Kubeconfig {
            path: "/kubelet.conf".into(),
            servers: Ok(vec![server]),
        }]
    }

    fn shown(exempt: &Exemptions, addresses: &HashMap<String, Vec<IpAddr>>) -> Vec<String> {
        let places = exempt.places(addresses).into_iter();
        let places = places.map(|place| format!("{}:{:?}", place.net, place.port));
        places.collect()
    }

    #[test]
    fn resolvers_kubelet_and_api_server_are_exempt_and_nothing_else_is() {
        let service = service(Some("10.96.0.1"), Some("443"));
        let exempt = Exemptions::new(RESOLV_CONF, service, kubelet("api.internal"));
        let fixed = [
            "10.0.0.53/32:Some(853)",
            "fe80::1/128:Some(853)",
            "::/0:Some(10250)",
            "10.96.0.1/32:Some(443)",
        ];
        assert_eq!(shown(&exempt, &HashMap::new()), fixed);
        let addresses = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let resolved = HashMap::from([("api.internal".to_owned(), addresses.to_vec())]);
        let followed = ["10.0.0.1/32:Some(6443)", "10.0.0.2/32:Some(6443)"];
        assert_eq!(shown(&exempt, &resolved), [&fixed[..], &followed].concat());
        assert_eq!(exempt.names(), BTreeSet::from(["api.internal".to_owned()]));
    }

    #[test]
    fn it_is_told_what_is_exempt_and_what_that_is_known_from() {
        let exempt = Exemptions::new(RESOLV_CONF, None, kubelet("fd00::1"));
        assert_eq!(
            exempt.describe(),
            "DNS: port 53, 853 of 10.0.0.53, fe80::1 (/etc/resolv.conf); kubelet: port 10250; \
             API server: [fd00::1]:6443 (/kubelet.conf)"
        );
        let exempt = Exemptions::new("", None, Vec::new());
        assert!(exempt.describe().ends_with("API server: none known"));
        assert_eq!(exempt.names(), BTreeSet::new());
    }

    #[test]
    fn a_kubeconfig_that_says_nothing_exempts_nothing_and_is_told() {
        let silent = Kubeconfig {
            path: "/kubelet.conf".into(),
            servers: Err("permission denied".to_owned()),
        };
        let exempt = Exemptions::new("", None, vec![silent]);
        assert_eq!(shown(&exempt, &HashMap::new()), ["::/0:Some(10250)"]);
        assert_eq!(exempt.unread, ["/kubelet.conf: permission denied"]);
    }

    #[test]
    fn half_a_service_is_none() {
        assert_eq!(service(None, None), None);
        assert_eq!(service(Some("10.96.0.1"), None), None);
    }
}
