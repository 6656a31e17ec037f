//! The compiled tables against a matcher that just does what docs/policy.md says.

use std::collections::HashMap;
use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;

use super::arbitrary::{self, PORTS};
use super::parse;
use super::prefix::Prefix;
use super::rules::{EXEMPT, Exempt, Target};
use super::schema::Policy;
use super::select::Table;

fn hosts() -> HashMap<String, Vec<IpAddr>> {
    let to = |addrs: &[&str]| addrs.iter().map(|addr| addr.parse().unwrap()).collect();
    HashMap::from([
        ("a.internal".to_owned(), to(&["10.0.0.1", "fd00:8::1"])),
        ("b.internal".to_owned(), to(&["10.0.0.1", "192.0.2.1"])),
    ])
}

fn exempt() -> Vec<Exempt> {
    let net = |net: &str| net.parse::<ipnet::IpNet>().unwrap().into();
    let place = |addr, port| Exempt {
        net: net(addr),
        port,
    };
    vec![
        place("10.0.0.2/32", None),
        place("fd00:8::1/128", Some(443)),
        place("10.0.0.0/24", Some(10250)),
    ]
}

/// One attempt.
#[derive(Debug, Clone)]
struct Attempt {
    cgroup: &'static str,
    addr: IpAddr,
    port: u16,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let cgroups = vec![
        "/a.slice/q",
        "/a.slice/xq",
        "/a.slice/xy",
        "/a.slice/xy/sub",
        "/b.slice/1/2",
        "/c",
    ];
    let addrs = vec![
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
        "10.1.0.1",
        "10.2.0.1",
        "192.0.2.1",
        "198.51.100.1",
        "fd00:8::1",
        "fd00:8::2",
        "fd01::1",
        "2001:db8::1",
    ];
    let ports: Vec<u16> = PORTS.into_iter().chain([9999]).collect();
    (select(cgroups), select(addrs), select(ports)).prop_map(|(cgroup, addr, port)| Attempt {
        cgroup,
        addr: addr.parse().unwrap(),
        port,
    })
}

fn lookup(table: &mut Table, attempt: &Attempt) -> Option<Target> {
    let class = table.class_of(attempt.cgroup).unwrap();
    let port_class = table
        .port_classes()
        .get(&attempt.port)
        .copied()
        .unwrap_or(0);
    let addr = Prefix::host(attempt.addr);
    let longest = |class| {
        table
            .entries_of(class)
            .filter(|e| e.port_class == port_class && e.prefix.covers(addr))
            .max_by_key(|e| e.prefix.len())
            .map(|e| e.target)
    };
    longest(class).or_else(|| longest(0))
}

/// The rule (policy, destination label) that docs/policy.md picks.
fn reference(policies: &[Policy], attempt: &Attempt) -> Option<(u32, Option<String>)> {
    let hosts = hosts();
    let addr = Prefix::host(attempt.addr);
    let exempt = attempt.port == 53
        || exempt()
            .iter()
            .any(|e| e.net.covers(addr) && e.port.is_none_or(|p| p == attempt.port));
    let mut best = None;
    let mut offer = |strength: (bool, u8, bool, bool), rule, label: Option<String>| {
        // Strictly stronger: in a draw the first in file order stays.
        if best.as_ref().is_none_or(|(held, _)| strength > *held) {
            best = Some((strength, (rule, label)));
        }
    };
    for (policy, rule) in policies.iter().zip(0u32..) {
        let spec = &policy.spec;
        let named = !spec.workloads.is_empty();
        let globs = spec.workloads.iter().map(|w| w.cgroup.as_str());
        if named && !globs.into_iter().any(|glob| selects(glob, attempt.cgroup)) {
            continue;
        }
        if spec.destinations.is_empty() && !exempt {
            offer((named, 0, false, false), rule, None);
        }
        for d in &spec.destinations {
            if !d.ports.is_empty() && !d.ports.contains(&attempt.port) {
                continue;
            }
            let nets = d.cidrs.iter().map(|net| Prefix::from(*net));
            let resolved = d.hosts.iter().flat_map(|h| hosts.get(h)).flatten();
            let places = nets.chain(resolved.map(|a| Prefix::host(*a)));
            let any = d.cidrs.is_empty() && d.hosts.is_empty();
            let lens = places.filter(|p| p.covers(addr)).map(|p| p.len());
            if let Some(len) = lens.chain(any.then_some(0)).max() {
                offer(
                    (named, len, !d.ports.is_empty(), true),
                    rule,
                    Some(d.label()),
                );
            }
        }
    }
    best.map(|(_, found)| found)
        .or(exempt.then_some((EXEMPT, None)))
}

