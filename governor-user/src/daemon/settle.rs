//! What is done about orders that are over, or that policies leave behind. The latter are told, and
//! whoever ends one by the name it is shown with ends it. A destination that is the ip:port of an
//! order and nothing else takes it over.

use std::mem;

use governor_core::key::OrderKey;
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;

use super::eventlog::{Entry, Kind, beside_now, rfc3339};
use super::left::{Left, same};
use super::log;
use super::names::Names;
use super::node::{Node, State};
use super::operators::{Declined, time_of};
use super::orders;
use super::scope::{Scope, shown_destination, words};
use crate::errors::Result;
use crate::kernel::now;

impl Node {
    /// Whom the end of an order concerns: also orders that stand under this name, though the
    /// kernel looks for them no longer.
    pub(super) fn scope_to_end(
        &self,
        destination: Option<&str>,
        workload: Option<&str>,
    ) -> Result<Scope, Declined> {
        let found = self.scope(destination, workload);
        let state = self.state();
        let keys = state.governor.orders().into_iter().map(|(key, _)| key);
        let shown = keys.filter(|key| {
            let by = (key.workload != 0).then(|| state.names.workload(key.workload));
            shown_destination(key, &state.names).as_deref() == destination
                && by.as_deref() == workload
        });
        with_former(found, shown.collect(), &state.names)
    }

    /// Follows what policies and addresses do to orders: takes over, and says of each once which
    /// the kernel finds no longer.
    pub(super) fn settle_orders(&self, state: &mut State) {
        let now = now();
        let mut orders = state.governor.orders();
        orders.retain(|(_, order)| orders::ends(order) > now);
        for (key, order) in orders.clone() {
            let new = same(&key, &state.names, &state.in_force);
            let free = |new: &OrderKey| !orders.iter().any(|(key, _)| key == new);
            if let Some(new) = new.filter(free) {
                match state.take_over(key, new, order) {
                    Ok(()) => self.tell_taken_over(state, &key, &new, &order),
                    Err(failure) => log::warn(format_args!(
                        "order for {}: {failure}",
                        words(&key, &state.names)
                    )),
                }
            }
        }
        let before = mem::take(&mut state.names.caveats);
        for (key, order) in state.governor.orders() {
            if orders::ends(&order) <= now {
                continue;
            }
            let Some(left) = Left::of(&key, &state.names, &state.in_force) else {
                continue;
            };
            if before.get(&key) != Some(&left.caveat()) {
                self.tell_left(state, &key, &order, &left);
            }
            state.names.caveats.insert(key, left.caveat());
        }
    }

    /// Forgets orders that are over.
    pub fn forget_orders(&self) {
        let mut state = self.state();
        let now = now();
        let over = state
            .governor
            .orders()
            .into_iter()
            .filter(|(_, order)| orders::ends(order) <= now);
        let over: Vec<_> = over.map(|(key, _)| key).collect();
        for key in over {
            let words = words(&key, &state.names);
            if let Err(error) = state.governor.set_order(key, None) {
                log::warn(format_args!("order for {words}: {error}"));
                continue;
            }
            self.events.push(Entry {
                destination: shown_destination(&key, &state.names),
                ..Entry::now(Kind::Order, format!("the order for {words} has ended"))
            });
        }
    }

    fn tell_taken_over(&self, state: &State, key: &OrderKey, new: &OrderKey, order: &Order) {
        let message = format!(
            "the order for {} is one for {} now, which is that ip:port and nothing else",
            words(key, &state.names),
            words(new, &state.names)
        );
        log::say(&message);
        self.events.push(Entry {
            destination: shown_destination(new, &state.names),
            until: Some(rfc3339(time_of(orders::ends(order)))),
            ..Entry::now(Kind::Order, message)
        });
    }

    fn tell_left(&self, state: &State, key: &OrderKey, order: &Order, left: &Left) {
        let until = rfc3339(time_of(orders::ends(order)));
        let message = format!(
            "the order for {} stands until {}, but {} ({})",
            words(key, &state.names),
            beside_now(&until),
            left.why(),
            ways_out(key, order, &state.names, now())
        );
        log::warn(&message);
        self.events.push(Entry {
            destination: shown_destination(key, &state.names),
            until: Some(until),
            ..Entry::now(Kind::Order, message)
        });
    }
}

impl State {
    /// Gives the order of an ip:port to the destination that is the same. The new one first: at no
    /// moment is neither in force.
    fn take_over(&mut self, key: OrderKey, new: OrderKey, order: Order) -> Result<()> {
        self.governor.set_order(new, Some(order))?;
        self.governor.set_order(key, None)
    }

