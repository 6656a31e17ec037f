//! One destination, as a person in an incident asks for it: why, who, where.

use std::fmt::Write as _;

use super::model::{BreakerState, Destination, Endpoint, Latency, NextProbe, Recent, Status};
use super::summary::by_kind;
use super::table::{duration, number};

/// Endpoints and workloads that are told of; the rest is in the JSON.
const MOST: usize = 20;

/// What the table has no room for, of every destination in the status.
pub fn detail(status: &Status) -> String {
    status.destinations.iter().map(tell).collect()
}

fn tell(destination: &Destination) -> String {
    let mut out = format!("\n{}", destination.destination);
    let _ = match (&destination.policy, &destination.mode) {
        (Some(policy), Some(mode)) => writeln!(out, ": policy {policy}, {mode}"),
        _ => writeln!(out, ": no policy, only observed"),
    };
    for line in lines(destination) {
        let _ = writeln!(out, "  {line}");
    }
    for endpoint in destination.endpoints.iter().take(MOST) {
        let _ = writeln!(
            out,
            "  {} by {}: {}",
            endpoint.address,
            endpoint.workload,
            breaker(endpoint)
        );
    }
    more(&mut out, destination.endpoints.len(), "endpoints");
    for workload in destination.workloads.iter().take(MOST) {
        let _ = writeln!(
            out,
            "  {}: {} attempts, {} retries, {} denied",
            workload.workload,
            number(workload.attempts),
            number(workload.retries),
            number(workload.denied)
        );
    }
    more(&mut out, destination.workloads.len(), "workloads");
    out
}

fn lines(destination: &Destination) -> Vec<String> {
    let mut lines = Vec::new();
    let denied = match destination.mode.as_deref() {
        Some("Audit") => "would have been denied",
        _ => "denied",
    };
    lines.extend(destination.recent.map(|recent| lately(&recent, denied)));
    lines.push(measured(
        format!(
            "since it was first called: {} attempts",
            number(destination.attempts)
        ),
        destination.amplification,
        destination.latency_seconds,
    ));
    lines.extend(by_kind("failed", &destination.failures.named()));
    lines.extend(by_kind("denied", &destination.denied.named()));
    if destination.denied_first_tries > 0 {
        let first = destination.denied_first_tries;
        lines.push(format!("{first} of the denied were first tries"));
    }
    let would = destination.would_deny.named();
    lines.extend(by_kind("would have been denied", &would));
    if destination.would_deny.total() > 0 {
        lines.push(format!(
            "of those {} succeeded (harm), {} failed (help)",
            destination.would_deny_succeeded, destination.would_deny_failed
        ));
    }
    lines.extend(destination.requests.unjudged());
    let mut now = vec![format!("{} in flight", destination.concurrency.in_flight)];
    if let Some(limit) = destination.concurrency.limit {
        now.push(format!("limit {limit}"));
    }
    if let Some(budget) = destination.budget {
        now.push(format!("{} retries left in the budget", budget.balance));
    }
    lines.push(now.join(", "));
    lines
}

fn lately(recent: &Recent, denied: &str) -> String {
    let told = format!(
        "last {:.0} s: {} attempts, {} first tries, {} failed, {} {denied}",
        recent.seconds,
        number(recent.attempts),
        number(recent.first_tries),
        number(recent.failed),
        number(recent.denied),
    );
    measured(told, recent.amplification, recent.latency_seconds)
}

fn measured(mut told: String, amplification: Option<f64>, latency: Latency) -> String {
    if let Some(amplification) = amplification {
        let _ = write!(told, ", amplification {amplification:.2}");
    }
    if let (Some(p50), Some(p99)) = (latency.p50, latency.p99) {
        let _ = write!(told, ", p50 {}, p99 {}", duration(p50), duration(p99));
    }
    told
}

fn breaker(endpoint: &Endpoint) -> String {
    let breaker = &endpoint.breaker;
    let state = match breaker.state {
        BreakerState::Closed => return "breaker closed".to_owned(),
        BreakerState::HalfOpen => "half-open",
        BreakerState::Open => "open",
    };
    let next = match (breaker.next_probe, &breaker.next_probe_at) {
        (Some(NextProbe::Sent), _) => "a probe is on its way",
        (Some(NextProbe::Due), _) => "a probe may go now, with the next attempt",
        (Some(NextProbe::InTurn), _) => "waits for its turn: another workload probes this address",
        (Some(NextProbe::Held), _) => "no probe goes: an operator holds it",
        (_, Some(at)) => &format!("next probe {at}"),
        (_, None) => "next probe -",
    };
    let since = breaker.opened_at.as_deref().unwrap_or("-");
    format!("breaker {state} since {since}, {next}")
}

fn more(out: &mut String, all: usize, what: &str) {
    if let Some(more) = all.checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(out, "  and {more} more {what} (--json)");
    }
}
