//! The page as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt::Error;

use governor_core::key::loss;
use governor_core::ledger::count;
use governor_core::status::{STATUSES, name};
use governor_core::verdict::{Outcome, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Page;
use super::histogram::Histogram;
use crate::daemon::series::Counts;
use crate::errors::{Failure, Result};

impl Page {
    /// As OpenMetrics text.
    pub fn text(self) -> Result<String> {
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

/// Failed answers by class.
fn status_classes(counts: &Counts) -> [(&'static str, u64); 2] {
    let sum = |class: char| {
        (0..STATUSES)
            .filter(|index| name(*index).starts_with(class))
            .map(|index| at(counts, count::STATUS + index))
            .sum()
    };
    [("status_4xx", sum('4')), ("status_5xx", sum('5'))]
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
        let kinds = [
            ("connect", "first", count::FIRST),
            ("connect", "retry", count::RETRY),
            ("request", "first", count::REQUEST_FIRST),
            ("request", "retry", count::REQUEST_RETRY),
        ];
        counters(
            e,
            "attempts",
            "Connects and requests that reached the network",
            rows().flat_map(|(d, w, counts)| {
                kinds.map(|(level, kind, which)| {
                    ([d, w, ("level", level), ("kind", kind)], at(counts, which))
                })
            }),
        )?;
        counters(
            e,
            "first_requests",
            "Requests that are one attempt with their connect: attempts are connects + requests - these",
            rows().map(|(d, w, counts)| ([d, w], at(counts, count::CARRIED))),
        )?;
        let causes = [("unreached", count::UNREACHED), ("unread", count::UNREAD)];
        counters(
            e,
            "unjudged_requests",
            "Requests let through: no executor reaches their socket, or they can not be read",
            rows().flat_map(|(d, w, counts)| {
                causes.map(|(cause, which)| ([d, w, ("cause", cause)], at(counts, which)))
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
                    let known = Outcome::ALL
                        .into_iter()
                        .filter(|outcome| *outcome != Outcome::Status)
                        .map(move |outcome| (outcome.name(), count(outcome)));
                    let classes = match level {
                        "request" => status_classes(counts),
                        _ => [("", 0); 2],
                    };
                    let seen = known.chain(classes).filter(|(_, count)| *count > 0);
                    seen.map(move |(outcome, count)| {
                        ([d, w, ("level", level), ("outcome", outcome)], count)
                    })
                })
            }),
        )?;
        counters(
            e,
            "failed_answers",
            "Answers that are failures, by code; the rest by class",
            rows().flat_map(|(d, w, counts)| {
                let seen =
                    (0..STATUSES).map(|index| (name(index), at(counts, count::STATUS + index)));
                seen.filter(|(_, count)| *count > 0)
                    .map(move |(code, count)| ([d, w, ("code", code)], count))
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
        let reloads = [("success", applied), ("failure", refused)];
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
            ("not_answered", loss::NOT_ANSWERED),
        ];
        counters(
            e,
            "unjudged",
            "Attempts that passed because they could not be judged, or their refusal not carried out",
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
            "Whether a program is attached, asked of the cgroup or the interface",
            self.hooks
                .iter()
                .map(|(hook, attached)| ([("hook", hook.as_str())], u32::from(*attached))),
        )?;
        gauges(
            e,
            "interface_out_of_reach",
            "Interfaces whose requests are counted and never refused",
            self.out_of_reach
                .iter()
                .map(|device| ([("interface", device.as_str())], 1u32)),
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
