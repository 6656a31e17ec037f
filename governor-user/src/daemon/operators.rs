//! Carrying out what operators order: names become keys, orders go to the
//! kernel, and every change is an event that says who and until when.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use governor_core::key::OrderKey;
use governor_core::order::{Order, Told, hold};
use governor_core::units::Nanos;
use serde::{Deserialize, Serialize};

use super::eventlog::{By, Entry, Kind, beside_now, rfc3339};
use super::log;
use super::node::{Node, State};
use super::orderlist::node_wide;
use super::orders::{
    self, Breakers, Hold, NOTHING_TO_RESTORE, Refused, Retries, RetriesState, Shed,
};
use super::retriesshown::refuses_until;
use super::scope::{ANYWHERE, Scope, shown_destination, words};
use crate::errors::Failure;
use crate::kernel::now;
use crate::policy::units::GoDuration;

/// Why an order is not carried out.
#[derive(Debug)]
pub enum Declined {
    /// The request makes no sense.
    Refused(String),
    /// It names something that is not there.
    Unknown(String),
    /// Another order counts.
    Overruled(String),
    /// The kernel said no.
    Failed(Failure),
}

impl From<Refused> for Declined {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.0)
    }
}

impl From<Failure> for Declined {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// In plain words.
    pub message: String,
    /// Until when, RFC 3339; absent where an order was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why retries are refused there all the same; absent: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub still: Option<String>,
}

/// An order without anything in it.
pub const NOTHING: Order = Order {
    shed_until: 0,
    off_from: 0,
    off_until: 0,
    stage_every: 0,
    stages: [0; governor_core::order::STAGES],
    hold_until: 0,
    hold: hold::NONE,
    shed_share: 0,
    shed_retries_only: 0,
    hold_above: Told::NOTHING,
    began_with: Told::NOTHING,
};

/// Every destination and workload.
pub const EVERYONE: OrderKey = OrderKey {
    workload: 0,
    destination: ANYWHERE,
};
/// Added where nothing is attached.
pub const DETACHED: &str =
    "; nothing will be refused, because the programs are not attached (restart the daemon)";

/// A time of the kernel's clock as a time of day.
pub fn time_of(at: Nanos) -> SystemTime {
    let (now, today) = (now(), SystemTime::now());
    match at.0.checked_sub(now.0) {
        Some(ahead) => today + Duration::from_nanos(ahead),
        None => today - Duration::from_nanos(now.0 - at.0),
    }
}

impl Node {
    /// Switches retries off or on, or lets them return.
    pub fn order_retries(&self, request: &Retries, by: By) -> Result<Answer, Declined> {
        let destination = request.destination.as_deref();
        let scope = match request.state {
            RetriesState::Disabled => self.scope(destination, None)?,
            _ => self.scope_to_end(destination, None)?,
        };
        if request.state == RetriesState::Restoring {
            return self.restore_retries(request, &scope, by);
        }
        let mut state = self.state();
        let order = state.give(scope.key, |before| request.apply(before, now()))?;
        let words = &scope.words;
        if request.state == RetriesState::Enabled {
            state.take_back(&scope, |before| request.apply(before, now()))?;
            let still = state.still(&scope, "on");
            let message = match still {
                None => format!("retries to {words} are enabled"),
                Some(_) => format!("nothing is ordered about retries to {words} alone any more"),
            };
            return Ok(Answer {
                still,
                ..self.ordered(&scope, message, None, by)
            });
        }
        let lasting = request.lasting.unwrap_or(orders::USUAL);
        let stages = stages_in_words(&order);
        let message = format!("retries to {words} are off for {lasting}, then return in {stages}");
        Ok(self.ordered(&scope, message, Some(order.off_until), by))
    }

