//! From ledgers to JSON, table and summary.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use governor_core::key::{EndpointKey, OrderKey, WorkloadKey};
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger, count};
use governor_core::order::{Order, hold};
use governor_core::units::Nanos;
use governor_core::verdict::{Outcome, Reason};

use super::model::{Breaker, BreakerState, NextProbe, Status};
use super::recent::tests::storm_after_a_quiet_day;
use super::{Names, Samples, detail, summary, table};
use crate::daemon::operators::NOTHING;
use crate::kernel::Snapshot;

const WORKLOAD: u64 = 42;
pub(super) const NOW: Nanos = Nanos::from_secs(1_000);

/// One workload that was refused 20 times and denied 180 times, breaker open.
pub(super) fn refused() -> Snapshot {
    let address = "10.0.0.5"
        .parse::<std::net::Ipv4Addr>()
        .unwrap()
        .to_ipv6_mapped()
        .octets();
    let endpoint = EndpointKey {
        workload: WORKLOAD,
        address,
        port: 8080,
        reserved: 0,
    };
    let mut ledger = WorkloadLedger::default();
    ledger.counts[count::FIRST] = 20;
    ledger.counts[count::SUSPECTED] = 19;
    ledger.counts[count::OFFERED_FIRST] = 200;
    ledger.counts[count::DENIED_FIRST] = 180;
    ledger.counts[count::DENIED + Reason::Breaker as usize] = 180;
    ledger.counts[count::CONNECT + Outcome::Refused as usize] = 20;
    ledger.counts[count::TRIPPED] = 1;
    let mut open = EndpointLedger::<u64> {
        touched: 999_000,
        ..EndpointLedger::default()
    };
    set_breaker(&mut open, 2, 1_001_000);
    let destination = endpoint.destination(0);
    Snapshot {
        at: NOW,
        generation: 1,
        endpoints: vec![(endpoint, open)],
        workloads: vec![(
            WorkloadKey {
                workload: WORKLOAD,
                destination,
            },
            ledger,
        )],
        destinations: vec![(destination, DestinationLedger::default())],
        ..Snapshot::default()
    }
}

pub(super) fn status(snapshot: &Snapshot) -> Status {
    status_since(&Samples::default(), snapshot)
}

pub(super) fn status_since(samples: &Samples, snapshot: &Snapshot) -> Status {
    let workloads = HashMap::from([(WORKLOAD, "/app.slice/legacy.service".to_owned())]);
    let names = Names {
        workloads: &workloads,
        groups: &BTreeMap::new(),
        policies: &[],
        caveats: &HashMap::new(),
    };
    Status::new(
        snapshot,
        &names,
        &HashMap::new(),
        samples.recently(snapshot).as_ref(),
        Vec::new(),
        Path::new("/"),
        Duration::from_secs(12),
    )
}

#[test]
fn denied_attempts_are_offered_but_not_attempts() {
    let status = status(&refused());
    let destination = &status.destinations[0];
    assert_eq!(destination.destination, "10.0.0.5:8080");
    assert_eq!(
        (destination.attempts, destination.offered.first_tries),
        (20, 200)
    );
    assert_eq!(
        (destination.failures.refused, destination.denied.breaker),
        (20, 180)
    );
    assert_eq!(destination.amplification, Some(0.1));
    assert_eq!(destination.workloads[0].denied, 180);
}

#[test]
fn an_open_breaker_says_when_its_next_probe_may_go() {
    let status = status(&refused());
    let endpoint = &status.destinations[0].endpoints[0];
    assert_eq!(endpoint.workload, "/app.slice/legacy.service");
    assert_eq!(endpoint.breaker.state, BreakerState::Open);
    assert!(
        endpoint
            .breaker
            .next_probe_at
            .as_deref()
            .unwrap()
            .ends_with('Z')
    );
}

