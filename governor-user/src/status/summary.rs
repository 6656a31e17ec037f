//! What `exec` says at the end: a few plain lines.

use std::fmt::Write as _;

use super::model::{Destination, Status};
use super::table::duration;

/// Destinations that are told of; the rest is in the JSON summary.
const MOST: usize = 5;

/// Where a line ends, if it can.
const COLUMNS: usize = 80;

/// The summary.
pub fn summary(status: &Status) -> String {
    let mut out = String::new();
    let called: Vec<_> = status
        .destinations
        .iter()
        .filter(|destination| destination.offered.first_tries + destination.offered.retries > 0)
        .collect();
    if called.is_empty() {
        return "retry-governor: the command made no TCP connects\n".to_owned();
    }
    for destination in called.iter().take(MOST) {
        tell(&mut out, destination);
    }
    if let Some(more) = called.len().checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(
            out,
            "retry-governor: and {more} more destinations (--json-summary)"
        );
    }
    let why = status.unjudged.named();
    for (why, count) in why.into_iter().filter(|(_, count)| *count > 0) {
        let passed = number(count, "try", "tries");
        let _ = writeln!(out, "retry-governor: {passed} passed unjudged: {why}");
    }
    out
}

fn tell(out: &mut String, destination: &Destination) {
    let offered = destination.offered.first_tries + destination.offered.retries;
    let denied = destination.denied.named();
    let mut told = vec![number(offered, "try", "tries")];
    told.extend(by_kind("denied", &denied));
    if told.len() > 1 {
        told.push(format!("{} sent", destination.attempts));
    }
    told.extend(by_kind("failed", &destination.failures.named()));
    told.extend(by_kind(
        "would have been denied",
        &destination.would_deny.named(),
    ));
    let name = &destination.destination;
    let first = format!("retry-governor: {name}: {}", told.join(", "));
    let more = more(destination).join(", ");
    let _ = match first.len() + more.len() {
        _ if more.is_empty() => writeln!(out, "{first}"),
        0..COLUMNS => writeln!(out, "{first}, {more}"),
        _ => writeln!(out, "{first}\nretry-governor:   {more}"),
    };
}

/// What fits no first line.
fn more(destination: &Destination) -> Vec<String> {
    let mut told = Vec::new();
    if destination.retries > 0 {
        told.push(number(destination.retries, "retry", "retries"));
    }
    if destination.suspected_retries > 0 {
        told.push(number(
            destination.suspected_retries,
            "suspected retry",
            "suspected retries",
        ));
    }
    told.extend(destination.requests.unjudged());
    if let Some(amplification) = destination.amplification {
        told.push(format!("amplification {amplification:.2}"));
    }
    let moves = destination.breaker_moves;
    if moves.tripped > 0 {
        told.push(format!("breaker opened {}", times(moves.tripped)));
        told.push(number(moves.probes, "probe", "probes"));
        told.push(format!("closed {}", times(moves.closed)));
    }
    let latency = destination.latency_seconds;
    if let (Some(p50), Some(p99)) = (latency.p50, latency.p99) {
        told.push(format!("p50 {}, p99 {}", duration(p50), duration(p99)));
    }
    told
}

/// `12 denied (10 breaker, 2 budget)`; nothing where there is nothing.
pub(super) fn by_kind<N: AsRef<str>>(what: &str, counts: &[(N, u64)]) -> Option<String> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let kinds: Vec<_> = counts.iter().filter(|(_, count)| *count > 0).collect();
    let kinds = match kinds.as_slice() {
        [] => return None,
        [(name, _)] => name.as_ref().to_owned(),
        kinds => {
            let kinds = kinds
                .iter()
                .map(|(name, count)| format!("{count} {}", name.as_ref()));
            kinds.collect::<Vec<_>>().join(", ")
        }
    };
    Some(format!("{total} {what} ({kinds})"))
}

fn number(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
