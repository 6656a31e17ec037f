//! Latencies as a histogram.

use governor_core::ledger::DestinationLedger;
use governor_core::limiter::OCTAVES;

/// The first octave of latencies ends here, us.
const FIRST_OCTAVE_ENDS: u64 = 64;

/// Latencies of successes.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// Of all latencies, seconds.
    pub sum: f64,
    /// Upper bound in seconds, and how many lie below it and above the one before.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    /// Of one destination.
    pub fn of(ledger: &DestinationLedger) -> Self {
        let octaves = ledger
            .latency
            .chunks(4)
            .map(|quarters| quarters.iter().sum::<u64>());
        let ends = (0..OCTAVES).map(|octave| match octave {
            // The last octave holds all that is longer, too.
            last if last == OCTAVES - 1 => f64::INFINITY,
            octave => (FIRST_OCTAVE_ENDS << octave) as f64 / 1e6,
        });
        Self {
            sum: ledger.latency_sum as f64 / 1e6,
            buckets: ends.zip(octaves).collect(),
        }
    }
}