/// What `status DESTINATION` says of the breaker of the first endpoint, and the JSON.
fn told(snapshot: &Snapshot) -> (String, Breaker) {
    let status = status(snapshot);
    let text = detail(&status);
    let line = text.lines().find(|line| line.contains("breaker "));
    let breaker = status.destinations[0].endpoints[0].breaker.clone();
    (line.unwrap().to_owned(), breaker)
}

/// Where it stands (1: half-open, 2: open), until when, in milliseconds.
fn set_breaker(endpoint: &mut EndpointLedger, state: u64, until: u64) {
    let word = state << 62 | until;
    bytemuck::bytes_of_mut(endpoint)[..8].copy_from_slice(&word.to_ne_bytes());
}

#[test]
fn a_probe_whose_time_has_come_waits_for_an_attempt_or_for_its_turn() {
    let mut snapshot = refused();
    let (line, breaker) = told(&snapshot);
    assert_eq!(breaker.next_probe, Some(NextProbe::Later));
    let at = breaker.next_probe_at.unwrap();
    assert!(line.ends_with(&format!(", next probe {at}")), "{line}");

    set_breaker(&mut snapshot.endpoints[0].1, 2, 990_000);
    let (line, breaker) = told(&snapshot);
    assert_eq!(
        (breaker.next_probe, breaker.next_probe_at),
        (Some(NextProbe::Due), None)
    );
    assert!(line.ends_with("now, with the next attempt"), "{line}");

    // Another workload, later in the list, probes the same ip:port.
    let (key, mut other) = snapshot.endpoints[0];
    let key = EndpointKey {
        workload: WORKLOAD + 1,
        ..key
    };
    set_breaker(&mut other, 1, 1_001_000);
    snapshot.endpoints.push((key, other));
    let (line, breaker) = told(&snapshot);
    assert_eq!(
        (breaker.next_probe, breaker.next_probe_at),
        (Some(NextProbe::InTurn), None)
    );
    assert!(
        line.ends_with("another workload probes this address"),
        "{line}"
    );
    assert!(detail(&status(&snapshot)).contains("half-open since -, a probe is on its way"));

    // Another ip:port, or a probe that is lost: nobody's turn.
    snapshot.endpoints[1].0.port += 1;
    assert_eq!(told(&snapshot).1.next_probe, Some(NextProbe::Due));
    snapshot.endpoints[1].0.port -= 1;
    set_breaker(&mut snapshot.endpoints[1].1, 1, 999_000);
    assert_eq!(told(&snapshot).1.next_probe, Some(NextProbe::Due));
}

#[test]
fn while_an_operator_holds_a_breaker_no_probe_is_promised() {
    let mut snapshot = refused();
    let order = Order {
        hold: hold::OPEN,
        hold_until: NOW.0 + 1,
        ..NOTHING
    };
    let key = OrderKey {
        workload: 0,
        destination: snapshot.endpoints[0].0.destination(0),
    };
    snapshot.orders = vec![(key, order)];
    let (line, breaker) = told(&snapshot);
    assert_eq!(breaker.next_probe, Some(NextProbe::Held));
    assert!(
        line.ends_with("no probe goes: an operator holds it"),
        "{line}"
    );
    snapshot.orders[0].1.hold_until = NOW.0;
    assert_eq!(told(&snapshot).1.next_probe, Some(NextProbe::Later));
}

#[test]
fn what_an_order_refuses_is_not_said_to_be_a_shed_order() {
    let mut snapshot = refused();
    snapshot.workloads[0].1.counts[count::DENIED + Reason::Shed as usize] = 7;
    let status = status(&snapshot);
    assert_eq!(status.destinations[0].denied.shed, 7);
    let text = detail(&status);
    assert!(
        text.contains("187 denied (180 breaker, 7 shed by an operator's order)"),
        "{text}"
    );
}

