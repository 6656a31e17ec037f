//! One destination: its ledgers, summed and named.

use std::collections::{BTreeSet, HashMap};

use governor_core::breaker::State;
use governor_core::key::{DestinationKey, EndpointKey};
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger, count};
use governor_core::status::{STATUSES, name};
use governor_core::verdict::{Outcome, REASONS, Reason};

use super::attempts::Attempts;
use super::build::{Names, label};
use super::clock::Clock;
use super::histogram::percentile;
use super::model::*;
use super::probe::Probes;
use super::samples::Recently;
use crate::kernel::{Snapshot, params, selected};
use crate::policy::Policy;

/// What the snapshot has of one destination.
#[derive(Default)]
struct Parts<'a> {
    workloads: Vec<(u64, &'a WorkloadLedger)>,
    endpoints: Vec<(&'a EndpointKey, &'a EndpointLedger)>,
    ledger: Option<&'a DestinationLedger>,
}

/// Every destination, busiest first.
pub(super) fn destinations(
    snapshot: &Snapshot,
    names: &Names<'_>,
    recently: Option<&Recently>,
    clock: &Clock,
) -> Vec<Destination> {
    let mut parts: HashMap<DestinationKey, Parts<'_>> = HashMap::new();
    for (key, ledger) in &snapshot.workloads {
        let part = parts.entry(key.destination).or_default();
        part.workloads.push((key.workload, ledger));
    }
    for (key, ledger) in &snapshot.destinations {
        parts.entry(*key).or_default().ledger = Some(ledger);
    }
    // An endpoint that no policy judges was only looked up.
    for (key, ledger) in snapshot
        .endpoints
        .iter()
        .filter(|(_, ledger)| ledger.touched != 0)
    {
        let group = u32::try_from(ledger.group).unwrap_or(0);
        parts
            .entry(key.destination(group))
            .or_default()
            .endpoints
            .push((key, ledger));
    }
    let probes = Probes::new(snapshot);
    let mut destinations: Vec<_> = parts
        .iter()
        .map(|(key, parts)| {
            destination(
                key,
                parts,
                snapshot.generation,
                &probes,
                names,
                recently,
                clock,
            )
        })
        .collect();
    let offered = |d: &Destination| d.offered.first_tries + d.offered.retries;
    destinations.sort_by(|a, b| {
        offered(b)
            .cmp(&offered(a))
            .then_with(|| a.destination.cmp(&b.destination))
    });
    destinations
}

fn destination(
    key: &DestinationKey,
    parts: &Parts<'_>,
    generation: u32,
    probes: &Probes<'_>,
    names: &Names<'_>,
    recently: Option<&Recently>,
    clock: &Clock,
) -> Destination {
    let sum = |which: usize| {
        parts
            .workloads
            .iter()
            .map(|(_, ledger)| at(ledger, which))
            .sum::<u64>()
    };
    let policy = policy(key, parts, generation, names);
    let (reached, offered) = (Attempts::reached(sum), Attempts::offered(sum));
    let addresses: BTreeSet<_> = parts
        .endpoints
        .iter()
        .map(|(key, _)| label(&key.address, key.port))
        .collect();
    Destination {
        destination: names.destination(key),
        addresses: addresses.into_iter().collect(),
        policy: policy.map(|policy| policy.name.clone()),
        mode: policy.map(|policy| policy.spec.mode.to_string()),
        attempts: reached.total(),
        first_tries: reached.first,
        retries: reached.retries,
        suspected_retries: sum(count::SUSPECTED),
        offered: Offered {
            first_tries: offered.first,
            retries: offered.retries,
        },
        requests: Requests {
            sent: sum(count::REQUEST_FIRST) + sum(count::REQUEST_RETRY),
            first_on_connection: sum(count::CARRIED),
            unread: sum(count::UNREAD),
            unreached: sum(count::UNREACHED),
        },
        successes: parts
            .workloads
            .iter()
            .map(|(_, ledger)| successes(ledger))
            .sum(),
        failures: failures(sum),
        denied: reasons(sum, count::DENIED),
        would_deny: reasons(sum, count::WOULD_DENY),
        denied_first_tries: sum(count::DENIED_FIRST),
        denied_again: sum(count::DENIED_AGAIN),
        would_deny_succeeded: sum(count::WOULD_DENY_SUCCEEDED),
        would_deny_failed: sum(count::WOULD_DENY_FAILED),
        amplification: ratio(reached.total(), offered.first),
        budget: budget(parts, policy, clock),
        endpoints: endpoints(parts, probes, names, clock),
        breaker_moves: BreakerMoves {
            tripped: sum(count::TRIPPED),
            reopened: sum(count::REOPENED),
            closed: sum(count::CLOSED),
            probes: sum(count::PROBE_SENT),
        },
        concurrency: concurrency(parts, policy, clock),
        latency_seconds: parts
            .ledger
            .map(|ledger| latency(&ledger.latency))
            .unwrap_or_default(),
        recent: recently
            .map(|recently| Recent::new(recently, key, policy.map(|policy| policy.spec.mode))),
        workloads: workloads(parts, names),
    }
}

fn at(ledger: &WorkloadLedger, which: usize) -> u64 {
    ledger.counts.get(which).copied().unwrap_or(0)
}

fn outcome(of: impl Fn(usize) -> u64, outcome: Outcome) -> u64 {
    of(count::CONNECT + outcome as usize) + of(count::EXCHANGE + outcome as usize)
}

/// Where exchanges are seen, a connect alone is no success (a stalled
/// application still accepts).
fn successes(ledger: &WorkloadLedger) -> u64 {
    let exchanges = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != Outcome::Cancelled);
    let seen: u64 = exchanges
        .map(|outcome| at(ledger, count::EXCHANGE + outcome as usize))
        .sum();
    let base = if seen == 0 {
        count::CONNECT
    } else {
        count::EXCHANGE
    };
    at(ledger, base + Outcome::Success as usize)
}

