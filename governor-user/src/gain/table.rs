//! The same for people, in 80 columns.

use std::fmt::Write as _;

use super::model::{Bears, Destination, Gain, Multiplied, Survival};

/// Longest name that is shown whole.
const NAME: usize = 21;

/// The table, then each destination's worst path, then what is not known.
pub fn table(gain: &Gain) -> String {
    let mut out = String::new();
    if gain.destinations.is_empty() {
        out.push_str("No calls seen yet.\n");
        return out;
    }
    row(
        &mut out,
        [
            "DESTINATION",
            "ATTEMPTS/OP",
            "LONGEST",
            "WORST",
            "ALLOWED",
            "OPS/S",
            "ATT/S",
        ],
    );
    for destination in &gain.destinations {
        let load = &destination.load;
        row(
            &mut out,
            [
                &shorten(&destination.destination),
                &per_operation(destination),
                &guess(destination.inferred, &destination.longest_chain.to_string()),
                &times(&destination.worst_case),
                &times(&destination.allowed),
                &rate(load.operations_per_second),
                &rate(load.attempts_per_second),
            ],
        );
    }
    for destination in &gain.destinations {
        layers(&mut out, destination);
        if let Some(survival) = &destination.survival {
            out.push('\n');
            survives(&mut out, destination, survival);
        }
    }
    notes(&mut out, gain);
    out
}

