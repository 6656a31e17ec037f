//! What is ordered now, as it is shown.

use governor_core::key::OrderKey;
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;
use serde::{Deserialize, Serialize};

use super::eventlog::{beside_now, rfc3339};
use super::node::Node;
use super::operators::{DETACHED, Declined, EVERYONE, NOTHING, time_of};
use super::orders::Hold;
use super::restores::Watches;
use super::retriesshown::RetriesShown;
use super::scope::{ANYWHERE, Scope};
use crate::kernel::now;
use crate::status::Names;

/// `GET /v1/orders`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderList {
    /// Orders that are not over.
    pub orders: Vec<OrderShown>,
}

/// One order, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderShown {
    /// The destination; absent: every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The workload; absent: every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Why nothing is refused there; absent: it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Retries off, or returning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetriesShown>,
    /// Load shed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shed: Option<ShedShown>,
    /// A breaker that is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerShown>,
}

/// Load shed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShedShown {
    /// Percent refused.
    pub percent: f64,
    /// Only retries.
    pub retries_only: bool,
    /// Until when.
    pub expires_at: String,
}

/// A breaker that is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerShown {
    /// How.
    pub state: Hold,
    /// Until when.
    pub expires_at: String,
}

/// An order as it is shown at `now`; `None` where nothing is left of it.
fn shown(
    names: &Names<'_>,
    watches: &Watches,
    (key, order): &(OrderKey, Order),
    node: &Order,
    now: Nanos,
) -> Option<OrderShown> {
    let at = |nanos| rfc3339(time_of(Nanos(nanos)));
    let retries = RetriesShown::new(order, watches.get(key), names, now);
    let retries = retries.map(|retries| retries.under(node, now));
    let shed = (now.0 < order.shed_until).then(|| ShedShown {
        percent: f64::from(order.shed_share) / 100.0,
        retries_only: order.shed_retries_only != 0,
        expires_at: at(order.shed_until),
    });
    let state = match order.held(now) {
        hold::OPEN => Some(Hold::Open),
        hold::CLOSED => Some(Hold::Closed),
        _ => None,
    };
    let breaker = state.map(|state| BreakerShown {
        state,
        expires_at: at(order.hold_until),
    });
    let nothing = retries.is_none() && shed.is_none() && breaker.is_none();
    (!nothing).then(|| OrderShown {
        destination: (key.destination != ANYWHERE).then(|| names.destination(&key.destination)),
        workload: (key.workload != 0).then(|| names.workload(key.workload)),
        caveat: names.caveats.get(key).cloned(),
        retries,
        shed,
        breaker,
    })
}

impl Node {
    /// What is ordered now.
    pub fn orders(&self) -> OrderList {
        let attached = self.not_attached().is_empty();
        let state = self.state();
        let names = state.names.shown(&state.in_force.effective);
        let mut orders = list(
            &state.governor.orders(),
            &names,
            &state.restores.watches,
            now(),
        );
        for order in &mut orders {
            if attached && order.caveat.is_some() {
                continue;
            }
            let scope = Scope::find(
                order.destination.as_deref(),
                order.workload.as_deref(),
                &state.names,
                &state.in_force,
            );
            let caveat = match attached {
                true => scope.map_or(String::new(), |scope| scope.caveat),
                false => DETACHED.to_owned(),
            };
            order.caveat = Some(caveat).filter(|caveat| !caveat.is_empty());
        }
        OrderList { orders }
    }

    /// What is ordered now that concerns a destination.
    pub fn orders_of(&self, name: &str) -> Result<OrderList, Declined> {
        let found = self.scope(Some(name), None);
        concerning(self.orders(), name, found.map(|scope| scope.destination))
    }
}

/// The orders of a list that concern a destination, by the name that was given or the one it is
/// `found` to have. One that nobody knows is refused, unless an order stands under its name.
fn concerning(
    mut list: OrderList,
    name: &str,
    found: Result<Option<String>, Declined>,
) -> Result<OrderList, Declined> {
    let at = |order: &OrderShown, name: Option<&str>| order.destination.as_deref() == name;
    let known = match found {
        Ok(known) => known,
        Err(why) if !list.orders.iter().any(|order| at(order, Some(name))) => return Err(why),
        Err(_) => None,
    };
    list.orders
        .retain(|order| at(order, None) || at(order, Some(name)) || at(order, known.as_deref()));
    Ok(list)
}

/// Orders as they are shown at `now`: those for every destination first.
pub fn list(
    orders: &[(OrderKey, Order)],
    names: &Names<'_>,
    watches: &Watches,
    now: Nanos,
) -> Vec<OrderShown> {
    let node = node_wide(orders);
    let mut shown: Vec<_> = orders
        .iter()
        .filter_map(|order| shown(names, watches, order, &node, now))
        .collect();
    shown.sort_by(|a, b| (&a.destination, &a.workload).cmp(&(&b.destination, &b.workload)));
    shown
}

