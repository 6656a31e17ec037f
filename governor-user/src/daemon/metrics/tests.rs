//! The page against docs/metrics.md.

use governor_core::ledger::{DestinationLedger, count};
use governor_core::limiter::OCTAVES;
use governor_core::verdict::{Outcome, Reason};

use super::*;

fn page() -> Page {
    let mut counts = [0; count::ALL];
    counts[count::FIRST] = 900;
    counts[count::RETRY] = 100;
    counts[count::REQUEST_FIRST] = 2_000;
    counts[count::REQUEST_RETRY] = 150;
    counts[count::CARRIED] = 800;
    counts[count::UNREACHED] = 4;
    counts[count::UNREAD] = 1;
    counts[count::EXCHANGE + Outcome::Status as usize] = 15;
    counts[count::STATUS + governor_core::status::index(429)] = 2;
    counts[count::STATUS + governor_core::status::index(503)] = 12;
    counts[count::STATUS + governor_core::status::index(599)] = 1;
    counts[count::DENIED + Reason::NonIdempotent as usize] = 6;
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
        losses: std::array::from_fn(|which| if which == 0 { 7 } else { 0 }),
        fill: vec![Fill {
            map: "ENDPOINTS",
            entries: 1,
            capacity: 16_384,
        }],
        hooks: [
            ("connect4", true),
            ("connect6", false),
            ("act_egress/lo", true),
        ]
        .map(|(hook, attached)| (hook.to_owned(), attached))
        .to_vec(),
        out_of_reach: vec!["wg0".to_owned()],
    }
}

#[test]
fn the_page_has_the_names_and_labels_that_are_documented() {
    let text = page().text().unwrap();
    for line in [
        r#"retry_governor_attempts_total{destination="auth",workload="/a.service",level="connect",kind="first"} 900"#,
        r#"retry_governor_attempts_total{destination="auth",workload="/a.service",level="connect",kind="retry"} 100"#,
        r#"retry_governor_attempts_total{destination="auth",workload="/a.service",level="request",kind="first"} 2000"#,
        r#"retry_governor_attempts_total{destination="auth",workload="/a.service",level="request",kind="retry"} 150"#,
        r#"retry_governor_first_requests_total{destination="auth",workload="/a.service"} 800"#,
        r#"retry_governor_unjudged_requests_total{destination="auth",workload="/a.service",cause="unreached"} 4"#,
        r#"retry_governor_unjudged_requests_total{destination="auth",workload="/a.service",cause="unread"} 1"#,
        r#"retry_governor_outcomes_total{destination="auth",workload="/a.service",level="request",outcome="status_4xx"} 2"#,
        r#"retry_governor_outcomes_total{destination="auth",workload="/a.service",level="request",outcome="status_5xx"} 13"#,
        r#"retry_governor_failed_answers_total{destination="auth",workload="/a.service",code="503"} 12"#,
        r#"retry_governor_failed_answers_total{destination="auth",workload="/a.service",code="5xx"} 1"#,
        r#"retry_governor_denied_total{destination="auth",workload="/a.service",reason="non_idempotent",mode="enforce"} 6"#,
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
        r#"retry_governor_policy_reloads_total{result="success"} 2"#,
        r#"retry_governor_policy_reloads_total{result="failure"} 1"#,
        "retry_governor_events_lost_total 7",
        r#"retry_governor_map_entries{map="ENDPOINTS"} 1"#,
        r#"retry_governor_map_capacity{map="ENDPOINTS"} 16384"#,
        r#"retry_governor_hook_attached{hook="connect4"} 1"#,
        r#"retry_governor_hook_attached{hook="connect6"} 0"#,
        r#"retry_governor_hook_attached{hook="act_egress/lo"} 1"#,
        r#"retry_governor_interface_out_of_reach{interface="wg0"} 1"#,
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
