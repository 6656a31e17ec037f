//! The metrics page: made anew for each scrape from a snapshot of the ledgers,
//! which are the only place where anything is counted.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Error;
use std::sync::atomic::Ordering;
use std::time::Instant;

use governor_core::key::{DestinationKey, loss};
use governor_core::ledger::{DestinationLedger, count};
use governor_core::limiter::OCTAVES;
use governor_core::verdict::{Outcome, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::node::{Node, State};
use super::series::{Counts, OTHER, Pair};
use crate::errors::{Failure, Result};
use crate::kernel::{Fill, Snapshot, params, selected};
use crate::status::Status;
use crate::status::model::BreakerState;

/// The first octave of latencies ends here, us.
const FIRST_OCTAVE_ENDS: u64 = 64;

/// What a scrape shows.
#[derive(Debug, Default)]
pub struct Page {
    pairs: BTreeMap<Pair, Counts>,
    destinations: BTreeMap<String, Destination>,
    gauges: BTreeMap<Pair, Gauges>,
    reloads: [u64; 2],
    losses: [u64; loss::ALL as usize],
    fill: Vec<Fill>,
    hooks: Vec<(&'static str, bool)>,
}

/// One destination.
#[derive(Debug, Default)]
struct Destination {
    amplification: Option<f64>,
    balance: Option<f64>,
    latency: Option<Histogram>,
    probes_under_way: u64,
}

/// One pair now.
#[derive(Debug, Default)]
struct Gauges {
    breaker: Option<BreakerState>,
    limit: Option<u64>,
    in_flight: u64,
}

/// Latencies of successes.
#[derive(Debug, PartialEq)]
struct Histogram {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

impl Histogram {
    fn of(ledger: &DestinationLedger) -> Self {
        let octaves = ledger
            .latency
            .chunks(4)
            .map(|quarters| quarters.iter().sum::<u64>());
        let ends = (0..OCTAVES).map(|octave| match octave {
            // The last octave holds all that is longer, too.
            last if last == OCTAVES - 1 => f64::INFINITY,
            octave => (FIRST_OCTAVE_ENDS << octave) as f64 / 1e6,
        });
        Self {
            sum: ledger.latency_sum as f64 / 1e6,
            buckets: ends.zip(octaves).collect(),
        }
    }
}

impl Node {
    /// The page, as text.
    pub fn metrics(&self) -> Result<String> {
        let not_attached = self.not_attached();
        let mut page = {
            let mut state = self.state();
            let snapshot = state.governor.snapshot()?;
            let status = self.status_of(&state, &snapshot);
            state.page(&snapshot, &status)
        };
        page.reloads = [&self.reloads.applied, &self.reloads.refused]
            .map(|count| count.load(Ordering::Relaxed));
        let hooks = crate::kernel::HOOKS.into_iter();
        page.hooks = hooks
            .map(|hook| (hook, !not_attached.contains(&hook)))
            .collect();
        page.text()
    }
}

impl State {
    fn page(&mut self, snapshot: &Snapshot, status: &Status) -> Page {
        let names = &self.names;
        let pair = |workload: u64, destination: &DestinationKey| {
            (names.destination(destination), names.workload(workload))
        };
        let ledgers = snapshot
            .workloads
            .iter()
            .map(|(key, ledger)| (*key, pair(key.workload, &key.destination), ledger.counts));
        let pairs = self.series.update(ledgers, Instant::now());
        let shown = self.series.destinations();

        let mut destinations: BTreeMap<String, Destination> = BTreeMap::new();
        let mut gauges: BTreeMap<Pair, Gauges> = BTreeMap::new();
        for destination in &status.destinations {
            let name = destination.destination.as_str();
            if !shown.contains(name) || name == OTHER {
                continue;
            }
            let entry = destinations.entry(name.to_owned()).or_default();
            entry.amplification = destination.amplification;
            entry.balance = destination.budget.map(|budget| budget.balance);
            let half_open = |state: BreakerState| state == BreakerState::HalfOpen;
            entry.probes_under_way = destination
                .endpoints
                .iter()
                .filter(|e| half_open(e.breaker.state))
                .count() as u64;
            for endpoint in &destination.endpoints {
                let gauge = gauges
                    .entry((name.to_owned(), endpoint.workload.clone()))
                    .or_default();
                gauge.breaker = gauge.breaker.max(Some(endpoint.breaker.state));
            }
        }
        for (key, ledger) in &snapshot.destinations {
            if let Some(destination) = destinations.get_mut(&names.destination(key)) {
                destination.latency = Some(Histogram::of(ledger));
            }
        }
        let rules: HashMap<_, _> = snapshot
            .endpoints
            .iter()
            .filter_map(|(key, ledger)| {
                let group = u32::try_from(ledger.group).unwrap_or(0);
                let rule = selected(ledger, snapshot.generation)?;
                Some(((key.workload, key.destination(group)), rule))
            })
            .collect();
        for (key, ledger) in &snapshot.workloads {
            let gauge = gauges
                .entry(pair(key.workload, &key.destination))
                .or_default();
            let limiter = ledger.view().limiter;
            gauge.in_flight += limiter.in_flight(snapshot.at);
            let rule = rules.get(&(key.workload, key.destination));
            let policy = rule.and_then(|rule| self.in_force.effective.get(*rule as usize));
            if let Some(limit) = policy.and_then(|policy| limiter.limit(&params(&policy.spec))) {
                gauge.limit = Some(gauge.limit.map_or(limit, |least| least.min(limit)));
            }
        }
        gauges.retain(|pair, _| self.series.shows(pair));
        Page {
            pairs,
            destinations,
            gauges,
            losses: snapshot.losses,
            fill: snapshot.fill.clone(),
            ..Page::default()
        }
    }
}

impl Page {
    /// As OpenMetrics text.
    fn text(self) -> Result<String> {
        let mut registry = Registry::with_prefix("retry_governor");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|error| Failure::failed("metrics", error))?;
        Ok(text)
    }

    /// Sums over the workloads of each destination.
    fn by_destination(&self, which: usize) -> impl Iterator<Item = (&str, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for ((destination, _), counts) in &self.pairs {
            *sums.entry(destination).or_default() += at(counts, which);
        }
        sums.into_iter()
    }
}

fn at(counts: &Counts, which: usize) -> u64 {
    counts.get(which).copied().unwrap_or(0)
}

/// As a label: `retry_after`.
fn label(reason: Reason) -> String {
    reason.name().chars().fold(String::new(), |mut label, c| {
        if c.is_ascii_uppercase() {
            label.push('_');
        }
        label.push(c.to_ascii_lowercase());
        label
    })
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let e = &mut encoder;
        self.attempts(e)?;
        self.breakers(e)?;
        let destinations = || {
            self.destinations
                .iter()
                .map(|(name, of)| ([("destination", name.as_str())], of))
        };
        gauges(
            e,
            "amplification_ratio",
            "Attempts that reached the network per first try offered",
            destinations().filter_map(|(labels, of)| Some((labels, of.amplification?))),
        )?;
        gauges(
            e,
            "budget_balance",
            "Retries that the budget allows now",
            destinations().filter_map(|(labels, of)| Some((labels, of.balance?))),
        )?;
        let pairs = || {
            self.gauges
                .iter()
                .map(|((d, w), of)| ([("destination", d.as_str()), ("workload", w.as_str())], of))
        };
        gauges(
            e,
            "concurrency_limit",
            "Limit of the adaptive concurrency, where one is in force",
            pairs().filter_map(|(labels, of)| Some((labels, of.limit?))),
        )?;
        gauges(
            e,
            "in_flight",
            "Attempts in flight",
            pairs().map(|(labels, of)| (labels, of.in_flight)),
        )?;
        self.latencies(e)?;
        self.daemon(e)
    }
}

impl Page {
    fn attempts(&self, e: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let rows = || {
            self.pairs.iter().map(|((d, w), counts)| {
                (
                    ("destination", d.as_str()),
                    ("workload", w.as_str()),
                    counts,
                )
            })
        };
        let kinds = [("first", count::FIRST), ("retry", count::RETRY)];
        counters(
            e,
            "attempts",
            "Attempts that reached the network",
            rows().flat_map(|(d, w, counts)| {
                kinds.map(|(kind, which)| {
                    (
                        [d, w, ("level", "connect"), ("kind", kind)],
                        at(counts, which),
                    )
                })
            }),
        )?;
        let levels = [("connect", count::CONNECT), ("request", count::EXCHANGE)];
        counters(
            e,
            "outcomes",
            "How attempts ended",
            rows().flat_map(|(d, w, counts)| {
                levels.into_iter().flat_map(move |(level, base)| {
                    let count = move |outcome: Outcome| at(counts, base + outcome as usize);
                    let seen = Outcome::ALL
                        .into_iter()
                        .filter(move |outcome| count(*outcome) > 0);
                    seen.map(move |outcome| {
                        (
                            [d, w, ("level", level), ("outcome", outcome.name())],
                            count(outcome),
                        )
                    })
                })
            }),
        )?;
        let reasons = Reason::ALL.map(label);
        let modes = [("enforce", count::DENIED), ("audit", count::WOULD_DENY)];
        let reasons = &reasons;
        counters(
            e,
            "denied",
            "Attempts refused (enforce), or that would have been (audit)",
            rows().flat_map(|(d, w, counts)| {
                modes.into_iter().flat_map(move |(mode, base)| {
                    let seen = reasons
                        .iter()
                        .enumerate()
                        .filter(move |(index, _)| at(counts, base + index) > 0);
                    seen.map(move |(index, reason)| {
                        (
                            [d, w, ("reason", reason.as_str()), ("mode", mode)],
                            at(counts, base + index),
                        )
                    })
                })
            }),
        )?;
        counters(
            e,
            "denied_again",
            "Denials above 100 per second and endpoint",
            rows().map(|(d, w, counts)| ([d, w], at(counts, count::DENIED_AGAIN))),
        )?;
        let outcomes = [
            ("succeeded", count::WOULD_DENY_SUCCEEDED),
            ("failed", count::WOULD_DENY_FAILED),
        ];
        counters(
            e,
            "would_deny_outcomes",
            "How attempts ended that audit would have refused",
            outcomes.into_iter().flat_map(|(outcome, which)| {
                self.by_destination(which)
                    .map(move |(d, value)| ([("destination", d), ("outcome", outcome)], value))
            }),
        )
    }

    fn breakers(&self, e: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        gauges(
            e,
            "breaker_state",
            "Worst breaker: 0 closed, 1 half-open, 2 open",
            self.gauges.iter().filter_map(|((d, w), of)| {
                Some((
                    [("destination", d.as_str()), ("workload", w.as_str())],
                    of.breaker? as u32,
                ))
            }),
        )?;
        let moves = [
            ("closed", "open", count::TRIPPED),
            ("open", "half_open", count::PROBE_SENT),
            ("half_open", "open", count::REOPENED),
            ("half_open", "closed", count::CLOSED),
        ];
        counters(
            e,
            "breaker_transitions",
            "Moves of breakers",
            moves.into_iter().flat_map(|(from, to, which)| {
                self.by_destination(which).map(move |(d, value)| {
                    ([("destination", d), ("from", from), ("to", to)], value)
                })
            }),
        )?;
        let results = [
            ("success", count::PROBE_SUCCESS),
            ("failure", count::PROBE_FAILURE),
        ];
        let answered = results.into_iter().flat_map(|(result, which)| {
            self.by_destination(which)
                .map(move |(d, value)| ([("destination", d), ("result", result)], value))
        });
        let sent: BTreeMap<_, _> = self.by_destination(count::PROBE_SENT).collect();
        let success: BTreeMap<_, _> = self.by_destination(count::PROBE_SUCCESS).collect();
        let expired = self
            .by_destination(count::PROBE_FAILURE)
            .map(move |(d, failure)| {
                let get = |counts: &BTreeMap<&str, u64>| counts.get(d).copied().unwrap_or(0);
                let under_way = self.destinations.get(d).map_or(0, |of| of.probes_under_way);
                let expired = get(&sent).saturating_sub(get(&success) + failure + under_way);
                ([("destination", d), ("result", "expired")], expired)
            });
        counters(
            e,
            "probes",
            "Probes of open breakers",
            answered.chain(expired),
        )
    }

    fn latencies(&self, e: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Time to an answer; to a connect where nothing is ever answered";
        let mut family = e.encode_descriptor(
            "exchange_duration_seconds",
            help,
            None,
            MetricType::Histogram,
        )?;
        for (name, of) in &self.destinations {
            let Some(Histogram { sum, buckets }) = &of.latency else {
                continue;
            };
            let total = buckets.iter().map(|(_, count)| count).sum();
            let labels = [("destination", name.as_str())];
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(*sum, total, buckets, None)?;
        }
        Ok(())
    }

    fn daemon(&self, e: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let [applied, refused] = self.reloads;
        let reloads = [("applied", applied), ("refused", refused)];
        counters(
            e,
            "policy_reloads",
            "Times that policies were loaded",
            reloads.map(|(result, n)| ([("result", result)], n)),
        )?;
        let lost = |which: u32| self.losses.get(which as usize).copied().unwrap_or(0);
        counters(
            e,
            "events_lost",
            "Events that did not fit into the ring",
            [(NO_LABELS, lost(loss::EVENTS))],
        )?;
        let causes = [
            ("ledger_full", loss::LEDGER_FULL),
            ("no_record", loss::NO_RECORD),
            ("no_policy", loss::NO_POLICY),
        ];
        counters(
            e,
            "unjudged",
            "Attempts that passed because they could not be judged",
            causes.map(|(cause, which)| ([("cause", cause)], lost(which))),
        )?;
        let fill = || self.fill.iter().map(|fill| ([("map", fill.map)], fill));
        gauges(
            e,
            "map_entries",
            "Entries in a map",
            fill().map(|(labels, fill)| (labels, fill.entries)),
        )?;
        gauges(
            e,
            "map_capacity",
            "Entries a map can hold",
            fill().map(|(labels, fill)| (labels, fill.capacity)),
        )?;
        gauges(
            e,
            "hook_attached",
            "Whether a program is attached, asked of the cgroup",
            self.hooks
                .iter()
                .map(|(hook, attached)| ([("hook", *hook)], u32::from(*attached))),
        )?;
        gauges(
            e,
            "build_info",
            "Version",
            [([("version", env!("CARGO_PKG_VERSION"))], 1u32)],
        )
    }
}

const NO_LABELS: [(&str, &str); 0] = [];

/// A family of counters; the encoder adds `_total`.
fn counters<L: EncodeLabelSet>(
    e: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (L, u64)>,
) -> Result<(), Error> {
    let mut family = e.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in rows {
        family
            .encode_family(&labels)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
    }
    Ok(())
}

fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
    e: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (L, V)>,
) -> Result<(), Error> {
    let mut family = e.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut counts = [0; count::ALL];
        counts[count::FIRST] = 900;
        counts[count::RETRY] = 100;
        counts[count::CONNECT + Outcome::NoAnswer as usize] = 3;
        counts[count::EXCHANGE + Outcome::Success as usize] = 850;
        counts[count::DENIED + Reason::RetryAfter as usize] = 4;
        counts[count::WOULD_DENY + Reason::Budget as usize] = 5;
        counts[count::WOULD_DENY_SUCCEEDED] = 2;
        counts[count::TRIPPED] = 1;
        counts[count::PROBE_SENT] = 6;
        counts[count::PROBE_SUCCESS] = 1;
        counts[count::PROBE_FAILURE] = 2;
        let pair = ("auth".to_owned(), "/a.service".to_owned());
        let mut ledger = DestinationLedger::default();
        ledger.latency[0] = 2;
        ledger.latency[7] = 3;
        ledger.latency[OCTAVES * 4 - 1] = 1;
        ledger.latency_sum = 1_500_000;
        let destination = Destination {
            amplification: Some(1.11),
            balance: Some(37.0),
            latency: Some(Histogram::of(&ledger)),
            probes_under_way: 1,
        };
        Page {
            pairs: [(pair.clone(), counts)].into(),
            destinations: [("auth".to_owned(), destination)].into(),
            gauges: [(
                pair,
                Gauges {
                    breaker: Some(BreakerState::Open),
                    limit: Some(8),
                    in_flight: 2,
                },
            )]
            .into(),
            reloads: [2, 1],
            losses: [7, 0, 0, 0],
            fill: vec![Fill {
                map: "ENDPOINTS",
                entries: 1,
                capacity: 16_384,
            }],
            hooks: vec![("connect4", true), ("connect6", false)],
        }
    }

    #[test]
    fn the_page_has_the_names_and_labels_of_the_contract() {
        let text = page().text().unwrap();
        for line in [
            r#"retry_governor_attempts_total{destination="auth",workload="/a.service",level="connect",kind="first"} 900"#,
            r#"retry_governor_attempts_total{destination="auth",workload="/a.service",level="connect",kind="retry"} 100"#,
            r#"retry_governor_outcomes_total{destination="auth",workload="/a.service",level="connect",outcome="no_answer"} 3"#,
            r#"retry_governor_outcomes_total{destination="auth",workload="/a.service",level="request",outcome="success"} 850"#,
            r#"retry_governor_denied_total{destination="auth",workload="/a.service",reason="retry_after",mode="enforce"} 4"#,
            r#"retry_governor_denied_total{destination="auth",workload="/a.service",reason="budget",mode="audit"} 5"#,
            r#"retry_governor_denied_again_total{destination="auth",workload="/a.service"} 0"#,
            r#"retry_governor_would_deny_outcomes_total{destination="auth",outcome="succeeded"} 2"#,
            r#"retry_governor_amplification_ratio{destination="auth"} 1.11"#,
            r#"retry_governor_budget_balance{destination="auth"} 37.0"#,
            r#"retry_governor_breaker_state{destination="auth",workload="/a.service"} 2"#,
            r#"retry_governor_breaker_transitions_total{destination="auth",from="closed",to="open"} 1"#,
            r#"retry_governor_probes_total{destination="auth",result="success"} 1"#,
            r#"retry_governor_probes_total{destination="auth",result="failure"} 2"#,
            r#"retry_governor_probes_total{destination="auth",result="expired"} 2"#,
            r#"retry_governor_concurrency_limit{destination="auth",workload="/a.service"} 8"#,
            r#"retry_governor_in_flight{destination="auth",workload="/a.service"} 2"#,
            r#"retry_governor_exchange_duration_seconds_sum{destination="auth"} 1.5"#,
            r#"retry_governor_exchange_duration_seconds_count{destination="auth"} 6"#,
            r#"retry_governor_exchange_duration_seconds_bucket{le="0.000064",destination="auth"} 2"#,
            r#"retry_governor_exchange_duration_seconds_bucket{le="0.000128",destination="auth"} 5"#,
            r#"retry_governor_exchange_duration_seconds_bucket{le="+Inf",destination="auth"} 6"#,
            r#"retry_governor_policy_reloads_total{result="applied"} 2"#,
            r#"retry_governor_policy_reloads_total{result="refused"} 1"#,
            "retry_governor_events_lost_total 7",
            r#"retry_governor_map_entries{map="ENDPOINTS"} 1"#,
            r#"retry_governor_map_capacity{map="ENDPOINTS"} 16384"#,
            r#"retry_governor_hook_attached{hook="connect4"} 1"#,
            r#"retry_governor_hook_attached{hook="connect6"} 0"#,
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line}\nis not in\n{text}"
            );
        }
        assert!(text.contains("retry_governor_build_info{version=\""));
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn no_name_is_described_twice_and_none_ends_in_total_twice() {
        let text = page().text().unwrap();
        let mut described: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let all = described.len();
        described.sort_unstable();
        described.dedup();
        assert_eq!(described.len(), all);
        assert!(!text.contains("_total_total"));
    }

    #[test]
    fn what_a_workload_is_called_can_not_break_the_page() {
        let mut page = page();
        let pair = ("auth".to_owned(), "/odd\"name\\x2d\n.service".to_owned());
        page.pairs.insert(pair, [0; count::ALL]);
        let text = page.text().unwrap();
        assert!(
            text.contains(r#"workload="/odd\"name\\x2d\n.service""#),
            "{text}"
        );
    }
}
