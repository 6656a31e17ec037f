//! Where requests can be refused and delayed, and who else is there. Nothing is
//! attached for it: what `--interface auto` would do is worked out.

use std::collections::HashMap;

use super::UNNAMED;
use super::check::Check;
use crate::interfaces::choice::{By, Scope, choose};
use crate::interfaces::device::{Layer, Link};
use crate::interfaces::governed::list;
use crate::interfaces::netlink;
use crate::interfaces::pacing::paced;
use crate::kernel::{ActHook, Method, at_device};

/// Names of checks.
const INTERFACES: &str = "interfaces";
const PACING: &str = "pacing";
const CLASSIFIERS: &str = "classifiers";

/// Three lines; programs of others have these names, by id.
pub fn checks(programs: &HashMap<u32, String>) -> Vec<Check> {
    match netlink::links() {
        Ok(links) => vec![reach(&links), pacing(&links), others(&links, programs)],
        Err(error) => vec![Check::missing(
            INTERFACES,
            format!("can't be listed: {}", error.kind()),
            "CONFIG_NET; connects are governed without",
        )],
    }
}

fn names(links: &[&Link]) -> String {
    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    list(&names)
}

fn governed(links: &[Link]) -> Vec<&Link> {
    let governed = |link: &&Link| choose(link, Scope::Node, By::Auto).is_ok();
    links.iter().filter(governed).collect()
}

fn reach(links: &[Link]) -> Check {
    let governed = governed(links);
    let passed = |link: &Link| {
        Some((
            link.name.clone(),
            choose(link, Scope::Node, By::Auto).err()?,
        ))
    };
    let passed: Vec<_> = links.iter().filter_map(passed).collect();
    let said = |gap: bool| -> Vec<String> {
        let passed = passed.iter().filter(|(_, why)| why.is_a_gap() == gap);
        passed
            .map(|(name, why)| format!("{name} {}", why.words()))
            .collect()
    };
    let (quiet, gaps) = (said(false), said(true));
    let mut found = match governed.as_slice() {
        [] => "none is up".to_owned(),
        governed => format!("{} by {}", names(governed), method()),
    };
    for (what, list_of) in [("not needed", &quiet), ("out of reach", &gaps)] {
        if !list_of.is_empty() {
            found = format!("{found}; {what}: {}", list(list_of));
        }
    }
    match (governed.is_empty(), gaps.is_empty()) {
        (false, true) => Check::ok(INTERFACES, found),
        _ => Check::degraded(
            INTERFACES,
            found,
            "requests that leave elsewhere are counted, and only their connects refused",
        ),
    }
}

fn method() -> &'static str {
    match Method::of_this_kernel() {
        Method::Tcx => "TCX",
        Method::Clsact => "clsact",
    }
}

fn pacing(links: &[Link]) -> Check {
    let qdiscs = netlink::qdiscs().unwrap_or_default();
    let paced = paced(links, &qdiscs, &netlink::uplinks());
    let (with, without): (Vec<_>, Vec<_>) = governed(links)
        .into_iter()
        .filter(|link| link.layer != Layer::Loopback)
        .partition(|link| paced.contains(&link.index));
    let lost =
        "an admitted retry is not delayed there; `tc qdisc replace dev NAME root fq` brings it";
    match (with.as_slice(), without.as_slice()) {
        ([], []) => Check::ok(PACING, "nothing leaves this machine"),
        (with, []) => Check::ok(PACING, format!("fq: {}", names(with))),
        ([], without) => Check::degraded(PACING, format!("no fq: {}", names(without)), lost),
        (with, without) => {
            let found = format!("fq: {}; no fq: {}", names(with), names(without));
            Check::degraded(PACING, found, lost)
        }
    }
}

/// Other programs at the traffic control of the devices: ours come first and let
/// everything on to them.
fn others(links: &[Link], programs: &HashMap<u32, String>) -> Check {
    let mut found = Vec::new();
    for link in governed(links) {
        for hook in ActHook::ALL {
            let direction = match hook {
                ActHook::Egress => "egress",
                ActHook::Ingress => "ingress",
            };
            // A kernel that does not know this way has nobody there.
            let linked = at_device(link.index, hook.direction()).unwrap_or_default();
            let name = |id: u32| programs.get(&id).map_or(UNNAMED, String::as_str).to_owned();
            let linked = linked.into_iter().map(|id| (name(id), id));
            let filters = netlink::filters(link.index, hook.parent()).unwrap_or_default();
            let filters = filters
                .into_iter()
                .map(|filter| (filter.name, filter.program));
            for (name, id) in linked.chain(filters) {
                if !ActHook::ALL
                    .iter()
                    .any(|ours| name.starts_with(ours.name()))
                {
                    found.push(format!("{name} (id {id}) at {} {direction}", link.name));
                }
            }
        }
    }
    match found.is_empty() {
        true => Check::ok(CLASSIFIERS, "no other program is attached to an interface"),
        false => Check::ok(
            CLASSIFIERS,
            format!("{}: they run after ours", list(&found)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    fn up(index: u32, name: &str, layer: Layer) -> Link {
        Link {
            up: true,
            ..Link::named(index, name, layer)
        }
    }

    #[test]
    fn what_is_out_of_reach_is_told_with_its_reason() {
        let links = [
            up(1, "lo", Layer::Loopback),
            Link::named(2, "eth1", Layer::Ethernet),
            up(3, "wg0", Layer::Other),
        ];
        let all = reach(&links);
        assert_eq!(all.state, State::Degraded);
        assert!(all.found.starts_with("lo by "), "{}", all.found);
        assert!(
            all.found.contains("not needed: eth1 is down"),
            "{}",
            all.found
        );
        let gap = "out of reach: wg0 has no Ethernet header";
        assert!(all.found.ends_with(gap), "{}", all.found);
        assert_eq!(reach(&links[..2]).state, State::Ok);
        assert_eq!(reach(&links[1..2]).state, State::Degraded);
    }
}