/// What is ordered for the whole node.
pub fn node_wide(orders: &[(OrderKey, Order)]) -> Order {
    let node = orders.iter().find(|(key, _)| *key == EVERYONE);
    node.map_or(NOTHING, |(_, order)| *order)
}

impl OrderShown {
    /// What is ordered, one line for each order.
    pub fn in_words(&self) -> Vec<String> {
        let scope = self.scope();
        let caveat = self.caveat.as_deref().unwrap_or("");
        let shed = self.shed.as_ref().map(|shed| {
            let what = if shed.retries_only {
                "retries"
            } else {
                "attempts"
            };
            let (percent, until) = (shed.percent, &shed.expires_at);
            format!(
                "{percent} % of {what} to {scope} are shed until {}{caveat}",
                beside_now(until)
            )
        });
        let breaker = self.breaker.as_ref().map(|breaker| {
            let how = match breaker.state {
                Hold::Open => "open",
                Hold::Closed | Hold::Auto => "closed",
            };
            format!(
                "breakers of {scope} are held {how} until {}{caveat}",
                beside_now(&breaker.expires_at)
            )
        });
        [self.retries_in_words(), shed, breaker]
            .into_iter()
            .flatten()
            .collect()
    }

    /// What is ordered about retries.
    pub fn retries_in_words(&self) -> Option<String> {
        let retries = self.retries.as_ref()?;
        let caveat = self.caveat.as_deref().unwrap_or("");
        Some(retries.in_words(&self.scope()) + caveat)
    }

    fn scope(&self) -> String {
        let destination = match &self.destination {
            None => "every destination".to_owned(),
            Some(name) => format!("destination {name}"),
        };
        match &self.workload {
            None => destination,
            Some(workload) => format!("{destination} by {workload}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::scope::ANYWHERE;
    use crate::policy::rules::Group;
    use governor_core::key::DestinationKey;
    use std::collections::HashMap;

    #[test]
    fn an_order_is_shown_with_what_is_left_of_it() {
        let auth = Group {
            policy: "p".to_owned(),
            name: "auth".to_owned(),
        };
        let names = Names {
            groups: &[(7, auth)].into(),
            workloads: &HashMap::new(),
            policies: &[],
            caveats: &HashMap::new(),
        };
        let key = OrderKey {
            workload: 0,
            destination: DestinationKey {
                group: 7,
                ..ANYWHERE
            },
        };
        let now = now();
        let later = now.0 + 60_000_000_000;
        let order = Order {
            shed_until: later,
            shed_share: 3_050,
            hold: hold::OPEN,
            hold_until: now.0,
            ..NOTHING
        };
        let none = Watches::default();
        let shown_now = shown(&names, &none, &(key, order), &NOTHING, now).unwrap();
        assert_eq!(shown_now.destination.as_deref(), Some("auth"));
        assert_eq!(shown_now.shed.as_ref().map(|shed| shed.percent), Some(30.5));
        assert_eq!((&shown_now.breaker, &shown_now.retries), (&None, &None));
        let words = shown_now.in_words();
        assert!(
            words[0].starts_with("30.5 % of attempts to destination auth are shed until 2"),
            "{words:?}"
        );
        assert_eq!(
            shown(&names, &none, &(key, order), &NOTHING, Nanos(later)),
            None
        );
    }

    fn of(destination: Option<&str>) -> OrderShown {
        OrderShown {
            destination: destination.map(str::to_owned),
            workload: None,
            caveat: None,
            retries: None,
            shed: None,
            breaker: None,
        }
    }

    #[test]
    fn orders_of_a_destination_are_found_by_its_address_and_by_a_name_of_the_past() {
        let list = || OrderList {
            orders: vec![of(None), of(Some("auth")), of(Some("db"))],
        };
        let nobody = || Err(Declined::Unknown("nobody knows it".to_owned()));
        let found = |name, found| {
            let list = concerning(list(), name, found).ok()?;
            let names = list.orders.into_iter().map(|order| order.destination);
            Some(names.map(Option::unwrap_or_default).collect::<Vec<_>>())
        };
        let of_auth = Some(vec![String::new(), "auth".to_owned()]);
        let auth = Ok(Some("auth".to_owned()));
        assert_eq!(found("10.0.0.5:8080", auth), of_auth);
        assert_eq!(found("auth", nobody()), of_auth);
        let idle = Ok(Some("idle".to_owned()));
        assert_eq!(found("idle", idle), Some(vec![String::new()]));
        assert_eq!(found("atuh", nobody()), None);
    }
}
