//! What the kernel programs tell, in plain words.

use std::time::Duration;

use governor_core::breaker::Move;
use governor_core::event::{Event, kind};
use governor_core::key::{DestinationKey, OrderKey, plain};
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;
use governor_core::verdict::Reason;

use super::eventlog::{Entry, Kind, rfc3339};
use super::names::{Names, endpoint};
use super::operators::time_of;

/// An event of the kernel as an entry of the log; `None` where there is
/// nothing to tell.
pub fn entry(event: &Event, names: &Names, orders: &[(OrderKey, Order)]) -> Option<Entry> {
    let destination = names.destination(&event.endpoint.destination(event.group));
    let address = endpoint(&event.endpoint);
    let (kind, reason, message) = match event.kind {
        kind::DENIED => {
            let reason = Reason::from_number(event.what);
            let why = match reason {
                Reason::Breaker if is_held(event, orders) => HELD.to_owned(),
                reason => why(reason, &address),
            };
            let message = format!("{destination}: refused, {why}");
            (Kind::Denied, Some(reason), message)
        }
        kind::WOULD_DENY => {
            let reason = Reason::from_number(event.what);
            let message = format!(
                "{destination}: Enforce would refuse this, {}",
                why(reason, &address)
            );
            (Kind::WouldDeny, Some(reason), message)
        }
        kind::BREAKER => (Kind::Breaker, None, moved(event, &address)?),
        _ => return None,
    };
    let denial = reason.is_some();
    Some(Entry {
        at: rfc3339(time_of(Nanos(event.at))),
        destination: Some(destination),
        address: Some(address),
        workload: Some(names.workload(event.endpoint.workload)),
        pid: (event.pid != 0).then_some(event.pid),
        reason: reason.map(|reason| reason.name().to_owned()),
        count: (denial && event.count > 1).then_some(event.count),
        until: (!denial && event.until != 0)
            .then(|| rfc3339(time_of(Nanos::from_millis(event.until)))),
        ..Entry::now(kind, message)
    })
}

const HELD: &str = "an operator holds its breaker open";

/// Whether an operator held the breaker open when it happened.
fn is_held(event: &Event, orders: &[(OrderKey, Order)]) -> bool {
    let destination = event.endpoint.destination(event.group);
    // An order names an address, of whatever network namespace.
    let destination = DestinationKey {
        address: plain(destination.address),
        ..destination
    };
    orders.iter().any(|(key, order)| {
        key.destination == destination && order.held(Nanos(event.at)) == hold::OPEN
    })
}

/// Why an attempt is refused.
fn why(reason: Reason, address: &str) -> String {
    match reason {
        Reason::Budget => "a retry, and the retry budget is spent".to_owned(),
        Reason::Breaker => {
            format!("{address} has been silent: its breaker lets only a probe through")
        }
        Reason::Concurrency => "too many attempts are in flight already".to_owned(),
        Reason::Shed => "an operator ordered it".to_owned(),
        Reason::RetryAfter => "it asked to be left alone for a while".to_owned(),
        Reason::Deadline => "a retry of something its caller no longer waits for".to_owned(),
        Reason::Attempts => "one retry more than the policy allows".to_owned(),
        Reason::NotRetryable => "a retry after an answer that will not change".to_owned(),
        Reason::NonIdempotent => {
            "a retry of a request that may have taken effect, and must not twice".to_owned()
        }
    }
}

