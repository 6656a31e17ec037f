//! What the status says of the last minute.

use governor_core::key::DestinationKey;
use governor_core::ledger::count;
use serde::{Deserialize, Serialize};

use super::attempts::Attempts;
use super::destination::{failures, latency, ratio, reasons};
use super::model::Latency;
use super::samples::Recently;
use crate::policy::schema::Mode;

/// One destination in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// How long that is: 60 to 65, less while the daemon is young or more is
    /// called than it keeps.
    pub seconds: f64,
    /// Attempts that reached the network.
    pub attempts: u64,
    /// Those that repeat nothing.
    pub first_tries: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// What was refused; in audit what would have been.
    pub denied: u64,
    /// Attempts that reached the network, per first try that was offered.
    pub amplification: Option<f64>,
    /// Latency of what went well.
    pub latency_seconds: Latency,
}

impl Recent {
    /// Of the destination with this key, judged in this mode.
    pub(super) fn new(recently: &Recently, key: &DestinationKey, mode: Option<Mode>) -> Self {
        let counted = recently.at(key);
        let of = |which| counted.of(which);
        let (reached, offered) = (Attempts::reached(of), Attempts::offered(of));
        let denied = match mode {
            Some(Mode::Audit) => count::WOULD_DENY,
            _ => count::DENIED,
        };
        Self {
            seconds: (recently.lasting.0 as f64 / 1e8).round() / 10.0,
            attempts: reached.total(),
            first_tries: reached.first,
            failed: failures(of).total(),
            denied: reasons(of, denied).total(),
            amplification: ratio(reached.total(), offered.first),
            latency_seconds: latency(counted.latencies()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use governor_core::limiter::bucket;
    use governor_core::units::Nanos;
    use governor_core::verdict::{Outcome, Reason};

    use super::*;
    use crate::kernel::Sample;
    use crate::kernel::Snapshot;
    use crate::status::model::Status;
    use crate::status::samples::Samples;
    use crate::status::tests::{NOW, refused, status, status_since};
    use crate::status::{detail, table};

    fn count(snapshot: &mut Snapshot, counts: &[(usize, u64)]) {
        for (which, count) in counts {
            snapshot.workloads[0].1.counts[*which] += count;
        }
    }

    fn succeed(snapshot: &mut Snapshot, micros: u64, times: u64) {
        let (octave, quarter) = bucket(micros);
        snapshot.destinations[0].1.latency[octave * 4 + quarter as usize] += times;
        let success = count::CONNECT + Outcome::Success as usize;
        count(snapshot, &[(success, times)]);
    }

    /// A million calls of a millisecond until a minute ago; then a hundred operations of
    /// three tries each, of which ten went well after a second.
    fn ledgers() -> (Samples, Snapshot) {
        let mut snapshot = refused();
        let day = [(count::FIRST, 1_000_000), (count::OFFERED_FIRST, 1_000_000)];
        count(&mut snapshot, &day);
        succeed(&mut snapshot, 1_000, 1_000_000);
        let mut samples = Samples::default();
        let at = Nanos(NOW.0 - Nanos::from_secs(61).0);
        samples.take(Sample {
            at,
            ..Sample::of(&snapshot)
        });
        let storm = [
            (count::FIRST, 100),
            (count::OFFERED_FIRST, 100),
            (count::RETRY, 200),
            (count::OFFERED_RETRY, 240),
            (count::DENIED + Reason::Budget as usize, 40),
            (count::WOULD_DENY + Reason::Budget as usize, 7),
            (count::CONNECT + Outcome::Timeout as usize, 290),
        ];
        count(&mut snapshot, &storm);
        succeed(&mut snapshot, 1_000_000, 10);
        (samples, snapshot)
    }

    pub fn storm_after_a_quiet_day() -> Status {
        let (samples, snapshot) = ledgers();
        status_since(&samples, &snapshot)
    }

    /// The cells of the one row of the table.
    fn cells(table: &str) -> Vec<&str> {
        let mut rows = table.lines().filter(|line| line.starts_with("10.0.0.5"));
        rows.next().unwrap().split_whitespace().collect()
    }

    #[test]
    fn a_quiet_day_does_not_hide_a_storm() {
        let status = storm_after_a_quiet_day();
        let destination = &status.destinations[0];
        assert_eq!(destination.amplification, Some(1.0));
        assert!(destination.latency_seconds.p99.unwrap() < 0.002);
        let recent = destination.recent.unwrap();
        assert_eq!(
            (recent.seconds, recent.attempts, recent.first_tries),
            (61.0, 300, 100)
        );
        assert_eq!((recent.failed, recent.denied), (290, 40));
        assert_eq!(recent.amplification, Some(3.0));
        let p99 = recent.latency_seconds.p99.unwrap();
        assert!((0.87..1.13).contains(&p99), "{p99}");

        let table = table(&status);
        let cells = cells(&table);
        assert_eq!(cells[2], "1M", "counts stay those since the first call");
        assert_eq!(cells[6], "3.00", "{table}");
        assert_eq!(cells[8], table::duration(p99), "{table}");
        assert!(table.contains("AMP, P99: last 61 s."), "{table}");
        let detail = detail(&status);
        for told in [
            "last 61 s: 300 attempts, 100 first tries, 290 failed, 40 denied, amplification 3.00, p50",
            "since it was first called: 1M attempts, amplification 1.00, p50",
        ] {
            assert!(detail.contains(told), "{told}: {detail}");
        }
    }

    #[test]
    fn in_audit_the_denied_are_those_that_would_have_been() {
        let (samples, snapshot) = ledgers();
        let recently = samples.recently(&snapshot).unwrap();
        let (key, _) = &snapshot.destinations[0];
        let denied = |mode| Recent::new(&recently, key, mode).denied;
        assert_eq!(
            [denied(Some(Mode::Audit)), denied(Some(Mode::Enforce))],
            [7, 40]
        );
        let mut status = storm_after_a_quiet_day();
        status.destinations[0].mode = Some("Audit".to_owned());
        let detail = detail(&status);
        assert!(detail.contains(" 40 would have been denied,"), "{detail}");
    }

    #[test]
    fn a_destination_that_nobody_has_called_for_a_minute_has_no_recent_figures() {
        let now = refused();
        let mut samples = Samples::default();
        samples.take(Sample::of(&now));
        let status = status_since(&samples, &now);
        let recent = status.destinations[0].recent.unwrap();
        assert_eq!((recent.attempts, recent.amplification), (0, None));
        let table = table(&status);
        let cells = cells(&table);
        assert_eq!((cells[2], cells[6]), ("20", "-"), "{table}");
    }

    #[test]
    fn what_no_daemon_remembers_is_null_and_the_table_shows_all_there_is() {
        let status = status(&refused());
        let json = serde_json::to_value(&status).unwrap();
        let recent = json.pointer("/destinations/0/recent");
        assert_eq!(recent, Some(&serde_json::Value::Null));
        let table = table(&status);
        assert_eq!(cells(&table)[6], "0.10");
        assert!(!table.contains("AMP, P99"), "{table}");
    }
}
