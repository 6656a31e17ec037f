//! Carrying out what operators order: names become keys, orders go to the
//! kernel, and every change is an event that says who and until when.

use std::time::{Duration, SystemTime};

use governor_core::key::{DestinationKey, OrderKey};
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;
use serde::{Deserialize, Serialize};

use super::eventlog::{By, Entry, Kind, rfc3339};
use super::names::Names;
use super::node::{Node, State};
use super::orders::{self, Breakers, Hold, Refused, Retries, RetriesState, Shed};
use crate::errors::Failure;
use crate::kernel::now;

/// Why an order is not carried out.
#[derive(Debug)]
pub enum Declined {
    /// The request makes no sense.
    Refused(String),
    /// It names something that is not there.
    Unknown(String),
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
}

/// An order without anything in it.
const NOTHING: Order = Order {
    shed_until: 0,
    off_from: 0,
    off_until: 0,
    stage_every: 0,
    stages: [0; governor_core::order::STAGES],
    hold_until: 0,
    hold: hold::NONE,
    shed_share: 0,
    shed_retries_only: 0,
    reserved: 0,
};

const ANYWHERE: DestinationKey = DestinationKey {
    address: [0; 16],
    port: 0,
    group: 0,
};

/// A time of the kernel's clock as a time of day.
pub fn time_of(at: Nanos) -> SystemTime {
    let (now, today) = (now(), SystemTime::now());
    match at.0.checked_sub(now.0) {
        Some(ahead) => today + Duration::from_nanos(ahead),
        None => today - Duration::from_nanos(now.0 - at.0),
    }
}

fn destination(names: &Names, name: Option<&str>) -> Result<DestinationKey, Declined> {
    let Some(name) = name else {
        return Ok(ANYWHERE);
    };
    names.find_destination(name).ok_or_else(|| {
        Declined::Unknown(format!(
            "destination {name}: no policy names it, and it is no ip:port (`retry-governor status` lists them)"
        ))
    })
}

/// `destination auth` or `every destination`.
fn scope(name: Option<&str>) -> String {
    name.map_or_else(
        || "every destination".to_owned(),
        |name| format!("destination {name}"),
    )
}

impl Node {
    /// Switches retries off or on.
    pub fn order_retries(&self, request: &Retries, by: By) -> Result<Answer, Declined> {
        let mut state = self.state();
        let key = OrderKey {
            workload: 0,
            destination: destination(&state.names, request.destination.as_deref())?,
        };
        let order = state.give(key, |before| request.apply(before, now()))?;
        let scope = scope(request.destination.as_deref());
        let (message, until) = match request.state {
            RetriesState::Enabled => (format!("retries to {scope} are enabled"), None),
            RetriesState::Disabled => {
                let lasting = request.lasting.unwrap_or(orders::USUAL);
                let stages: Vec<_> = order
                    .stages
                    .iter()
                    .take_while(|s| **s != 0)
                    .map(u8::to_string)
                    .collect();
                let every = request.every.unwrap_or(orders::USUAL_STAGE);
                let stages = stages.join(", ");
                let text = format!(
                    "retries to {scope} are off for {lasting}, then return in stages: {stages} % every {every}"
                );
                (text, Some(Nanos(order.off_until)))
            }
        };
        Ok(self.ordered(message, until, request.destination.clone(), by))
    }

    /// Sheds load, or stops to.
    pub fn order_shed(&self, request: &Shed, by: By) -> Result<Answer, Declined> {
        let mut state = self.state();
        let workload = match request.workload.as_deref() {
            None => 0,
            Some(path) => state.names.find_workload(path).ok_or_else(|| {
                Declined::Unknown(format!(
                    "workload {path}: no cgroup of that path (`retry-governor status` lists them)"
                ))
            })?,
        };
        let key = OrderKey {
            workload,
            destination: destination(&state.names, request.destination.as_deref())?,
        };
        let order = state.give(key, |before| request.apply(before, now()))?;
        let mut scope = scope(request.destination.as_deref());
        if let Some(workload) = &request.workload {
            scope.push_str(&format!(" by {workload}"));
        }
        let (message, until) = match request.lasting {
            Some(lasting) if order.shed_share > 0 => {
                let what = if request.retries_only {
                    "retries"
                } else {
                    "attempts"
                };
                let text = format!(
                    "{} % of {what} to {scope} are shed for {lasting}",
                    request.percent
                );
                (text, Some(Nanos(order.shed_until)))
            }
            _ => (format!("nothing is shed to {scope}"), None),
        };
        Ok(self.ordered(message, until, request.destination.clone(), by))
    }