fn moved(event: &Event, address: &str) -> Option<String> {
    let next = || {
        let ahead = Nanos::from_millis(event.until).since(Nanos(event.at));
        let ahead = Duration::from_nanos(ahead.0).as_secs_f64();
        format!("a probe may go in {ahead:.1} s")
    };
    const TRIPPED: u32 = Move::Tripped as u32;
    const REOPENED: u32 = Move::Reopened as u32;
    const CLOSED: u32 = Move::Closed as u32;
    match event.what {
        TRIPPED => Some(format!(
            "{address}: breaker open after {} failures in a row; {}",
            event.count,
            next()
        )),
        REOPENED => Some(format!(
            "{address}: breaker open again, the probe failed; {}",
            next()
        )),
        CLOSED => Some(format!(
            "{address}: breaker closed, the probe succeeded; admission ramps up"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::operators::NOTHING;
    use crate::kernel::now;
    use governor_core::key::{EndpointKey, scoped};

    fn event(kind: u32, what: u32) -> Event {
        let at = now();
        Event {
            at: at.0,
            endpoint: EndpointKey {
                workload: 42,
                address: std::net::Ipv4Addr::new(10, 0, 0, 5)
                    .to_ipv6_mapped()
                    .octets(),
                port: 8080,
                reserved: 0,
            },
            kind,
            what,
            group: 0,
            pid: 7,
            count: 20,
            until: at.0 / 1_000_000 + 1_500,
        }
    }

    #[test]
    fn a_denial_says_who_where_and_why() {
        let names = Names {
            workloads: [(42, "/a.service".to_owned())].into(),
            ..Names::default()
        };
        let entry = entry(&event(kind::DENIED, Reason::Budget as u32), &names, &[]).unwrap();
        assert_eq!(
            entry.message,
            "10.0.0.5:8080: refused, a retry, and the retry budget is spent"
        );
        assert_eq!(entry.workload.as_deref(), Some("/a.service"));
        assert_eq!(
            (entry.pid, entry.reason.as_deref(), entry.count),
            (Some(7), Some("budget"), Some(20))
        );
        assert_eq!(entry.until, None);
    }

    #[test]
    fn a_breaker_that_an_operator_holds_is_not_called_silent() {
        let event = event(kind::DENIED, Reason::Breaker as u32);
        let key = OrderKey {
            workload: 0,
            destination: event.endpoint.destination(0),
        };
        let order = Order {
            hold: hold::OPEN,
            hold_until: event.at + 1,
            ..NOTHING
        };
        let message = |order| {
            let entry = entry(&event, &Names::default(), &[(key, order)]);
            entry.unwrap().message
        };
        assert_eq!(
            message(order),
            "10.0.0.5:8080: refused, an operator holds its breaker open"
        );
        let over = Order {
            hold_until: event.at,
            ..order
        };
        assert!(message(over).contains("silent"));
        let loopback = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        let in_a_pod = Event {
            endpoint: EndpointKey {
                address: scoped(loopback, 7),
                ..event.endpoint
            },
            ..event
        };
        let key = OrderKey {
            destination: DestinationKey {
                address: loopback,
                ..key.destination
            },
            ..key
        };
        assert!(is_held(&in_a_pod, &[(key, order)]));
    }

    #[test]
    fn a_breaker_that_opens_says_when_a_probe_may_go() {
        let entry = entry(
            &event(kind::BREAKER, Move::Tripped as u32),
            &Names::default(),
            &[],
        )
        .unwrap();
        assert!(
            entry
                .message
                .contains("open after 20 failures in a row; a probe may go in 1.5 s"),
            "{}",
            entry.message
        );
        assert!(entry.until.is_some());
    }

    #[test]
    fn every_reason_and_every_move_has_words() {
        for reason in Reason::ALL {
            assert!(
                entry(
                    &event(kind::WOULD_DENY, reason as u32),
                    &Names::default(),
                    &[]
                )
                .is_some()
            );
        }
        for moved in [Move::Tripped, Move::Reopened, Move::Closed] {
            assert!(entry(&event(kind::BREAKER, moved as u32), &Names::default(), &[]).is_some());
        }
        assert_eq!(
            entry(
                &event(kind::BREAKER, Move::None as u32),
                &Names::default(),
                &[]
            ),
            None
        );
        assert_eq!(
            entry(&event(kind::NEW_CGROUP, 0), &Names::default(), &[]),
            None
        );
    }
}
