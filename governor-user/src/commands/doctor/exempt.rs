//! Who is never judged unless a policy names it, and what that is known from (I8).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use super::check::Check;
use crate::client::block_on;
use crate::daemon::exempt::{Exemptions, SERVICE};
use crate::daemon::hosts;

const CHECK: &str = "exempt";

/// As `run` would find it.
pub fn check(kubeconfig: Option<&Path>) -> Check {
    let exempt = Exemptions::of_this_node(kubeconfig);
    let asked = block_on(async { Ok(hosts::resolve(exempt.names()).await) });
    judge(&exempt, asked.unwrap_or_default().into_iter().collect())
}

/// With what resolvers said, by name.
fn judge(exempt: &Exemptions, answers: HashMap<String, Result<Vec<IpAddr>, String>>) -> Check {
    let mut gaps = exempt.unread.clone();
    for name in exempt.names() {
        if let Some(Err(why)) = answers.get(&name) {
            gaps.push(format!("{name}: {why}"));
        }
    }
    let mut found = exempt.describe();
    for gap in &gaps {
        found = format!("{found}; {gap}");
    }
    let at_service = exempt.api_servers.iter().any(|api| api.source == SERVICE);
    if !gaps.is_empty() {
        return Check::degraded(
            CHECK,
            found,
            "calls to that API server are judged as others are",
        );
    }
    match exempt.api_servers.is_empty() || at_service {
        true => Check::ok(CHECK, found),
        false => Check::degraded(
            CHECK,
            found,
            format!(
                "pods call it at its service address, and these calls are judged: give `run` \
                 {SERVICE} and KUBERNETES_SERVICE_PORT"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;
    use crate::daemon::exempt::ApiServer;
    use crate::daemon::kubeconfig::Server;

    fn known(from: &[(&str, &str)]) -> Exemptions {
        let api = |(host, source): &(&str, &str)| ApiServer {
            server: Server {
                host: (*host).to_owned(),
                port: 6443,
            },
            source: (*source).to_owned(),
        };
        Exemptions {
            api_servers: from.iter().map(api).collect(),
            ..Exemptions::default()
        }
    }

    #[test]
    fn a_node_of_no_cluster_lacks_nothing() {
        assert_eq!(judge(&known(&[]), HashMap::new()).state, State::Ok);
    }

    #[test]
    fn the_address_that_pods_call_is_missed_where_only_the_kubelets_is_known() {
        let kubelet = ("10.0.0.1", "/etc/kubernetes/kubelet.conf");
        let half = judge(&known(&[kubelet]), HashMap::new());
        assert_eq!(half.state, State::Degraded);
        assert!(half.found.contains("10.0.0.1:6443 (/etc/"), "{half:?}");
        let both = known(&[kubelet, ("10.96.0.1", SERVICE)]);
        assert_eq!(judge(&both, HashMap::new()).state, State::Ok);
    }

    #[test]
    fn a_name_without_an_address_and_a_file_that_says_nothing_are_told() {
        let named = known(&[("api.internal", SERVICE)]);
        let answer = |answer| HashMap::from([("api.internal".to_owned(), answer)]);
        let found = answer(Ok(vec!["10.0.0.1".parse().unwrap()]));
        assert_eq!(judge(&named, found).state, State::Ok);
        let failed = judge(&named, answer(Err("no such host".to_owned())));
        assert_eq!(failed.state, State::Degraded);
        assert!(
            failed.found.ends_with("; api.internal: no such host"),
            "{failed:?}"
        );
        let unread = Exemptions {
            unread: vec!["/kubelet.conf: permission denied".to_owned()],
            ..Exemptions::default()
        };
        assert_eq!(judge(&unread, HashMap::new()).state, State::Degraded);
    }
}
