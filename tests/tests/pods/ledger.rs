//! What callers know, held against what the governor says.

use governor_tests::node::Node;
use governor_tests::storm::report::{Outcome, Report, Try};
use serde_json::Value;

use crate::{number, sum};

/// What became of the tries of one pod, as its callers saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// First tries that reached the server.
    pub first: u64,
    /// Retries that did.
    pub retries: u64,
    /// Tries that were refused.
    pub denied: u64,
    /// Of those, first tries.
    pub denied_first: u64,
    /// Tries that were answered well.
    pub well: u64,
    /// Tries that the server failed.
    pub failed: u64,
}

/// Whether the governor refused it: the server fails with 500, and never refuses a connect.
pub fn is_denied(each: &Try) -> bool {
    each.status == Some(503) || each.outcome == Outcome::Refused
}

impl Truth {
    pub fn of(report: &Report) -> Self {
        let mut truth = Self::default();
        for each in &report.tries {
            let first = u64::from(each.attempt == 1);
            if is_denied(each) {
                truth.denied += 1;
                truth.denied_first += first;
                continue;
            }
            truth.first += first;
            truth.retries += 1 - first;
            match (each.outcome, each.status) {
                (Outcome::Ok, _) => truth.well += 1,
                (Outcome::Status, Some(500)) => truth.failed += 1,
                other => panic!("neither answered nor refused: {other:?} {each:?}"),
            }
        }
        truth
    }

    pub fn and(self, other: Self) -> Self {
        Self {
            first: self.first + other.first,
            retries: self.retries + other.retries,
            denied: self.denied + other.denied,
            denied_first: self.denied_first + other.denied_first,
            well: self.well + other.well,
            failed: self.failed + other.failed,
        }
    }

    pub fn reached(self) -> u64 {
        self.first + self.retries
    }

    /// The same of a destination, as the status tells it.
    pub fn told(destination: &Value) -> Self {
        let failures = &destination["failures"];
        let others = ["refused", "timeout", "unreachable", "reset", "noAnswer"];
        let others: u64 = others.iter().map(|it| number(&failures[it])).sum();
        assert_eq!(others, 0, "none of that happened: {failures}");
        assert_eq!(destination["concurrency"]["inFlight"], 0, "all has ended");
        Self {
            first: number(&destination["firstTries"]),
            retries: number(&destination["retries"]),
            denied: sum(&destination["denied"]),
            denied_first: number(&destination["deniedFirstTries"]),
            well: number(&destination["successes"]),
            failed: failures["status"]["500"].as_u64().unwrap_or(0),
        }
    }

    /// The same of one pod at a destination, as the metrics tell it.
    pub fn measured(node: &Node<'_>, destination: &str, workload: &str) -> Self {
        let text = node.get("/metrics").1;
        let of = |name: &str, labels: &[&str]| {
            let lines = text.lines().filter(|line| {
                let destination = format!("destination=\"{destination}\"");
                line.starts_with(&format!("retry_governor_{name}{{"))
                    && line.contains(&destination)
                    && line.contains(&format!("{workload}\""))
                    && labels.iter().all(|label| line.contains(label))
            });
            let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
            lines.filter_map(value).sum::<f64>() as u64
        };
        let request = "level=\"request\"";
        let requests = of("attempts_total", &[request]);
        // A connect and the first request on it are one attempt (docs/metrics.md).
        let attempts = of("attempts_total", &[]) - of("first_requests_total", &[]);
        assert_eq!(attempts, requests, "every connect was for a request");
        Self {
            first: of("attempts_total", &[request, "kind=\"first\""]),
            retries: of("attempts_total", &[request, "kind=\"retry\""]),
            denied: of("denied_total", &["mode=\"enforce\""]),
            // No series has them.
            denied_first: 0,
            well: of("outcomes_total", &[request, "outcome=\"success\""]),
            failed: of("failed_answers_total", &["code=\"500\""]),
        }
    }
}
