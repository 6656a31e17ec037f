//! Who is never judged unless a policy names it: the node must stay reachable
//! for whoever repairs it (I8). DNS (port 53) is exempt by the compiler itself.

use std::env;
use std::fs;
use std::net::IpAddr;

use crate::policy::prefix::Prefix;
use crate::policy::rules::Exempt;

/// The kubelet's API.
const KUBELET: u16 = 10250;
/// DNS over TLS.
const DNS_OVER_TLS: u16 = 853;

/// What is exempt on this node.
pub fn exemptions() -> Vec<Exempt> {
    let resolvers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let host = env::var("KUBERNETES_SERVICE_HOST").ok();
    let port = env::var("KUBERNETES_SERVICE_PORT").ok();
    list(&resolvers, api_server(host.as_deref(), port.as_deref()))
}

fn list(resolv_conf: &str, api_server: Option<(IpAddr, u16)>) -> Vec<Exempt> {
    let place = |address, port| Exempt {
        net: Prefix::host(address),
        port: Some(port),
    };
    // Only their DNS ports: a resolver is often the router, or this host, and
    // other services live there too.
    let resolvers = nameservers(resolv_conf).map(|resolver| place(resolver, DNS_OVER_TLS));
    let kubelet = Exempt {
        net: Prefix::ANY,
        port: Some(KUBELET),
    };
    let api_server = api_server.map(|(address, port)| place(address, port));
    resolvers.chain([kubelet]).chain(api_server).collect()
}

/// The API server, as the kubelet tells every pod.
fn api_server(host: Option<&str>, port: Option<&str>) -> Option<(IpAddr, u16)> {
    Some((host?.parse().ok()?, port?.parse().ok()?))
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

    #[test]
    fn resolvers_kubelet_and_api_server_are_exempt_and_nothing_else_is() {
        let conf = "# comment\nsearch x\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\n";
        let exempt = list(conf, api_server(Some("10.96.0.1"), Some("443")));
        let shown: Vec<_> = exempt
            .iter()
            .map(|e| format!("{}:{:?}", e.net, e.port))
            .collect();
        assert_eq!(
            shown,
            [
                "10.0.0.53/32:Some(853)",
                "fe80::1/128:Some(853)",
                "::/0:Some(10250)",
                "10.96.0.1/32:Some(443)"
            ]
        );
    }

    #[test]
    fn outside_of_kubernetes_there_is_no_api_server() {
        assert_eq!(api_server(None, None), None);
        assert_eq!(api_server(Some("kubernetes.default"), Some("443")), None);
    }
}