    /// Holds the breakers of a destination, or lets them go.
    pub fn order_breakers(
        &self,
        name: &str,
        request: &Breakers,
        by: By,
    ) -> Result<Answer, Declined> {
        let mut state = self.state();
        let key = OrderKey {
            workload: 0,
            destination: destination(&state.names, Some(name))?,
        };
        let order = state.give(key, |before| request.apply(before, now()))?;
        let lasting = request.lasting.unwrap_or(orders::USUAL);
        let (message, until) = match request.state {
            Hold::Open => (
                format!("breakers of {name} are held open for {lasting}: everything is refused"),
                Some(order.hold_until),
            ),
            Hold::Closed => (
                format!("breakers of {name} are held closed for {lasting}: they refuse nothing"),
                Some(order.hold_until),
            ),
            Hold::Auto => (format!("breakers of {name} work by themselves"), None),
        };
        Ok(self.ordered(message, until.map(Nanos), Some(name.to_owned()), by))
    }

    fn ordered(
        &self,
        message: String,
        until: Option<Nanos>,
        destination: Option<String>,
        by: By,
    ) -> Answer {
        let until = until.map(|until| rfc3339(time_of(until)));
        self.events.push(Entry {
            destination,
            until: until.clone(),
            by: Some(by),
            ..Entry::now(Kind::Order, message.clone())
        });
        super::log::say(format_args!("uid {}: {message}", by.uid));
        Answer { message, until }
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
            let scope = state.names.scope(&key);
            if let Err(error) = state.governor.set_order(key, None) {
                super::log::warn(format_args!("order for {scope}: {error}"));
                continue;
            }
            self.events.push(Entry {
                destination: state.names.order_destination(&key),
                ..Entry::now(Kind::Order, format!("the order for {scope} has ended"))
            });
        }
    }
}

impl Names {
    fn order_destination(&self, key: &OrderKey) -> Option<String> {
        (key.destination != ANYWHERE).then(|| self.destination(&key.destination))
    }

    fn scope(&self, key: &OrderKey) -> String {
        let destination = self.order_destination(key);
        match key.workload {
            0 => scope(destination.as_deref()),
            id => format!("{} by {}", scope(destination.as_deref()), self.workload(id)),
        }
    }
}

impl State {
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
        Ok(order)
    }
}

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

/// Retries off, or returning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetriesShown {
    /// Percent admitted now.
    pub percent: u32,
    /// When all are admitted again.
    pub expires_at: String,
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
fn shown(names: &Names, key: &OrderKey, order: &Order, now: Nanos) -> Option<OrderShown> {
    let at = |nanos| rfc3339(time_of(Nanos(nanos)));
    let percent = order.retries_percent(now);
    let retries_end = orders::ends(&Order {
        shed_until: 0,
        hold_until: 0,
        ..*order
    });
    let retries = (percent < 100 || now < Nanos(order.off_until)).then(|| RetriesShown {
        percent,
        expires_at: at(retries_end.0),
    });
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
        destination: names.order_destination(key),
        workload: (key.workload != 0).then(|| names.workload(key.workload)),
        retries,
        shed,
        breaker,
    })
}

impl Node {
    /// What is ordered now.
    pub fn orders(&self) -> OrderList {
        let state = self.state();
        let now = now();
        let mut orders: Vec<_> = state
            .governor
            .orders()
            .iter()
            .filter_map(|(key, order)| shown(&state.names, key, order, now))
            .collect();
        orders.sort_by(|a, b| (&a.destination, &a.workload).cmp(&(&b.destination, &b.workload)));
        OrderList { orders }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rules::Group;

    #[test]
    fn an_order_is_shown_with_what_is_left_of_it() {
        let auth = Group {
            policy: "p".to_owned(),
            name: "auth".to_owned(),
        };
        let names = Names {
            groups: [(7, auth)].into(),
            ..Names::default()
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
        let shown_now = shown(&names, &key, &order, now).unwrap();
        assert_eq!(shown_now.destination.as_deref(), Some("auth"));
        assert_eq!(shown_now.shed.map(|shed| shed.percent), Some(30.5));
        assert_eq!((shown_now.breaker, shown_now.retries), (None, None));
        assert_eq!(shown(&names, &key, &order, Nanos(later)), None);
    }

    #[test]
    fn retries_that_return_are_shown_until_all_are_back() {
        let now = now();
        let order = Order {
            off_from: 1,
            off_until: now.0,
            stage_every: 60_000_000_000,
            stages: [10, 50, 0, 0, 0, 0, 0, 0],
            ..NOTHING
        };
        let key = OrderKey {
            workload: 0,
            destination: ANYWHERE,
        };
        let percent = |at: u64| {
            let shown = shown(
                &Names::default(),
                &key,
                &order,
                Nanos(now.0 + at * 1_000_000_000),
            );
            shown
                .and_then(|order| order.retries)
                .map(|retries| retries.percent)
        };
        assert_eq!(
            [percent(0), percent(61), percent(121)],
            [Some(10), Some(50), None]
        );
    }

    #[test]
    fn a_time_of_the_kernels_clock_is_a_time_of_day() {
        let ahead = time_of(Nanos(now().0 + 10_000_000_000))
            .duration_since(SystemTime::now())
            .unwrap();
        assert!(
            (Duration::from_secs(9)..=Duration::from_secs(10)).contains(&ahead),
            "{ahead:?}"
        );
    }
}