fn row(out: &mut String, cells: [&str; 7]) {
    let mut line = String::new();
    for (index, cell) in cells.into_iter().enumerate() {
        let _ = match index {
            0 => write!(line, "{cell:<NAME$}"),
            1 => write!(line, " {cell:>11}"),
            _ => write!(line, " {cell:>7}"),
        };
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn per_operation(destination: &Destination) -> String {
    let ratio = destination.attempts_per_operation;
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn times(multiplied: &Multiplied) -> String {
    guess(
        multiplied.inferred,
        &format!("{}x", number(multiplied.multiplier)),
    )
}

/// What is guessed is marked.
fn guess(inferred: bool, text: &str) -> String {
    match inferred {
        true => format!("~{text}"),
        false => text.to_owned(),
    }
}

/// The worst path, where there is more than one layer.
fn layers(out: &mut String, destination: &Destination) {
    let path = &destination.worst_case.path;
    if path.len() < 2 {
        return;
    }
    let total = times(&destination.worst_case);
    let _ = writeln!(out, "\n{}, worst case {total}:", destination.destination);
    for layer in path {
        let tries = guess(layer.inferred, &number(layer.tries));
        let _ = writeln!(
            out,
            "  {} tries {} {tries}x",
            layer.workload, layer.destination
        );
    }
}

fn survives(out: &mut String, destination: &Destination, survival: &Survival) {
    let load = &destination.load;
    let name = &destination.destination;
    if load.attempts_per_second > 0.0 {
        let _ = writeln!(
            out,
            "{name} now: {} attempts/s, of {} operations/s",
            rate(load.attempts_per_second),
            rate(load.operations_per_second)
        );
        let _ = writeln!(
            out,
            "  worst case of these {}/s, as policies allow {}/s",
            rate(load.worst_case_per_second),
            rate(load.allowed_per_second)
        );
    } else {
        let _ = writeln!(out, "{name} now: no calls while this was measured");
    }
    bears(out, "capacity", &survival.warm);
    let cold = format!("cold ({} %)", number(survival.cold_percent));
    bears(out, &cold, &survival.cold);
}

fn bears(out: &mut String, state: &str, bears: &Bears) {
    let capacity = rate(bears.capacity_per_second);
    let (Some(calm), Some(worst_case), Some(allowed)) =
        (bears.calm, bears.worst_case, bears.allowed)
    else {
        let _ = writeln!(out, "  {state} {capacity}/s: cannot say: no calls");
        return;
    };
    let _ = writeln!(out, "  {state} {capacity}/s:");
    if !calm {
        let _ = writeln!(out, "    does not survive even calm load, without a retry");
    }
    let cases = [
        ("the worst case", worst_case, bears.worst_case_up_to),
        ("what policies allow", allowed, bears.allowed_up_to),
    ];
    for (what, holds, up_to) in cases {
        let verdict = match holds {
            true => "survives",
            false => "does not survive",
        };
        let _ = writeln!(
            out,
            "    {verdict} {what} (up to {} operations/s)",
            rate(up_to)
        );
    }
}

fn notes(out: &mut String, gain: &Gain) {
    out.push_str("\nLayers on other nodes, and behind virtual addresses, are not seen.\n");
    let suspected: u64 = gain.destinations.iter().map(|d| d.suspected_retries).sum();
    if suspected > 0 {
        let _ = writeln!(
            out,
            "{suspected} first tries may be retries: they count as operations."
        );
    }
    if gain
        .destinations
        .iter()
        .any(|d| d.worst_case.inferred || d.inferred)
    {
        out.push_str("~ guessed: connects of one thread, each after the one before had failed.\n");
    }
    let hidden = &gain.not_looked_into;
    if hidden.namespaces + hidden.processes > 0 {
        let _ = writeln!(
            out,
            "Not looked into, who listens: {} network namespaces, {} processes.",
            hidden.namespaces, hidden.processes
        );
    }
}

/// Keeps the end: the port.
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

/// A factor: 27, 1.2.
fn number(value: f64) -> String {
    match value {
        v if v >= 100_000.0 => format!("{v:.0e}"),
        v if (v - v.round()).abs() < 0.005 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

/// A rate, with commas: 1,080; small ones with a decimal.
fn rate(value: f64) -> String {
    if value < 10.0 && (value - value.round()).abs() >= 0.05 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::super::model::{Layer, Load, NotLookedInto};
    use super::super::survival::{Capacity, judge};
    use super::*;

    fn shown() -> Gain {
        let layer = |workload: &str, destination: &str| Layer {
            workload: workload.to_owned(),
            destination: destination.to_owned(),
            tries: 3.0,
            inferred: false,
        };
        let path = vec![
            layer("/client", "edge"),
            layer("/edge", "mid"),
            layer("/mid", "leaf"),
        ];
        let mut leaf = Destination {
            destination: "leaf".to_owned(),
            attempts: 320,
            operations: 40,
            attempts_per_operation: Some(8.0),
            longest_chain: 3,
            worst_case: Multiplied {
                multiplier: 27.0,
                inferred: false,
                path,
            },
            allowed: Multiplied {
                multiplier: 1.2,
                ..Multiplied::default()
            },
            load: Load {
                attempts_per_second: 320.0,
                operations_per_second: 40.0,
                worst_case_per_second: 1_080.0,
                allowed_per_second: 48.0,
            },
            ..Destination::default()
        };
        let capacity = Capacity {
            warm: 1_000.0,
            cold_percent: 3.0,
        };
        leaf.survival = Some(judge(&leaf, capacity));
        Gain {
            api_version: String::new(),
            node: String::new(),
            sample_seconds: 1.0,
            destinations: vec![leaf],
            not_looked_into: NotLookedInto::default(),
        }
    }

    #[test]
    fn a_table_tells_the_layers_and_what_capacity_bears() {
        assert_eq!(
            table(&shown()),
            "\
DESTINATION           ATTEMPTS/OP LONGEST   WORST ALLOWED   OPS/S   ATT/S
leaf                         8.00       3     27x   1.20x      40     320

leaf, worst case 27x:
  /client tries edge 3x
  /edge tries mid 3x
  /mid tries leaf 3x

leaf now: 320 attempts/s, of 40 operations/s
  worst case of these 1,080/s, as policies allow 48/s
  capacity 1,000/s:
    does not survive the worst case (up to 37 operations/s)
    survives what policies allow (up to 833 operations/s)
  cold (3 %) 30/s:
    does not survive even calm load, without a retry
    does not survive the worst case (up to 1.1 operations/s)
    does not survive what policies allow (up to 25 operations/s)

Layers on other nodes, and behind virtual addresses, are not seen.
"
        );
    }

    #[test]
    fn where_nobody_called_nothing_is_judged() {
        let mut gain = shown();
        let leaf = &mut gain.destinations[0];
        leaf.load = Load::default();
        let capacity = Capacity {
            warm: 1_000.0,
            cold_percent: 3.0,
        };
        leaf.survival = Some(judge(leaf, capacity));
        let text = table(&gain);
        let judged = "\
leaf now: no calls while this was measured
  capacity 1,000/s: cannot say: no calls
  cold (3 %) 30/s: cannot say: no calls
";
        assert!(text.contains(judged), "{text}");
        assert!(!text.contains("survive"), "{text}");
    }

    #[test]
    fn what_is_guessed_or_hidden_is_said() {
        let mut gain = shown();
        gain.destinations[0].survival = None;
        gain.destinations[0].inferred = true;
        gain.destinations[0].suspected_retries = 4;
        gain.not_looked_into.namespaces = 2;
        let text = table(&gain);
        for line in [
            "~3",
            "~ guessed",
            "4 first tries may be retries",
            "2 network namespaces",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        gain.destinations.clear();
        assert_eq!(table(&gain), "No calls seen yet.\n");
    }
}
