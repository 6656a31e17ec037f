//! What the kernel programs tell, in plain words.

use std::time::Duration;

use governor_core::breaker::Move;
use governor_core::event::{Event, kind};
use governor_core::key::OrderKey;
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;
use governor_core::verdict::Reason;

use super::eventlog::{Entry, Kind, rfc3339};
use super::names::{Names, endpoint};
use super::operators::time_of;
use crate::status::held;

/// An event of the kernel as an entry of the log; `None` where there is
/// nothing to tell.
pub fn entry(event: &Event, names: &Names, orders: &[(OrderKey, Order)]) -> Option<Entry> {
    let destination = names.destination(&event.endpoint.destination(event.group));
    let address = endpoint(&event.endpoint);
    let (kind, reason, message) = match event.kind {
        kind::DENIED => {
            let reason = Reason::from_number(event.what);
            let why = why(reason, event, orders, &address);
            let message = format!("{destination}: refused, {why}");
            (Kind::Denied, Some(reason), message)
        }
        kind::WOULD_DENY => {
            let reason = Reason::from_number(event.what);
            let why = why(reason, event, orders, &address);
            let message = format!("{destination}: Enforce would refuse this, {why}");
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
        until: (!denial && is_ahead(event)).then(|| rfc3339(time_of(until(event)))),
        ..Entry::now(kind, message)
    })
}

/// Whether an operator held the breaker open when it happened.
fn is_held(event: &Event, orders: &[(OrderKey, Order)]) -> bool {
    let destination = event.endpoint.destination(event.group);
    held(destination, Nanos(event.at), orders) == hold::OPEN
}

/// When the next probe may go.
const fn until(event: &Event) -> Nanos {
    Nanos::from_millis(event.until)
}

/// Whether the next probe waits for its time. One that failed late may be followed at once: the
/// open time runs from when it was sent.
const fn is_ahead(event: &Event) -> bool {
    Nanos(event.at).stamp().0 < event.until
}

/// Why an attempt is refused.
fn why(reason: Reason, event: &Event, orders: &[(OrderKey, Order)], address: &str) -> String {
    match reason {
        Reason::Budget => "a retry, and the retry budget is spent".to_owned(),
        Reason::Breaker if is_held(event, orders) => {
            "an operator holds its breaker open".to_owned()
        }
        // A closed breaker has no time for a probe.
        Reason::Breaker if event.until == 0 => {
            format!("the breaker of {address} has just closed: admission ramps up")
        }
        Reason::Breaker if is_ahead(event) => {
            format!("{address} has been silent: its breaker lets only a probe through")
        }
        // It could have been the probe.
        Reason::Breaker => {
            format!("{address} has been silent: another workload's turn to probe it")
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
    let next = || match until(event).since(Nanos(event.at)) {
        // Nobody reads it sooner.
        Nanos(0..50_000_000) => {
            "a probe may go with the next attempt, in turn with other workloads".to_owned()
        }
        Nanos(ahead) => {
            let ahead = Duration::from_nanos(ahead).as_secs_f64();
            format!("a probe may go in {ahead:.1} s")
        }
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
    use governor_core::key::{DestinationKey, EndpointKey, scoped};

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
        let audited = Event {
            kind: kind::WOULD_DENY,
            ..event
        };
        let audited = entry(&audited, &Names::default(), &[(key, order)]).unwrap();
        assert_eq!(
            audited.message,
            "10.0.0.5:8080: Enforce would refuse this, an operator holds its breaker open"
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
    fn a_probe_that_failed_late_is_followed_by_the_next_attempt() {
        let event = event(kind::BREAKER, Move::Reopened as u32);
        let told = |until| {
            let event = Event { until, ..event };
            entry(&event, &Names::default(), &[]).unwrap()
        };
        // Sent 5 s ago, for an open time of 1 s.
        let late = told(event.at / 1_000_000 - 4_000);
        assert_eq!(
            late.message,
            "10.0.0.5:8080: breaker open again, the probe failed; \
             a probe may go with the next attempt, in turn with other workloads"
        );
        assert_eq!(late.until, None);
        assert!(told(event.until).message.ends_with("may go in 1.5 s"));
        assert!(!told(event.at / 1_000_000 + 30).message.contains("0.0 s"));
    }

    #[test]
    fn what_a_breaker_refuses_is_told_by_what_it_waits_for() {
        let event = event(kind::DENIED, Reason::Breaker as u32);
        let told = |until| {
            let event = Event { until, ..event };
            entry(&event, &Names::default(), &[]).unwrap().message
        };
        for (until, words) in [
            (event.until, "silent: its breaker lets only a probe through"),
            (
                event.at / 1_000_000,
                "silent: another workload's turn to probe it",
            ),
            (0, "has just closed: admission ramps up"),
        ] {
            assert!(told(until).ends_with(words), "{}", told(until));
        }
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
