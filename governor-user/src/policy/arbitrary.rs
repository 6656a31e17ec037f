//! Random policies for property tests.

use ipnet::IpNet;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::schema::*;
use super::units::{Factor, GoDuration, Percent};

fn duration(millis: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = GoDuration> {
    millis.prop_map(GoDuration::millis)
}

fn percent(hundredths: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = Percent> {
    hundredths.prop_map(|n| format!("{}.{:02}", n / 100, n % 100).parse().unwrap())
}

fn choice<T>() -> impl Strategy<Value = T>
where
    T: std::str::FromStr<Err = strum::ParseError> + strum::VariantNames + std::fmt::Debug,
{
    select(T::VARIANTS).prop_map(|name| name.parse().unwrap())
}

/// Networks that nest and meet often.
pub fn net() -> impl Strategy<Value = IpNet> {
    select(vec![
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.0.0.0/24",
        "10.0.0.1/32",
        "10.0.0.2/32",
        "10.1.0.0/16",
        "::/0",
        "::ffff:0:0/96",
        "fd00::/8",
        "fd00:8::/64",
        "fd00:8::1/128",
    ])
    .prop_map(|net| net.parse().unwrap())
}

pub const HOSTS: [&str; 3] = ["a.internal", "b.internal", "gone.internal"];
pub const GLOBS: [&str; 5] = [
    "/a.slice/*",
    "/a.slice/x*",
    "/a.slice/xy",
    "/b.slice/**",
    "/",
];
pub const PORTS: [u16; 5] = [53, 80, 81, 443, 10250];

pub fn destination() -> impl Strategy<Value = Destination> {
    let hosts = btree_set(select(&HOSTS[..]), 0..=2);
    let cidrs = btree_set(net(), 0..=3);
    let ports = btree_set(select(&PORTS[..]), 0..=2);
    let named = |(_, hosts, cidrs, ports): &(
        _,
        std::collections::BTreeSet<_>,
        std::collections::BTreeSet<_>,
        std::collections::BTreeSet<_>,
    )| { !hosts.is_empty() || !cidrs.is_empty() || !ports.is_empty() };
    (
        option::of("[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?"),
        hosts,
        cidrs,
        ports,
    )
        .prop_filter("it names something", named)
        .prop_map(|(name, hosts, cidrs, ports)| Destination {
            name: name.filter(|name| name != "other"),
            hosts: hosts.into_iter().map(str::to_owned).collect(),
            cidrs: cidrs.into_iter().collect(),
            ports: ports.into_iter().collect(),
        })
}

pub fn workloads() -> impl Strategy<Value = Vec<Workload>> {
    let cgroup = |cgroup: &str| Workload {
        cgroup: cgroup.to_owned(),
    };
    btree_set(select(&GLOBS[..]), 0..=2)
        .prop_map(move |globs| globs.into_iter().map(cgroup).collect())
}

fn constraint() -> impl Strategy<Value = RetryConstraint> {
    (
        choice(),
        (percent(0..=10_000), duration(1_000..=60_000)),
        (0u32..=1_000_000, duration(1_000..=3_600_000)),
        percent(100..=10_000),
    )
        .prop_map(|(mode, budget, rate, max_reserve_share)| RetryConstraint {
            mode,
            budget: Budget {
                percent: budget.0,
                interval: budget.1,
            },
            min_retry_rate: RetryRate {
                count: rate.0,
                interval: rate.1,
            },
            max_reserve_share,
        })
}

fn retry() -> impl Strategy<Value = Retry> {
    (
        0u32..=100,
        btree_set(400u16..=599, 0..=9),
        duration(100..=3_600_000),
        duration(100..=60_000),
        choice(),
    )
        .prop_map(
            |(attempts, codes, deadline, evidence_window, non_idempotent)| Retry {
                attempts,
                codes: codes.into_iter().collect(),
                deadline,
                evidence_window,
                non_idempotent,
            },
        )
}

fn breaker() -> impl Strategy<Value = CircuitBreaker> {
    let open = (100u64..=300_000, 100u64..=300_000, percent(0..=10_000)).prop_map(
        |(a, b, jitter_percent)| OpenDuration {
            base: GoDuration::millis(a.min(b)),
            max: GoDuration::millis(a.max(b)),
            jitter_percent,
        },
    );
    (
        choice(),
        (1u32..=10_000, duration(100..=60_000)),
        1u32..=10_000,
        option::of(percent(100..=10_000)),
        1u32..=1_000_000,
        duration(1_000..=60_000),
        open,
        duration(100..=60_000),
        duration(0..=60_000),
    )
        .prop_map(
            |(mode, silence, run, share, least, interval, open, probe, ramp)| CircuitBreaker {
                mode,
                silence: Silence {
                    failures: silence.0,
                    duration: silence.1,
                },
                consecutive_failures: run,
                failure_percent: share,
                min_requests: least,
                interval,
                open_duration: open,
                probe_timeout: probe,
                ramp,
            },
        )
}

fn concurrency() -> impl Strategy<Value = Concurrency> {
    (choice(), 1u32..=100_000, 110u32..=10_000, 1u32..=1_000_000).prop_map(
        |(mode, min_limit, tolerance, limit)| Concurrency {
            mode,
            min_limit,
            latency_tolerance: Factor::from_hundredths(tolerance),
            limit: (mode == ConcurrencyMode::Fixed).then_some(limit),
        },
    )
}

fn rest() -> impl Strategy<Value = (Pacing, Pushback, Deny)> {
    let pacing = (choice(), duration(0..=5_000));
    let pushback = (any::<bool>(), duration(1_000..=3_600_000));
    let deny = (choice(), choice(), 1u64..=3_600);
    (pacing, pushback, deny).prop_map(|(pacing, pushback, deny)| {
        (
            Pacing {
                jitter: pacing.0,
                max_delay: pacing.1,
            },
            Pushback {
                honor_retry_after: pushback.0,
                max_retry_after: pushback.1,
            },
            Deny {
                connect: deny.0,
                request: deny.1,
                retry_after: GoDuration::secs(deny.2),
            },
        )
    })
}

fn spec() -> impl Strategy<Value = Spec> {
    (
        choice(),
        workloads(),
        vec(destination(), 0..=3),
        choice(),
        constraint(),
        retry(),
        breaker(),
        concurrency(),
        rest(),
    )
        .prop_map(
            |(mode, workloads, destinations, protocol, constraint, retry, breaker, limit, rest)| {
                Spec {
                    mode,
                    workloads,
                    destinations,
                    protocol,
                    retry_constraint: constraint,
                    retry,
                    circuit_breaker: breaker,
                    concurrency: limit,
                    pacing: rest.0,
                    pushback: rest.1,
                    deny: rest.2,
                }
            },
        )
}

/// Policies with names of their own; they may tie.
pub fn policies() -> impl Strategy<Value = Vec<Policy>> {
    vec(spec(), 1..=4).prop_map(|specs| {
        let policy = |(i, spec)| Policy {
            name: format!("p{i}"),
            spec,
            source: Source::default(),
        };
        specs.into_iter().enumerate().map(policy).collect()
    })
}