/// Successes and failures of one workload's attempts.
pub fn ended(ledger: &WorkloadLedger) -> (u64, u64) {
    let failures = Outcome::ALL
        .into_iter()
        .filter(|outcome| !matches!(outcome, Outcome::Success | Outcome::Cancelled));
    let failed = failures.map(|failure| outcome(|which| at(ledger, which), failure));
    (successes(ledger), failed.sum())
}

pub(super) fn failures(sum: impl Fn(usize) -> u64) -> Failures {
    Failures {
        refused: outcome(&sum, Outcome::Refused),
        timeout: outcome(&sum, Outcome::Timeout),
        unreachable: outcome(&sum, Outcome::Unreachable),
        reset: outcome(&sum, Outcome::Reset),
        no_answer: outcome(&sum, Outcome::NoAnswer),
        status: (0..STATUSES)
            .map(|index| (name(index).to_owned(), sum(count::STATUS + index)))
            .filter(|(_, count)| *count > 0)
            .collect(),
    }
}

pub(super) fn reasons(sum: impl Fn(usize) -> u64, base: usize) -> Reasons {
    let of = |reason: Reason| sum(base + reason as usize);
    Reasons {
        budget: of(Reason::Budget),
        breaker: of(Reason::Breaker),
        concurrency: of(Reason::Concurrency),
        shed: of(Reason::Shed),
        retry_after: of(Reason::RetryAfter),
        deadline: of(Reason::Deadline),
        attempts: of(Reason::Attempts),
        not_retryable: of(Reason::NotRetryable),
        non_idempotent: of(Reason::NonIdempotent),
    }
}

/// To two decimals; none where there is nothing to divide by.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| (part as f64 / whole as f64 * 100.0).round() / 100.0)
}

/// The policy that judges a destination: of its group, else of its endpoints.
fn policy<'a>(
    key: &DestinationKey,
    parts: &Parts<'_>,
    generation: u32,
    names: &Names<'a>,
) -> Option<&'a Policy> {
    match names.groups.get(&key.group) {
        Some(group) => names
            .policies
            .iter()
            .find(|policy| policy.name == group.policy),
        None => {
            let mut endpoints = parts.endpoints.iter();
            let rule = endpoints.find_map(|(_, ledger)| selected(ledger, generation))?;
            names.policies.get(rule as usize)
        }
    }
}

fn budget(parts: &Parts<'_>, policy: Option<&Policy>, clock: &Clock) -> Option<Budget> {
    let p = params(&policy?.spec);
    let ledger = parts.ledger?.view();
    let allowance = ledger.budget.allowance(&p, clock.now);
    let balance = allowance.saturating_sub(ledger.budget.spent(&p, clock.now));
    Some(Budget {
        percent: f64::from(p.budget_percent) / 100.0,
        balance: balance as f64,
    })
}

fn endpoints(
    parts: &Parts<'_>,
    probes: &Probes<'_>,
    names: &Names<'_>,
    clock: &Clock,
) -> Vec<Endpoint> {
    let endpoint = |(key, ledger): &(&EndpointKey, &EndpointLedger)| {
        let breaker = ledger.view().breaker;
        let view = breaker.view();
        let state = match view.state {
            State::Closed => BreakerState::Closed,
            State::HalfOpen => BreakerState::HalfOpen,
            State::Open => BreakerState::Open,
        };
        let open = state != BreakerState::Closed;
        let next_probe = probes.next(key, ledger);
        Endpoint {
            address: label(&key.address, key.port),
            workload: names.workload(key.workload),
            breaker: Breaker {
                state,
                opened_at: clock.wall_millis(breaker.opened()).filter(|_| open),
                next_probe_at: clock
                    .wall_millis(view.deadline)
                    .filter(|_| next_probe == Some(NextProbe::Later)),
                next_probe,
            },
        }
    };
    let mut endpoints: Vec<_> = parts.endpoints.iter().map(endpoint).collect();
    endpoints.sort_by(|a, b| (&a.address, &a.workload).cmp(&(&b.address, &b.workload)));
    endpoints
}

fn concurrency(parts: &Parts<'_>, policy: Option<&Policy>, clock: &Clock) -> Concurrency {
    let limiters = || {
        parts
            .workloads
            .iter()
            .map(|(_, ledger)| ledger.view().limiter)
    };
    let limit = policy.and_then(|policy| {
        let p = params(&policy.spec);
        limiters().filter_map(|limiter| limiter.limit(&p)).min()
    });
    Concurrency {
        limit,
        in_flight: limiters().map(|limiter| limiter.in_flight(clock.now)).sum(),
    }
}

pub(super) fn latency(counts: &[u64]) -> Latency {
    let seconds = |percent| Some(percentile(counts, percent)?.as_secs_f64());
    Latency {
        p50: seconds(50),
        p99: seconds(99),
    }
}

fn workloads(parts: &Parts<'_>, names: &Names<'_>) -> Vec<Workload> {
    let workload = |(id, ledger): &(u64, &WorkloadLedger)| {
        let reached = Attempts::reached(|which| at(ledger, which));
        Workload {
            workload: names.workload(*id),
            attempts: reached.total(),
            retries: reached.retries,
            denied: (0..REASONS)
                .map(|reason| at(ledger, count::DENIED + reason))
                .sum(),
        }
    };
    let mut workloads: Vec<_> = parts.workloads.iter().map(workload).collect();
    workloads.sort_by(|a, b| a.workload.cmp(&b.workload));
    workloads
}