#[test]
fn the_json_has_the_keys_of_the_contract() {
    let json = serde_json::to_value(storm_after_a_quiet_day()).unwrap();
    for path in [
        "/apiVersion",
        "/node",
        "/version",
        "/uptimeSeconds",
        "/kernel/release",
        "/kernel/hooks",
        "/retries/state",
        "/retries/percent",
        "/retries/expiresAt",
        "/destinations/0/destination",
        "/destinations/0/addresses/0",
        "/destinations/0/policy",
        "/destinations/0/mode",
        "/destinations/0/firstTries",
        "/destinations/0/suspectedRetries",
        "/destinations/0/offered/firstTries",
        "/destinations/0/offered/retries",
        "/destinations/0/successes",
        "/destinations/0/failures/noAnswer",
        "/destinations/0/failures/status",
        "/destinations/0/denied/retryAfter",
        "/destinations/0/wouldDeny/notRetryable",
        "/destinations/0/denied/nonIdempotent",
        "/destinations/0/requests/sent",
        "/destinations/0/requests/unread",
        "/destinations/0/requests/unreached",
        "/destinations/0/deniedFirstTries",
        "/destinations/0/deniedAgain",
        "/destinations/0/wouldDenySucceeded",
        "/destinations/0/wouldDenyFailed",
        "/destinations/0/amplification",
        "/destinations/0/budget",
        "/destinations/0/endpoints/0/breaker/openedAt",
        "/destinations/0/endpoints/0/breaker/nextProbeAt",
        "/destinations/0/endpoints/0/breaker/nextProbe",
        "/destinations/0/concurrency/limit",
        "/destinations/0/concurrency/inFlight",
        "/destinations/0/latencySeconds/p50",
        "/destinations/0/recent/seconds",
        "/destinations/0/recent/attempts",
        "/destinations/0/recent/firstTries",
        "/destinations/0/recent/failed",
        "/destinations/0/recent/denied",
        "/destinations/0/recent/amplification",
        "/destinations/0/recent/latencySeconds/p50",
        "/destinations/0/recent/latencySeconds/p99",
        "/destinations/0/workloads/0/workload",
        "/destinations/0/workloads/0/denied",
    ] {
        assert!(json.pointer(path).is_some(), "{path} is missing in {json}");
    }
}

#[test]
fn failed_answers_are_shown_by_code() {
    let mut snapshot = refused();
    let counts = &mut snapshot.workloads[0].1.counts;
    counts[count::EXCHANGE + Outcome::Status as usize] = 15;
    counts[count::STATUS + governor_core::status::index(503)] = 12;
    counts[count::STATUS + governor_core::status::index(599)] = 3;
    counts[count::UNREACHED] = 4;
    let status = status(&snapshot);
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(
        json.pointer("/destinations/0/failures/status"),
        Some(&serde_json::json!({"503": 12, "5xx": 3}))
    );
    let summary = summary(&status);
    assert!(
        summary.contains("35 failed (20 refused, 12 status 503, 3 status 5xx)"),
        "{summary}"
    );
    assert!(
        summary.contains("requests let through: 4 out of reach"),
        "{summary}"
    );
}

#[test]
fn the_table_fits_80_columns() {
    let mut status = storm_after_a_quiet_day();
    let destination = &mut status.destinations[0];
    destination.destination = "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535".to_owned();
    destination.mode = Some("Disabled".to_owned());
    destination.attempts = u64::MAX / 1_000_000_000_000_000;
    destination.would_deny.budget = 999_999;
    let text = table(&status);
    for line in text.lines() {
        assert!(
            line.chars().count() <= 80,
            "{} columns: {line}",
            line.chars().count()
        );
    }
    assert!(text.contains("open"), "{text}");
}

#[test]
fn the_summary_tells_what_was_denied_and_why() {
    assert_eq!(
        summary(&status(&refused())),
        "retry-governor: 10.0.0.5:8080: 200 tries, 180 denied (breaker), 20 sent, \
         20 failed (refused)\n\
         retry-governor:   19 suspected retries, amplification 0.10, \
         breaker opened once, 0 probes, closed never\n"
    );
    assert_eq!(
        summary(&status(&Snapshot::default())),
        "retry-governor: the command made no TCP connects\n"
    );
}
