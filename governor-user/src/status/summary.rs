//! What `exec` says at the end: a few plain lines.

use std::fmt::Write as _;

use super::model::{Destination, Status};
use super::table::duration;

/// Destinations that are told of; the rest is in the JSON summary.
const MOST: usize = 5;

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
        out.push_str("retry-governor: ");
        tell(&mut out, destination);
    }
    if let Some(more) = called.len().checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(
            out,
            "retry-governor: and {more} more destinations (--json-summary)"
        );
    }
    let unjudged = status.unjudged.total();
    if unjudged > 0 {
        let _ = writeln!(out, "retry-governor: {unjudged} attempts passed unjudged");
    }
    out
}

fn tell(out: &mut String, destination: &Destination) {
    let _ = write!(
        out,
        "{}: {}",
        destination.destination,
        plural(destination.attempts, "attempt")
    );
    let repeated = destination.retries + destination.suspected_retries;
    match (repeated, destination.suspected_retries) {
        (0, _) => {}
        (retries, 0) => drop(write!(out, ", {}", plural_y(retries, "retr"))),
        (retries, suspected) => drop(write!(
            out,
            ", {} ({suspected} suspected)",
            plural_y(retries, "retr")
        )),
    }
    list(out, ", failed", &destination.failures.named());
    list(out, ", denied", &destination.denied.named());
    list(out, ", would deny", &destination.would_deny.named());
    if let Some(amplification) = destination.amplification {
        let _ = write!(out, ", amplification {amplification:.2}");
    }
    let moves = destination.breaker_moves;
    if moves.tripped > 0 {
        let _ = write!(out, ", breaker opened {}", times(moves.tripped));
        let _ = write!(
            out,
            " (closed {}, {})",
            times(moves.closed),
            plural(moves.probes, "probe")
        );
    }
    if let (Some(p50), Some(p99)) = (
        destination.latency_seconds.p50,
        destination.latency_seconds.p99,
    ) {
        let _ = write!(out, ", p50 {} p99 {}", duration(p50), duration(p99));
    }
    out.push('\n');
}

/// `, denied 12 (10 breaker, 2 budget)`; nothing where there is nothing.
fn list(out: &mut String, what: &str, counts: &[(&str, u64)]) {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return;
    }
    let parts: Vec<_> = counts.iter().filter(|(_, count)| *count > 0).collect();
    let parts: Vec<_> = match parts.as_slice() {
        [(name, _)] => vec![(*name).to_owned()],
        parts => parts
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect(),
    };
    let _ = write!(out, "{what} {total} ({})", parts.join(", "));
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn plural_y(count: u64, stem: &str) -> String {
    format!("{count} {stem}{}", if count == 1 { "y" } else { "ies" })
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
