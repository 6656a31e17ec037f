//! The status as a table of 80 columns.

use std::fmt::Write as _;

use super::model::{BreakerState, Destination, Recent, Status};

/// Longest name that is shown whole: as any IPv4 address with its port.
const NAME: usize = 21;
/// The column that tells of the breaker.
const BREAKER: usize = 7;

/// The table.
pub fn table(status: &Status) -> String {
    let mut out = String::new();
    let hooks = status.kernel.hooks.iter();
    let gone: Vec<_> = hooks
        .filter(|hook| !hook.attached)
        .map(|hook| hook.name.as_str())
        .collect();
    if !gone.is_empty() {
        let gone = gone.join(", ");
        let _ = writeln!(
            out,
            "NOT ATTACHED: {gone}\nNothing is refused where connects are not seen: restart the daemon."
        );
    }
    for order in &status.orders {
        for line in order.in_words() {
            let _ = writeln!(out, "ORDERED: {line}");
        }
    }
    if status.destinations.is_empty() {
        out.push_str("No connects seen yet.\n");
        return out;
    }
    row(
        &mut out,
        &[
            "DESTINATION",
            "MODE",
            "ATTEMPTS",
            "RETRIES",
            "FAILED",
            "DENIED",
            "AMP",
            "BREAKER",
            "P99",
        ],
    );
    for destination in &status.destinations {
        let orders = &status.orders;
        let held = orders.iter().any(|order| {
            order.breaker.is_some() && order.destination.as_ref() == Some(&destination.destination)
        });
        let mut cells = cells(destination);
        if held {
            // An operator's word counts, not the law's.
            "held".clone_into(&mut cells[BREAKER]);
        }
        let cells: Vec<_> = cells.iter().map(String::as_str).collect();
        row(&mut out, &cells);
    }
    let mut recent = status.destinations.iter().filter_map(|it| it.recent);
    if let Some(Recent { seconds, .. }) = recent.next() {
        let _ = writeln!(
            out,
            "AMP, P99: last {seconds:.0} s. Counts: since the destination was first called."
        );
    }
    for (why, count) in status.unjudged.named() {
        if count > 0 {
            let _ = writeln!(out, "{count} attempts passed unjudged: {why}");
        }
    }
    out
}

fn row(out: &mut String, cells: &[&str]) {
    // With a blank after each 75, and 5 for the last: 80.
    let widths = [NAME, 7, 8, 7, 6, 6, 4, 8, 0];
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let _ = match index {
            2..=6 => write!(line, "{cell:>width$} "),
            _ => write!(line, "{cell:<width$} "),
        };
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn cells(destination: &Destination) -> [String; 9] {
    let audit = destination.mode.as_deref() == Some("Audit");
    let denied = match audit {
        true => destination.would_deny.total(),
        false => destination.denied.total(),
    };
    let (amplification, latency) = match destination.recent {
        Some(recent) => (recent.amplification, recent.latency_seconds),
        None => (destination.amplification, destination.latency_seconds),
    };
    [
        shorten(&destination.destination),
        match destination.mode.as_deref() {
            None => "-".to_owned(),
            Some("Disabled") => "Off".to_owned(),
            Some(mode) => mode.to_owned(),
        },
        number(destination.attempts),
        number(destination.retries),
        number(destination.failures.total()),
        // In brackets: would have been.
        if audit {
            format!("({})", number(denied))
        } else {
            number(denied)
        },
        match amplification {
            None => "-".to_owned(),
            Some(ratio) if ratio < 10.0 => format!("{ratio:.2}"),
            Some(ratio) => format!("{ratio:.0}"),
        },
        breaker(destination),
        latency.p99.map_or("-".to_owned(), duration),
    ]
}

/// The worst breaker, and how many are not closed.
fn breaker(destination: &Destination) -> String {
    let states = destination
        .endpoints
        .iter()
        .map(|endpoint| endpoint.breaker.state);
    let worst = states.clone().max().unwrap_or(BreakerState::Closed);
    let name = match worst {
        BreakerState::Closed => return "closed".to_owned(),
        BreakerState::HalfOpen => "half",
        BreakerState::Open => "open",
    };
    let all = states.clone().count();
    match states
        .filter(|state| *state != BreakerState::Closed)
        .count()
    {
        one if one == all => name.to_owned(),
        some => format!("{name} {some}/{all}"),
    }
}

/// Keeps the end: the port, the unit.
fn shorten(name: &str) -> String {
    let length = name.chars().count();
    match length > NAME {
        false => name.to_owned(),
        true => format!(
            "~{}",
            name.chars().skip(length - NAME + 1).collect::<String>()
        ),
    }
}

/// Four digits, or three and a unit.
pub(super) fn number(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// Two digits and a unit.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0}us", s * 1e6),
        s if s < 0.01 => format!("{:.1}ms", s * 1e3),
        s if s < 1.0 => format!("{:.0}ms", s * 1e3),
        s => format!("{s:.1}s"),
    }
}