    /// Lets retries return in stages from now on. Where no destination is named, everywhere that
    /// anything is ordered about them: who says so in an incident means all of it.
    fn restore_retries(
        &self,
        request: &Retries,
        scope: &Scope,
        by: By,
    ) -> Result<Answer, Declined> {
        let mut state = self.state();
        let (now, everywhere) = (now(), scope.key == EVERYONE);
        let mut orders = state.governor.orders();
        orders.retain(|(key, order)| {
            let meant = everywhere || *key == scope.key || scope.former.contains(key);
            meant && now < orders::retries_end(order)
        });
        // The node's first: it is the answer.
        orders.sort_by_key(|(key, _)| *key != EVERYONE);
        let still = state.still(scope, "restore");
        if orders.is_empty() {
            // Says what is wrong with the request, if anything else is.
            let nothing = request.apply(NOTHING, now).map_err(Declined::from);
            return Err(match (nothing, still) {
                (Err(Declined::Refused(why)), Some(still)) if why == NOTHING_TO_RESTORE => {
                    let words = &scope.words;
                    Declined::Overruled(format!("retries to {words}: {still}"))
                }
                (Err(why), _) => why,
                (Ok(_), _) => Declined::Refused(NOTHING_TO_RESTORE.to_owned()),
            });
        }
        let mut answers = Vec::new();
        for (key, before) in orders {
            let order = state.give(key, |before| request.apply(before, now))?;
            state.restores.watches.remove(&key);
            let scope = Scope {
                words: words(&key, &state.names),
                destination: shown_destination(&key, &state.names),
                key,
                ..scope.clone()
            };
            let stages = stages_in_words(&order);
            let again = before.restoring(now).map_or(String::new(), |(_, percent)| {
                format!("; that begins anew: {percent} % were admitted")
            });
            let message = format!(
                "retries to {} return from now on in {stages}{again}",
                scope.words
            );
            answers.push(self.ordered(&scope, message, Some(orders::retries_end(&order).0), by));
        }
        let until = answers.iter().find_map(|answer| answer.until.clone());
        let messages: Vec<_> = answers.into_iter().map(|answer| answer.message).collect();
        Ok(Answer {
            message: messages.join("\n"),
            until,
            still,
        })
    }

    /// Sheds load, or stops to.
    pub fn order_shed(&self, request: &Shed, by: By) -> Result<Answer, Declined> {
        let (destination, workload) = (request.destination.as_deref(), request.workload.as_deref());
        let scope = match request.percent {
            0.0 => self.scope_to_end(destination, workload)?,
            _ => self.scope(destination, workload)?,
        };
        let mut state = self.state();
        let order = state.give(scope.key, |before| request.apply(before, now()))?;
        let words = &scope.words;
        let Some(lasting) = request.lasting.filter(|_| order.shed_share > 0) else {
            state.take_back(&scope, |before| request.apply(before, now()))?;
            return Ok(self.ordered(
                &scope,
                format!("shedding of attempts to {words} is off"),
                None,
                by,
            ));
        };
        let what = if request.retries_only {
            "retries"
        } else {
            "attempts"
        };
        let message = format!(
            "{} % of {what} to {words} are shed for {lasting}",
            request.percent
        );
        Ok(self.ordered(&scope, message, Some(order.shed_until), by))
    }

    /// Holds the breakers of a destination, or lets them go.
    pub fn order_breakers(
        &self,
        name: &str,
        request: &Breakers,
        by: By,
    ) -> Result<Answer, Declined> {
        let scope = match request.state {
            Hold::Auto => self.scope_to_end(Some(name), None)?,
            Hold::Open | Hold::Closed => self.scope(Some(name), None)?,
        };
        let mut state = self.state();
        let order = state.give(scope.key, |before| request.apply(before, now()))?;
        if request.state == Hold::Auto {
            state.take_back(&scope, |before| request.apply(before, now()))?;
        }
        let words = &scope.words;
        let lasting = request.lasting.unwrap_or(orders::USUAL);
        let (message, until) = match request.state {
            Hold::Auto => (format!("breakers of {words} work by themselves"), None),
            Hold::Open => (
                format!("breakers of {words} are held open for {lasting}: everything is refused"),
                Some(order.hold_until),
            ),
            Hold::Closed => (
                format!("breakers of {words} are held closed for {lasting}: they refuse nothing"),
                Some(order.hold_until),
            ),
        };
        Ok(self.ordered(&scope, message, until, by))
    }

