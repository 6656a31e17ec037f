//! Which keys a policy has and within which bounds: the one place that says so.

use std::ops::RangeInclusive;

use super::error::{PolicyError, Wrong};
use super::globs;
use super::kinds::{
    boolean, choice, cidr, count, duration, factor, host, literal, name, nullable, percent, seconds,
};
use super::reader::{Field, Mapping, Report};
use super::schema::{
    API_VERSION, CircuitBreaker, Concurrency, ConcurrencyMode, Deny, Destination, KIND, Pacing,
    Policy, Pushback, Retry, RetryConstraint, Source, Spec, Workload,
};
use super::units::{Factor, GoDuration, Percent};
use super::yaml;

/// At most so many destinations in one policy, and in all policies together.
pub const MOST_DESTINATIONS: usize = 4096;
/// At most so many hosts, networks or ports in one destination.
const MOST_IN_A_DESTINATION: usize = 256;
/// At most so many globs in one policy.
const MOST_WORKLOADS: usize = 64;
/// At most so many status codes: every one from 400 to 599.
const MOST_CODES: usize = 200;

/// The rolling windows of the law have tenths; shorter ones would make their
/// slots shorter than a tick, longer ones outlive the incident.
const WINDOW: RangeInclusive<GoDuration> = GoDuration::secs(1)..=GoDuration::secs(60);
/// Times within which a caller still waits.
const WAIT: RangeInclusive<GoDuration> = GoDuration::millis(100)..=GoDuration::secs(60);
/// What a person may have to sit out.
const PATIENCE: RangeInclusive<GoDuration> = GoDuration::secs(1)..=GoDuration::mins(60);
/// Open times: a longer one is an outage of our own making.
const OPEN: RangeInclusive<GoDuration> = GoDuration::millis(100)..=GoDuration::mins(5);
/// fq drops what is timed beyond its horizon of 10 s; stay well within.
const DELAY: RangeInclusive<GoDuration> = GoDuration::ZERO..=GoDuration::secs(5);
const ANY_SHARE: RangeInclusive<Percent> = Percent::whole(0)..=Percent::whole(100);
/// A share that is not nothing.
const SOME_SHARE: RangeInclusive<Percent> = Percent::whole(1)..=Percent::whole(100);

/// Reads every policy of a text, or names every mistake in it.
pub fn read(text: &str, file: &str) -> Result<Vec<Policy>, Vec<PolicyError>> {
    let report = Report::new(file);
    let read = yaml::read(text);
    if read.documents.is_empty() && read.errors.is_empty() {
        let wrong = Wrong::new("no policy: the file holds nothing");
        let hint = "start from `retry-governor policy default`";
        return Err(vec![PolicyError::file(file, wrong.hint(hint))]);
    }
    for (at, wrong) in read.errors {
        report.wrong(at, "", wrong);
    }
    let policies = read
        .documents
        .iter()
        .filter_map(|node| policy(&Field::document(&report, node), file))
        .collect();
    match report.into_errors() {
        errors if errors.is_empty() => Ok(policies),
        errors => Err(errors),
    }
}

fn policy(document: &Field<'_>, file: &str) -> Option<Policy> {
    document.mapping(|m| {
        if let Some(field) = m.require("apiVersion", &format!("write apiVersion: {API_VERSION}")) {
            field.scalar(literal(API_VERSION));
        }
        if let Some(field) = m.require("kind", &format!("write kind: {KIND}")) {
            field.scalar(literal(KIND));
        }
        let mut source = Source {
            file: file.to_owned(),
            ..Source::default()
        };
        let named = m.require("metadata", "write metadata: {name: my-policy}");
        let name = named.and_then(|field| {
            field.mapping(|m| {
                let field = m.require("name", "write name: my-policy")?;
                source.name = field.at();
                field.scalar(name)
            })
        });
        let mut out = Spec::default();
        if let Some(field) = m.require("spec", "write spec: {} for the defaults") {
            field.mapping(|m| spec(m, &mut out, &mut source));
        }
        Some(Policy {
            name: name.flatten()?,
            spec: out,
            source,
        })
    })?
}

fn spec(m: &mut Mapping<'_>, out: &mut Spec, source: &mut Source) {
    m.set("mode", &mut out.mode, choice);
    if let Some(field) = m.get("workloads") {
        out.workloads = field.list(1..=MOST_WORKLOADS, |item| workload(&item));
    }
    if let Some(field) = m.get("destinations") {
        let entries = field.list(1..=MOST_DESTINATIONS, |item| {
            Some((item.at(), destination(&item)?))
        });
        (source.destinations, out.destinations) = entries.into_iter().unzip();
    }
    m.set("protocol", &mut out.protocol, choice);
    m.section("retryConstraint", |m| {
        retry_constraint(m, &mut out.retry_constraint)
    });
    m.section("retry", |m| retry(m, &mut out.retry));
    m.section("circuitBreaker", |m| {
        circuit_breaker(m, &mut out.circuit_breaker)
    });
    m.section("concurrency", |m| concurrency(m, &mut out.concurrency));
    m.section("pacing", |m| pacing(m, &mut out.pacing));
    m.section("pushback", |m| pushback(m, &mut out.pushback));
    m.section("deny", |m| deny(m, &mut out.deny));
}

fn workload(item: &Field<'_>) -> Option<Workload> {
    item.mapping(|m| {
        let field = m.require("cgroup", "write cgroup: \"/system.slice/my-*.service\"")?;
        let cgroup = field.scalar(globs::check)?;
        Some(Workload { cgroup })
    })?
}