    /// Remembers what is to be said of an order that was just given.
    pub(super) fn note_caveat(&mut self, key: OrderKey) {
        let left = Left::of(&key, &self.names, &self.in_force);
        self.names
            .caveats
            .extend(left.map(|left| (key, left.caveat())));
    }
}

/// A scope and the orders that are shown under its name; these alone where no policy knows it, or
/// where it is an ip:port that means a destination by now.
fn with_former(
    found: Result<Scope, Declined>,
    mut shown: Vec<OrderKey>,
    names: &Names,
) -> Result<Scope, Declined> {
    let scope = match (found, shown.first()) {
        (Err(why), None) => return Err(why),
        (Err(_), Some(key)) => Scope::of(*key, names),
        (Ok(scope), Some(key)) if scope.destination != shown_destination(key, names) => {
            Scope::of(*key, names)
        }
        (Ok(scope), _) => scope,
    };
    shown.retain(|key| *key != scope.key);
    Ok(Scope {
        former: shown,
        ..scope
    })
}

/// `` `retry-governor retries on --destination auth` ends it ``
fn ways_out(key: &OrderKey, order: &Order, names: &Names, now: Nanos) -> String {
    let name = names.destination(&key.destination);
    let by = match key.workload {
        0 => String::new(),
        id => format!(" --workload {}", names.workload(id)),
    };
    let ways = [
        (now < orders::retries_end(order)).then(|| format!("retries on --destination {name}")),
        (now.0 < order.shed_until).then(|| format!("shed off --destination {name}{by}")),
        (order.held(now) != hold::NONE).then(|| format!("breaker auto {name}")),
    ];
    let ways = ways.into_iter().flatten();
    let ways: Vec<_> = ways.map(|way| format!("`retry-governor {way}`")).collect();
    match ways.len() {
        1 => format!("{} ends it", ways.join("")),
        _ => format!("{} end it", ways.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::names::single;
    use crate::daemon::operators::NOTHING;
    use crate::daemon::scope::ANYWHERE;
    use crate::policy::rules::Group;
    use governor_core::key::DestinationKey;

    fn of_group(group: u32) -> OrderKey {
        OrderKey {
            workload: 0,
            destination: DestinationKey { group, ..ANYWHERE },
        }
    }

    /// Group 7 was called auth, of a policy that is no more; group 8 is called so now.
    fn names() -> Names {
        let auth = |policy: &str| Group {
            policy: policy.to_owned(),
            name: "auth".to_owned(),
        };
        Names {
            groups: [(7, auth("")), (8, auth("p"))].into(),
            ..Names::default()
        }
    }

    fn nobody() -> Result<Scope, Declined> {
        Err(Declined::Unknown("nobody knows it".to_owned()))
    }

    #[test]
    fn an_order_is_ended_by_its_name_after_no_policy_knows_it() {
        let scope = with_former(nobody(), vec![of_group(7)], &names()).unwrap();
        assert_eq!((scope.key, scope.former.len()), (of_group(7), 0));
        assert_eq!(scope.words, "destination auth");
        assert!(with_former(nobody(), Vec::new(), &names()).is_err());
    }

    #[test]
    fn an_order_of_a_former_policy_is_ended_with_that_of_the_present_one() {
        let present = || Ok(Scope::of(of_group(8), &names()));
        let scope = with_former(present(), vec![of_group(7), of_group(8)], &names()).unwrap();
        assert_eq!((scope.key, scope.former), (of_group(8), vec![of_group(7)]));
    }

    #[test]
    fn an_order_for_an_address_is_ended_without_that_of_the_destination_it_has_joined() {
        let single = OrderKey {
            workload: 0,
            destination: single("10.0.0.5:8080".parse().unwrap()),
        };
        let auth = Ok(Scope::of(of_group(8), &names()));
        let scope = with_former(auth, vec![single], &names()).unwrap();
        assert_eq!((scope.key, scope.former.len()), (single, 0));
    }

    #[test]
    fn every_part_of_an_order_has_its_way_out() {
        let (now, later) = (Nanos(10), 20);
        let shed = Order {
            shed_until: later,
            ..NOTHING
        };
        let both = Order {
            hold: hold::OPEN,
            hold_until: later,
            ..shed
        };
        let ways = |order| ways_out(&of_group(7), order, &names(), now);
        assert_eq!(
            ways(&shed),
            "`retry-governor shed off --destination auth` ends it"
        );
        assert_eq!(
            ways(&both),
            "`retry-governor shed off --destination auth` and `retry-governor breaker auto auth` end it"
        );
    }
}