/// The globs of the generator, by hand.
fn selects(glob: &str, cgroup: &str) -> bool {
    match glob {
        "/" => true,
        "/a.slice/*" => cgroup.starts_with("/a.slice/"),
        "/a.slice/x*" => cgroup.starts_with("/a.slice/x"),
        "/a.slice/xy" => cgroup == "/a.slice/xy" || cgroup.starts_with("/a.slice/xy/"),
        "/b.slice/**" => cgroup.starts_with("/b.slice/"),
        other => panic!("{other} is not a glob of the generator"),
    }
}

fn found(table: &Table, target: Target) -> (u32, Option<String>) {
    let group = table.groups().get(&target.group);
    assert_eq!(group.is_none(), target.group == 0);
    (target.rule, group.map(|group| group.name.clone()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_tables_pick_what_the_document_picks(
        policies in arbitrary::policies(),
        attempts in proptest::collection::vec(attempt(), 1..20),
    ) {
        let mut table = Table::compile(&policies, &hosts(), &exempt()).unwrap();
        for attempt in attempts {
            let picked = lookup(&mut table, &attempt).map(|target| found(&table, target));
            prop_assert_eq!(picked, reference(&policies, &attempt), "{:?}", attempt);
        }
    }
}

fn policies(specs: &[(&str, &str)]) -> Vec<Policy> {
    let document = |(name, spec): &(&str, &str)| {
        format!(
            "---\napiVersion: governor.dev/v1alpha1\nkind: RetryPolicy\n\
             metadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    parse(&specs.iter().map(document).collect::<String>(), "t.yaml").unwrap()
}

/// The policy that judges, by name.
fn judge(specs: &[(&str, &str)], cgroup: &'static str, addr: &str, port: u16) -> String {
    let policies = policies(specs);
    let mut table = Table::compile(&policies, &hosts(), &exempt()).unwrap();
    let addr = addr.parse().unwrap();
    match lookup(&mut table, &Attempt { cgroup, addr, port }) {
        None => "none".to_owned(),
        Some(Target { rule: EXEMPT, .. }) => "exempt".to_owned(),
        Some(target) => policies[target.rule as usize].name.clone(),
    }
}

const ALL: (&str, &str) = ("all", "{}");
const MINE: (&str, &str) = ("mine", "{workloads: [{cgroup: /a.slice/*}]}");
const NET: (&str, &str) = ("net", "{destinations: [{cidrs: [10.0.0.0/8]}]}");
const PORT: (&str, &str) = ("port", "{destinations: [{ports: [80]}]}");

#[test]
fn a_named_workload_is_stronger_than_a_longer_prefix() {
    assert_eq!(
        judge(&[ALL, NET, MINE], "/a.slice/x", "10.1.1.1", 80),
        "mine"
    );
    assert_eq!(judge(&[ALL, NET, MINE], "/c", "10.1.1.1", 80), "net");
    assert_eq!(judge(&[ALL, NET, MINE], "/c", "11.1.1.1", 80), "all");
}

#[test]
fn a_longer_prefix_is_stronger_than_a_port() {
    assert_eq!(judge(&[PORT, NET], "/c", "10.1.1.1", 80), "net");
    assert_eq!(judge(&[PORT, NET], "/c", "11.1.1.1", 80), "port");
    assert_eq!(judge(&[PORT, NET], "/c", "11.1.1.1", 81), "none");
}

#[test]
fn a_port_decides_between_equal_prefixes() {
    let both = (
        "both",
        "{destinations: [{cidrs: [10.0.0.0/8], ports: [80]}]}",
    );
    assert_eq!(judge(&[NET, both], "/c", "10.1.1.1", 80), "both");
    assert_eq!(judge(&[NET, both], "/c", "10.1.1.1", 81), "net");
}

#[test]
fn the_file_order_decides_between_different_globs() {
    let first = ("first", "{workloads: [{cgroup: /a.slice/x*}]}");
    assert_eq!(
        judge(&[first, MINE], "/a.slice/xy", "10.1.1.1", 80),
        "first"
    );
    assert_eq!(judge(&[MINE, first], "/a.slice/xy", "10.1.1.1", 80), "mine");
}

#[test]
fn dns_is_judged_only_where_a_policy_names_it() {
    assert_eq!(judge(&[ALL, MINE], "/a.slice/x", "11.1.1.1", 53), "exempt");
    assert_eq!(judge(&[NET, MINE], "/a.slice/x", "10.1.1.1", 53), "net");
    let dns = ("dns", "{destinations: [{ports: [53]}]}");
    assert_eq!(judge(&[ALL, dns], "/c", "11.1.1.1", 53), "dns");
}

#[test]
fn what_the_caller_exempts_is_judged_only_where_a_policy_names_it() {
    assert_eq!(judge(&[ALL, MINE], "/a.slice/x", "10.0.0.2", 80), "exempt");
    assert_eq!(judge(&[ALL, MINE], "/a.slice/x", "10.0.0.3", 80), "mine");
    assert_eq!(judge(&[ALL, NET], "/c", "10.0.0.2", 80), "net");
}

#[test]
fn a_host_without_addresses_matches_nothing() {
    let gone = (
        "gone",
        "{destinations: [{hosts: [gone.internal], ports: [80]}]}",
    );
    assert_eq!(judge(&[gone], "/c", "10.1.1.1", 80), "none");
    let host = ("host", "{destinations: [{hosts: [a.internal]}]}");
    assert_eq!(judge(&[gone, NET, host], "/c", "10.0.0.1", 80), "host");
}

#[test]
fn a_group_keeps_its_id_when_policies_are_added_and_moved() {
    let table = |specs: &[_]| Table::compile(&policies(specs), &hosts(), &[]).unwrap();
    let before = table(&[NET, PORT]);
    let after = table(&[ALL, PORT, NET]);
    assert_eq!(before.groups(), after.groups());
    assert_eq!(before.groups().len(), 2);
}

#[test]
fn ports_that_the_same_rules_name_share_a_class() {
    let rule = (
        "rule",
        "{destinations: [{cidrs: [10.0.0.0/8], ports: [1, 2, 3]}]}",
    );
    let table = Table::compile(&policies(&[rule]), &hosts(), &[]).unwrap();
    let classes = table.port_classes();
    assert_eq!(classes[&1], classes[&3]);
    assert_ne!(classes[&1], classes[&53]);
    assert_eq!(table.entries().filter(|e| e.target.rule == 0).count(), 1);
}

#[test]
fn a_key_counts_class_and_port_class() {
    let table = Table::compile(&policies(&[NET]), &hosts(), &[]).unwrap();
    let entry = table.entries().find(|e| e.target.rule == 0).unwrap();
    assert_eq!(entry.key_bits(), 64 + 96 + 8);
}

#[test]
fn too_many_entries_are_refused() {
    // Each network without ports has an entry in each of 2,000 port classes.
    let nets: Vec<_> = (0..256).map(|i| format!("10.0.{i}.0/24")).collect();
    let nets = format!("{{cidrs: [{}]}}", nets.join(","));
    let ports: Vec<_> = (1000..3000).map(|p| format!("{{ports: [{p}]}}")).collect();
    let spec = format!("{{destinations: [{nets}, {}]}}", ports.join(","));
    let error = Table::compile(&policies(&[("many", &spec)]), &hosts(), &[]).err();
    let line = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        line.starts_with("too many policies: they make more than 262144"),
        "{line}"
    );
}
