//! The policies in force, and how they are put in force.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::exempt::Exemptions;
use super::hosts::{self, Answers, Changes, Hosts};
use super::log;
use super::node::State;
use super::tree::Tree;
use super::workloads::{Place, place};
use crate::errors::{Exit, Failure, Result};
use crate::policy::Policy;
use crate::policy::schema::{Mode, Source, Spec};
use crate::policy::select::{CompileError, Table};

/// Name of the policy that applies where nobody wrote one.
const OBSERVE: &str = "observe";

/// What is in force.
pub struct InForce {
    /// As operators wrote them.
    pub policies: Vec<Policy>,
    /// As the kernel has them: [`Self::policies`] and the one that observes.
    /// A rule of the kernel is an index into these.
    pub effective: Vec<Policy>,
    /// The compiled form.
    pub table: Table,
    /// Host names that policies mention.
    pub hosts: Hosts,
    /// Who is never judged.
    pub exempt: Exemptions,
}

impl InForce {
    /// Nothing yet.
    pub fn none(exempt: Exemptions) -> Result<Self> {
        let places = exempt.places(&HashMap::new());
        let table = Table::compile(&[], &HashMap::new(), &places).map_err(too_much)?;
        Ok(Self {
            policies: Vec::new(),
            effective: Vec::new(),
            table,
            hosts: Hosts::default(),
            exempt,
        })
    }

    /// Policies compiled, with these addresses of hosts; not in force anywhere.
    #[cfg(test)]
    pub fn compiled(
        policies: Vec<Policy>,
        addresses: &HashMap<String, Vec<std::net::IpAddr>>,
    ) -> Result<Self> {
        let effective = observing(&policies);
        let table = Table::compile(&effective, addresses, &[]).map_err(too_much)?;
        Ok(Self {
            policies,
            effective,
            table,
            ..Self::none(Exemptions::default())?
        })
    }
}

/// The host names of these policies and of who is exempt.
pub fn host_names(policies: &[Policy], exempt: &Exemptions) -> BTreeSet<String> {
    let mut names = hosts::names(policies);
    names.extend(exempt.names());
    names
}

/// The policies, and below them one that only observes (I8): traffic that
/// nobody has written a policy for is seen, never judged.
fn observing(policies: &[Policy]) -> Vec<Policy> {
    let everywhere =
        |policy: &Policy| policy.spec.workloads.is_empty() && policy.spec.destinations.is_empty();
    let mut effective = policies.to_vec();
    if !policies.iter().any(everywhere) {
        effective.push(Policy {
            name: OBSERVE.to_owned(),
            spec: Spec {
                mode: Mode::Disabled,
                ..Spec::default()
            },
            source: Source::default(),
        });
    }
    effective
}

fn too_much(error: CompileError) -> Failure {
    Failure::new(Exit::Usage, "policies", error)
}

/// The class of every workload, by cgroup id.
fn classes(table: &mut Table, tree: &Tree) -> Result<HashMap<u64, u32>> {
    let mut classes = HashMap::new();
    for (id, node) in tree.iter() {
        if place(&node.path) == Place::Within(&node.path) {
            classes.insert(id, table.class_of(&node.path).map_err(too_much)?);
        }
    }
    Ok(classes)
}

impl State {
    /// Puts policies in force, with the present addresses of their hosts. On an
    /// error what was in force stays.
    pub fn put_in_force(&mut self, policies: Vec<Policy>) -> Result<()> {
        let effective = observing(&policies);
        let addresses = self.in_force.hosts.addresses();
        let places = self.in_force.exempt.places(&addresses);
        let table = Table::compile(&effective, &addresses, &places);
        let mut table = table.map_err(too_much)?;
        let classes = classes(&mut table, &self.cgroups.tree)?;
        self.governor.set_policy(&table, &classes)?;
        self.cgroups.classes_are(&classes);
        self.names.groups_are(table.groups());
        self.in_force.policies = policies;
        self.in_force.effective = effective;
        self.in_force.table = table;
        Ok(())
    }

    /// Takes up what resolvers said, and who is exempt, and puts it in force.
    pub fn hosts_are(&mut self, answers: Answers, exempt: Exemptions) -> (Changes, Result<()>) {
        let (changes, matters) = self.learn(answers, exempt);
        let applied = match matters {
            true => self.put_in_force(self.in_force.policies.clone()),
            false => Ok(()),
        };
        (changes, applied)
    }

    /// Takes it up for the next policy that is put in force: whether the one that is would be another by it.
    pub fn learn(&mut self, answers: Answers, exempt: Exemptions) -> (Changes, bool) {
        let changes = self.in_force.hosts.update(answers, Instant::now());
        let others = self.in_force.exempt != exempt;
        if others {
            log::say(format_args!(
                "never judged unless a policy names it: {}",
                exempt.describe()
            ));
            for unread in &exempt.unread {
                log::warn(format_args!(
                    "kubeconfig {unread} (calls to that API server are judged as others are)"
                ));
            }
            self.in_force.exempt = exempt;
        }
        let matters = changes.addresses || others;
        (changes, matters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<Policy> {
        crate::policy::parse(text, "test.yaml").unwrap()
    }

    const AUTH: &str = "
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: auth}
spec:
  destinations: [{name: auth, cidrs: [10.0.0.5/32], ports: [8080]}]
";

    #[test]
    fn without_a_policy_everything_is_observed_and_nothing_judged() {
        let effective = observing(&[]);
        assert_eq!(effective.len(), 1);
        assert_eq!(effective[0].spec.mode, Mode::Disabled);
        assert!(effective[0].spec.destinations.is_empty());
    }

    #[test]
    fn what_no_policy_names_is_observed_beside_policies() {
        let effective = observing(&named(AUTH));
        assert_eq!(
            effective
                .iter()
                .map(|p| p.name.as_str())
                .collect::<Vec<_>>(),
            ["auth", OBSERVE]
        );
    }

    #[test]
    fn a_policy_for_everything_leaves_nothing_to_observe() {
        let all = AUTH
            .lines()
            .filter(|line| !line.contains("destinations"))
            .collect::<Vec<_>>()
            .join("\n");
        let all = all.replace("spec:", "spec: {mode: Audit}");
        assert_eq!(observing(&named(&all)).len(), 1);
    }

    #[test]
    fn only_workloads_have_classes_not_their_leaves() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("system.slice/a.service/leaf")).unwrap();
        let tree = Tree::scan(root.path()).unwrap();
        let mut table = Table::compile(&observing(&[]), &HashMap::new(), &[]).unwrap();
        let classes = classes(&mut table, &tree).unwrap();
        assert_eq!(
            classes.into_iter().collect::<Vec<_>>(),
            [(tree.id_of("/system.slice/a.service").unwrap(), 0)]
        );
    }
}