fn destination(item: &Field<'_>) -> Option<Destination> {
    item.mapping(|m| {
        let mut out = Destination {
            name: None,
            hosts: Vec::new(),
            cidrs: Vec::new(),
            ports: Vec::new(),
        };
        const SIZE: RangeInclusive<usize> = 1..=MOST_IN_A_DESTINATION;
        m.set("name", &mut out.name, |text| name(text).map(Some));
        if let Some(field) = m.get("hosts") {
            out.hosts = field.distinct(SIZE, host);
        }
        if let Some(field) = m.get("cidrs") {
            out.cidrs = field.distinct(SIZE, cidr);
        }
        if let Some(field) = m.get("ports") {
            out.ports = field.distinct(SIZE, count(1..=u16::MAX));
        }
        if !["hosts", "cidrs", "ports"].iter().any(|key| m.has(key)) {
            let wrong = Wrong::new("names nothing: hosts, cidrs or ports are wanted");
            m.wrong_itself(wrong.hint("for every destination leave destinations out"));
        }
        out
    })
}

fn retry_constraint(m: &mut Mapping<'_>, out: &mut RetryConstraint) {
    m.set("mode", &mut out.mode, choice);
    m.section("budget", |m| {
        m.set("percent", &mut out.budget.percent, percent(ANY_SHARE));
        m.set("interval", &mut out.budget.interval, duration(WINDOW));
    });
    m.section("minRetryRate", |m| {
        let rate = &mut out.min_retry_rate;
        m.set("count", &mut rate.count, count(0..=1_000_000));
        m.set("interval", &mut rate.interval, duration(PATIENCE));
    });
    m.set(
        "maxReserveShare",
        &mut out.max_reserve_share,
        percent(SOME_SHARE),
    );
}

fn retry(m: &mut Mapping<'_>, out: &mut Retry) {
    m.set("attempts", &mut out.attempts, count(0..=100));
    if let Some(field) = m.get("codes") {
        out.codes = field.distinct(0..=MOST_CODES, count(400..=599));
    }
    let deadline = *WAIT.start()..=*PATIENCE.end();
    m.set("deadline", &mut out.deadline, duration(deadline));
    m.set("evidenceWindow", &mut out.evidence_window, duration(WAIT));
    m.set("nonIdempotent", &mut out.non_idempotent, choice);
}

fn circuit_breaker(m: &mut Mapping<'_>, out: &mut CircuitBreaker) {
    m.set("mode", &mut out.mode, choice);
    m.section("silence", |m| {
        m.set("failures", &mut out.silence.failures, count(1..=10_000));
        m.set("duration", &mut out.silence.duration, duration(WAIT));
    });
    m.set(
        "consecutiveFailures",
        &mut out.consecutive_failures,
        count(1..=10_000),
    );
    m.set(
        "failurePercent",
        &mut out.failure_percent,
        nullable(percent(SOME_SHARE)),
    );
    m.set("minRequests", &mut out.min_requests, count(1..=1_000_000));
    m.set("interval", &mut out.interval, duration(WINDOW));
    m.section("openDuration", |m| {
        let open = &mut out.open_duration;
        m.set("base", &mut open.base, duration(OPEN));
        m.set("max", &mut open.max, duration(OPEN));
        m.set("jitterPercent", &mut open.jitter_percent, percent(ANY_SHARE));
        if open.base > open.max {
            let given = if m.has("base") { "base" } else { "max" };
            let (base, max) = (open.base, open.max);
            let wrong = Wrong::new(format!("base {base} is over max {max}: the first open time can't be longer than the longest"));
            m.wrong(given, wrong.hint("set both"));
        }
    });
    m.set("probeTimeout", &mut out.probe_timeout, duration(WAIT));
    let ramp = GoDuration::ZERO..=*WAIT.end();
    m.set("ramp", &mut out.ramp, duration(ramp));
}

fn concurrency(m: &mut Mapping<'_>, out: &mut Concurrency) {
    m.set("mode", &mut out.mode, choice);
    m.set("minLimit", &mut out.min_limit, count(1..=100_000));
    // Below 1.1 the noise of a healthy service would count as slow.
    let tolerance = Factor::from_hundredths(110)..=Factor::from_hundredths(10_000);
    m.set(
        "latencyTolerance",
        &mut out.latency_tolerance,
        factor(tolerance),
    );
    let limit = |text: &_| count(1..=1_000_000)(text).map(Some);
    m.set("limit", &mut out.limit, limit);
    match (out.mode, m.has("limit")) {
        (ConcurrencyMode::Fixed, false) => {
            let wrong = Wrong::new("missing: mode Fixed needs a limit");
            m.wrong("limit", wrong.hint("write limit: 100"));
        }
        (mode @ (ConcurrencyMode::Adaptive | ConcurrencyMode::Disabled), true) => {
            let wrong = Wrong::new(format!("no use for it: the mode is {mode}"));
            m.wrong("limit", wrong.hint("set mode: Fixed, or remove limit"));
        }
        _ => {}
    }
}

fn pacing(m: &mut Mapping<'_>, out: &mut Pacing) {
    m.set("jitter", &mut out.jitter, choice);
    m.set("maxDelay", &mut out.max_delay, duration(DELAY));
}

fn pushback(m: &mut Mapping<'_>, out: &mut Pushback) {
    m.set("honorRetryAfter", &mut out.honor_retry_after, boolean);
    m.set(
        "maxRetryAfter",
        &mut out.max_retry_after,
        duration(PATIENCE),
    );
}

fn deny(m: &mut Mapping<'_>, out: &mut Deny) {
    m.set("connect", &mut out.connect, choice);
    m.set("request", &mut out.request, choice);
    m.set("retryAfter", &mut out.retry_after, seconds(PATIENCE));
}
