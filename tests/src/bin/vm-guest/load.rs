//! Loads on the machine, and how many of their tries left it.

use std::thread;
use std::time::{Duration, Instant};

use governor_tests::caller::Storm;
use governor_tests::place::Place;
use governor_tests::storm::report::{Outcome, Report};

use crate::machine;

/// How long a command may take: emulation is some twenty times slower than the real thing.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A load that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What its callers saw.
    pub report: Report,
    /// How many connects left while it ran.
    pub syns: u64,
}

/// Runs the storm client with these arguments.
#[track_caller]
pub fn storm(arguments: &str, place: &Place<'_>) -> Ended {
    let before = machine::syns();
    let report = Storm::start(arguments, place).finish(LIMIT);
    Ended {
        report,
        syns: machine::syns() - before,
    }
}

/// Twenty short-lived processes that try a port four times each.
#[track_caller]
pub fn fleet(address: &str, place: &Place<'_>) -> Ended {
    storm(
        &format!("fleet --processes 20 --rate 20 -- tries {address} --tries 4 --delay 50ms"),
        place,
    )
}

impl Ended {
    /// Fails unless every try ended so, and there were some.
    #[track_caller]
    pub fn all(&self, outcome: Outcome) -> &Self {
        let summary = self.report.summary();
        assert!(summary.tries > 0, "nothing was tried");
        assert_eq!(self.report.count(outcome), summary.tries, "{summary:?}");
        self
    }
}

/// Waits until something holds.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