    /// Whether events may be of a destination of this name: it may be an ip:port, or one that
    /// something happened to while a policy named it.
    pub fn knows(&self, destination: &str) -> Result<(), Declined> {
        let named = |entry: &Arc<Entry>| entry.destination.as_deref() == Some(destination);
        let known = self.scope(Some(destination), None).map(|_| ());
        known.or_else(|why| match self.events.follow().0.iter().any(named) {
            true => Ok(()),
            false => Err(why),
        })
    }

    /// Whom an order concerns, and whether anything will come of it.
    pub(super) fn scope(
        &self,
        destination: Option<&str>,
        workload: Option<&str>,
    ) -> Result<Scope, Declined> {
        let attached = self.not_attached().is_empty();
        let state = self.state();
        let scope = Scope::find(destination, workload, &state.names, &state.in_force)?;
        Ok(match attached {
            true => scope,
            false => Scope {
                caveat: DETACHED.to_owned(),
                ..scope
            },
        })
    }

    /// Says what was ordered, to everyone. `until`: ns; none where an order was taken back.
    fn ordered(&self, scope: &Scope, message: String, until: Option<u64>, by: By) -> Answer {
        let caveat = until.map_or("", |_| &scope.caveat);
        let message = message + caveat;
        let until = until.map(|until| rfc3339(time_of(Nanos(until))));
        self.events.push(Entry {
            destination: scope.destination.clone(),
            until: until.clone(),
            by: Some(by),
            ..Entry::now(Kind::Order, message.clone())
        });
        log::say(format_args!("uid {}: {message}", by.uid));
        Answer {
            message,
            until,
            still: None,
        }
    }
}

/// `stages: 10, 25, 50, 100 % every 60s`.
fn stages_in_words(order: &Order) -> String {
    let stages = orders::stages_of(order).iter().map(u8::to_string);
    let stages = stages.collect::<Vec<_>>().join(", ");
    format!(
        "stages: {stages} % every {}",
        GoDuration::from_nanos(order.stage_every)
    )
}

impl State {
    /// Why retries are refused there all the same, whatever is ordered for the destination:
    /// orders add up. `way_out` is what to say of retries instead.
    fn still(&self, scope: &Scope, way_out: &str) -> Option<String> {
        let (node, now) = (node_wide(&self.governor.orders()), now());
        let percent = node.retries_percent(now);
        if scope.key == EVERYONE || percent == 100 {
            return None;
        }
        let admitted = match percent {
            0 => "still off there".to_owned(),
            percent => format!("still at {percent} % there"),
        };
        let until = beside_now(&refuses_until(&node, now));
        Some(format!(
            "{admitted}: node-wide order until {until} (`retry-governor retries {way_out}`)"
        ))
    }

    /// Changes the order at a key; an empty one is taken back.
    fn give(
        &mut self,
        key: OrderKey,
        change: impl Fn(Order) -> Result<Order, Refused>,
    ) -> Result<Order, Declined> {
        let orders = self.governor.orders();
        let before = orders
            .into_iter()
            .find(|(at, _)| *at == key)
            .map_or(NOTHING, |(_, order)| order);
        let order = change(before)?;
        let rest = (orders::ends(&order) > now()).then_some(order);
        self.governor.set_order(key, rest)?;
        // It is said with the answer.
        self.note_caveat(key);
        Ok(order)
    }

    /// Takes back what else the end of an order concerns: orders for single destinations and
    /// workloads too where none is named (who says `shed off` in an incident means all of it),
    /// otherwise those that stand under the same name.
    fn take_back(
        &mut self,
        scope: &Scope,
        change: impl Fn(Order) -> Result<Order, Refused>,
    ) -> Result<(), Declined> {
        let orders = self.governor.orders().into_iter().map(|(key, _)| key);
        for key in orders.filter(|key| scope.key == EVERYONE || scope.former.contains(key)) {
            self.give(key, &change)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_kernels_clock_is_a_time_of_day() {
        let ahead = time_of(Nanos(now().0 + 10_000_000_000));
        let ahead = ahead.duration_since(SystemTime::now()).unwrap();
        assert!(
            (Duration::from_secs(9)..=Duration::from_secs(10)).contains(&ahead),
            "{ahead:?}"
        );
    }
}
