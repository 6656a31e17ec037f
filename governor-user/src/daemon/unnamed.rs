//! Orders that outlive the name of their destination: the policies changed, the order stands.
//! It is said, and whoever ends it by the name it is shown with ends it.

use governor_core::key::OrderKey;
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;

use super::eventlog::{Entry, Kind, beside_now, rfc3339};
use super::log;
use super::names::Names;
use super::node::{Node, State};
use super::operators::{Declined, time_of};
use super::orders;
use super::scope::{Scope, shown_destination, words};
use crate::kernel::now;

impl Node {
    /// Whom the end of an order concerns: also orders that stand under this name, though no policy
    /// in force calls their destination so any more.
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

    /// Says which orders stand for destinations that no policy in force names.
    pub(super) fn tell_unnamed(&self, state: &State) {
        let now = now();
        let names = state.names.shown(&state.in_force.effective);
        for (key, order) in state.governor.orders() {
            let ends = orders::ends(&order);
            if ends <= now || !names.unnamed(&key.destination) {
                continue;
            }
            let until = rfc3339(time_of(ends));
            let message = format!(
                "the order for {} stands until {}, but no policy names that destination any more ({})",
                words(&key, &state.names),
                beside_now(&until),
                ways_out(&key, &order, &state.names, now)
            );
            log::warn(&message);
            self.events.push(Entry {
                destination: shown_destination(&key, &state.names),
                until: Some(until),
                ..Entry::now(Kind::Order, message)
            });
        }
    }
}

/// A scope and the orders that are shown under its name; these alone where no policy knows it.
fn with_former(
    found: Result<Scope, Declined>,
    mut shown: Vec<OrderKey>,
    names: &Names,
) -> Result<Scope, Declined> {
    let scope = match (found, shown.first()) {
        (Err(why), None) => return Err(why),
        (Err(_), Some(key)) => Scope::unnamed(*key, names),
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

    /// Group 7 was called auth, of a policy that is no more.
    fn names() -> Names {
        let auth = Group {
            policy: String::new(),
            name: "auth".to_owned(),
        };
        Names {
            groups: [(7, auth)].into(),
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
        let present = || Ok(Scope::unnamed(of_group(8), &names()));
        let scope = with_former(present(), vec![of_group(7), of_group(8)], &names()).unwrap();
        assert_eq!((scope.key, scope.former), (of_group(8), vec![of_group(7)]));
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
