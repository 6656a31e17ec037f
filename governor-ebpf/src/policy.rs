//! Which policy applies to an endpoint.

use governor_core::{
    cell::Cell as _,
    key::{Config, EXEMPT, EndpointKey, MAX_RULES, PortKey, RuleKey, RuleValue, Selection, plain},
    ledger::EndpointLedger,
    params::Params,
};

use crate::{
    caller::{self, Caller},
    cell::MapCell,
    maps::{CONFIG, PARAMS, PORTS, RULES, exact},
};

/// Index into `PARAMS` of a rule in the generation in force.
#[inline(always)]
pub const fn index(config: &Config, rule: u32) -> u32 {
    (config.generation & 1) * MAX_RULES + rule
}

/// The parameters at an index.
#[inline(always)]
pub fn params(index: u32) -> Option<&'static Params> {
    PARAMS.get(index)
}

/// The parameters an outcome is settled by: those its endpoint was last judged
/// by, else those its attempt was admitted under. A connection may outlive the
/// policy it was made under, and two generations later its place is another's.
#[inline(always)]
pub fn settling(endpoint: &EndpointLedger<MapCell>, admitted: u32) -> Option<&'static Params> {
    let current = match CONFIG.get(0) {
        Some(config) => match Selection::last(endpoint, config.generation) {
            Some(rule) if rule != EXEMPT => index(config, rule),
            _ => admitted,
        },
        None => admitted,
    };
    params(current)
}

/// The rule for a request on a connection that was made before: what its
/// endpoint was judged by in this generation, else a search with the class its
/// workload has now.
#[inline(always)]
pub fn of_request(config: &Config, key: &EndpointKey, endpoint: &EndpointLedger<MapCell>) -> u32 {
    match Selection::last(endpoint, config.generation) {
        Some(rule) => rule,
        None => select(
            config,
            &caller::of_workload(config, key.workload),
            key,
            endpoint,
        ),
    }
}

/// The rule for an endpoint: what it keeps from before, or a search of the trie
/// once per policy generation and class. [`EXEMPT`] where no rule applies.
#[inline(always)]
pub fn select(
    config: &Config,
    caller: &Caller,
    key: &EndpointKey,
    endpoint: &EndpointLedger<MapCell>,
) -> u32 {
    if let Some(rule) = Selection::kept(endpoint, config.generation, caller.class) {
        return rule;
    }
    let found = search(config, caller, key);
    endpoint.group.store(found.group as u64);
    Selection {
        generation: config.generation,
        class: caller.class,
        rule: found.rule,
    }
    .keep(endpoint);
    found.rule
}

#[inline(never)]
fn search(config: &Config, caller: &Caller, key: &EndpointKey) -> RuleValue {
    let parity = config.generation & 1;
    let address = plain(key.address);
    // SAFETY: the daemon replaces entries as a whole.
    let port_class = match unsafe {
        PORTS.get(PortKey {
            parity,
            port: key.port,
        })
    } {
        Some(class) => *class,
        None => 0,
    };
    if caller.class != 0
        && let Some(found) = RULES.get(exact(RuleKey::new(
            parity,
            caller.class,
            port_class,
            address,
        )))
    {
        return *found;
    }
    match RULES.get(exact(RuleKey::new(parity, 0, port_class, address))) {
        Some(found) => *found,
        None => RuleValue {
            rule: EXEMPT,
            group: 0,
        },
    }
}
