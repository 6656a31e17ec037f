//! Host names of policies, followed as their addresses change.
//!
//! The last good answer stays when resolving fails: an outage of DNS must not
//! let go of the destinations it has named. An address that is no longer
//! answered stays for a minute, because callers keep theirs too, and because
//! large services answer with another few of many addresses each time.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::policy::Policy;

/// How often names are resolved.
pub const EVERY: Duration = Duration::from_secs(10);
/// How long resolving one name may take.
const WITHIN: Duration = Duration::from_secs(5);
/// How long an address stays after it was last answered.
const LINGER: Duration = Duration::from_secs(60);

/// The names that policies mention.
pub fn names(policies: &[Policy]) -> BTreeSet<String> {
    let destinations = policies.iter().flat_map(|policy| &policy.spec.destinations);
    destinations
        .flat_map(|destination| &destination.hosts)
        .cloned()
        .collect()
}

/// What a resolver said, by name.
pub type Answers = Vec<(String, Result<Vec<IpAddr>, String>)>;

/// Asks for every name at once.
pub async fn resolve(names: BTreeSet<String>) -> Answers {
    futures_util::future::join_all(names.into_iter().map(async |name| {
        let asked = tokio::time::timeout(WITHIN, tokio::net::lookup_host((name.as_str(), 0)));
        let answer = match asked.await {
            Err(_) => Err(format!("no answer within {}s", WITHIN.as_secs())),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(addresses)) => Ok(addresses.map(|address| address.ip()).collect()),
        };
        (name, answer)
    }))
    .await
}

/// What is known of every name.
#[derive(Debug, Default)]
pub struct Hosts {
    known: HashMap<String, Host>,
}

#[derive(Debug, Default)]
struct Host {
    /// Each address and when it was last answered.
    addresses: HashMap<IpAddr, Instant>,
    failing: bool,
}

/// What answers changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Addresses came or went: the policy has to be applied anew.
    pub addresses: bool,
    /// Lines for the log: names that began to fail, or work again.
    pub lines: Vec<String>,
}

impl Hosts {
    /// Takes up answers that came at `now`; what was not asked for is forgotten.
    pub fn update(&mut self, answers: Answers, now: Instant) -> Changes {
        let before = self.addresses();
        let mut lines = Vec::new();
        self.known
            .retain(|name, _| answers.iter().any(|(asked, _)| asked == name));
        for (name, answer) in answers {
            let host = self.known.entry(name.clone()).or_default();
            let failed_before = std::mem::replace(&mut host.failing, answer.is_err());
            match answer {
                Ok(addresses) => {
                    host.addresses
                        .extend(addresses.into_iter().map(|address| (address, now)));
                    host.addresses
                        .retain(|_, seen| now.duration_since(*seen) < LINGER);
                    if failed_before {
                        lines.push(format!("host {name}: resolved again"));
                    }
                }
                Err(why) if !failed_before => lines.push(match host.addresses.len() {
                    0 => format!("host {name}: {why} (matches nothing until it resolves)"),
                    known => format!("host {name}: {why} (its {known} known addresses stay)"),
                }),
                Err(_) => {}
            }
        }
        Changes {
            addresses: self.addresses() != before,
            lines,
        }
    }

    /// Present addresses by name, for the compiler of policies.
    pub fn addresses(&self) -> HashMap<String, Vec<IpAddr>> {
        let sorted = |host: &Host| {
            let addresses: BTreeSet<_> = host.addresses.keys().copied().collect();
            addresses.into_iter().collect()
        };
        self.known
            .iter()
            .map(|(name, host)| (name.clone(), sorted(host)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(addresses: &[&str]) -> Answers {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        vec![("auth.internal".to_owned(), Ok(addresses))]
    }

    fn failure() -> Answers {
        vec![("auth.internal".to_owned(), Err("no such host".to_owned()))]
    }

    fn known(hosts: &Hosts) -> Vec<String> {
        hosts.addresses()["auth.internal"]
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_last_good_answer_stays_when_resolving_fails_and_it_is_said_once() {
        let (mut hosts, start) = (Hosts::default(), Instant::now());
        assert!(hosts.update(answers(&["10.0.0.1"]), start).addresses);
        let failed = hosts.update(failure(), start + LINGER * 10);
        assert_eq!(
            failed.lines,
            ["host auth.internal: no such host (its 1 known addresses stay)"]
        );
        assert!(!failed.addresses);
        assert_eq!(
            hosts.update(failure(), start + LINGER * 11),
            Changes::default()
        );
        assert_eq!(known(&hosts), ["10.0.0.1"]);
    }

    #[test]
    fn an_address_that_is_no_longer_answered_stays_for_a_minute() {
        let (mut hosts, start) = (Hosts::default(), Instant::now());
        hosts.update(answers(&["10.0.0.1"]), start);
        assert!(
            hosts
                .update(answers(&["10.0.0.2"]), start + EVERY)
                .addresses
        );
        assert_eq!(known(&hosts), ["10.0.0.1", "10.0.0.2"]);
        assert!(
            hosts
                .update(answers(&["10.0.0.2"]), start + LINGER)
                .addresses
        );
        assert_eq!(known(&hosts), ["10.0.0.2"]);
    }

    #[test]
    fn the_same_answer_in_another_order_changes_nothing() {
        let (mut hosts, start) = (Hosts::default(), Instant::now());
        hosts.update(answers(&["10.0.0.1", "10.0.0.2"]), start);
        assert_eq!(
            hosts.update(answers(&["10.0.0.2", "10.0.0.1"]), start + EVERY),
            Changes::default()
        );
    }

    #[test]
    fn a_name_that_no_policy_mentions_any_more_is_forgotten() {
        let mut hosts = Hosts::default();
        hosts.update(answers(&["10.0.0.1"]), Instant::now());
        assert!(hosts.update(Vec::new(), Instant::now()).addresses);
        assert!(hosts.addresses().is_empty());
    }
}
