//! Percentiles of the latencies that the kernel counts in quarters of octaves.

use std::time::Duration;

use governor_core::limiter::middle;

/// The latency that `percent` of the counted ones do not exceed; the middle of
/// its bucket, so within an eighth.
pub(super) fn percentile(counts: &[u64], percent: u64) -> Option<Duration> {
    let all: u64 = counts.iter().sum();
    // The rank is rounded up: the p99 of three is the third.
    let rank = (all * percent).div_ceil(100);
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if *count > 0 && seen >= rank {
            let quarter = u32::try_from(bucket % 4).unwrap_or(0);
            return Some(Duration::from_micros(middle(bucket / 4, quarter)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor_core::limiter::{OCTAVES, bucket};

    fn counts(latencies: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; OCTAVES * 4];
        for micros in latencies {
            let (octave, quarter) = bucket(*micros);
            counts[octave * 4 + quarter as usize] += 1;
        }
        counts
    }

    #[test]
    fn a_percentile_is_within_an_eighth_of_the_truth() {
        let mut latencies = vec![1_000; 98];
        latencies.extend([50_000, 50_000]);
        let counts = counts(&latencies);
        let micros = |percent| percentile(&counts, percent).unwrap().as_micros() as f64;
        assert!((micros(50) / 1_000.0 - 1.0).abs() < 0.125, "{}", micros(50));
        assert!(
            (micros(99) / 50_000.0 - 1.0).abs() < 0.125,
            "{}",
            micros(99)
        );
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(percentile(&counts(&[]), 50), None);
    }
}
