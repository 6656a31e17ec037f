//! When operations are due, whatever becomes of those before.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;
use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

/// How arrivals are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spread {
    /// Each at its own time, independent of the others, as many users make them.
    Poisson,
    /// At equal distances.
    Even,
}

/// Randomness that repeats: of a seed, a caller's name, and what it is for. Two callers of one storm
/// have nothing in common, whatever their seeds.
pub fn random(seed: u64, name: &str, purpose: &str) -> Rng {
    let mut hasher = DefaultHasher::new();
    (seed, name, purpose).hash(&mut hasher);
    Rng::with_seed(hasher.finish())
}

/// Due times at `rate` per second, without end.
pub fn arrivals(spread: Spread, rate: f64, mut random: Rng) -> impl Iterator<Item = Duration> {
    let mut time = 0.0;
    let mut number = 0_u64;
    iter::from_fn(move || {
        let due = match spread {
            // No sum of gaps: no error grows.
            Spread::Even => number as f64 / rate,
            Spread::Poisson => {
                // `f64` is in 0..1, so that the logarithm is finite.
                time -= (1.0 - random.f64()).ln() / rate;
                time
            }
        };
        number += 1;
        Duration::try_from_secs_f64(due).ok()
    })
}

/// An operation that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Since the start.
    pub at: Duration,
    /// It is one of the many that are due at one moment.
    pub in_herd: bool,
}

/// The same with `herd` operations at one moment among them.
pub fn with_herd(
    arrivals: impl Iterator<Item = Duration>,
    herd: u64,
    moment: Duration,
) -> impl Iterator<Item = Due> {
    let mut arrivals = arrivals.peekable();
    let mut left = herd;
    iter::from_fn(move || {
        if left > 0 && arrivals.peek().is_none_or(|next| moment <= *next) {
            left -= 1;
            return Some(Due {
                at: moment,
                in_herd: true,
            });
        }
        arrivals.next().map(|at| Due { at, in_herd: false })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson(seed: u64, name: &str) -> Vec<Duration> {
        arrivals(Spread::Poisson, 1_000.0, random(seed, name, "arrivals"))
            .take(100_000)
            .collect()
    }

    #[test]
    fn even_arrivals_are_at_equal_distances() {
        let due: Vec<_> = arrivals(Spread::Even, 4.0, Rng::with_seed(1))
            .take(4)
            .collect();
        assert_eq!(due, [0, 250, 500, 750].map(Duration::from_millis));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_variance_of_their_kind() {
        let due = poisson(1, "caller");
        assert!(due.is_sorted());
        let gaps: Vec<f64> = due
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Standard errors at 100,000 gaps: 0.003 and 0.009.
        assert!((mean - 1.0).abs() < 0.015, "mean gap {mean} ms");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
    }

    #[test]
    fn a_seed_repeats_and_names_differ() {
        assert_eq!(poisson(7, "a"), poisson(7, "a"));
        assert_ne!(poisson(7, "a"), poisson(8, "a"));
        assert_ne!(poisson(7, "a"), poisson(7, "b"));
    }

    #[test]
    fn a_herd_comes_at_its_moment_among_the_others() {
        let usual = arrivals(Spread::Even, 1.0, Rng::with_seed(1)).take(3);
        let due: Vec<_> = with_herd(usual, 2, Duration::from_millis(1_500))
            .map(|due| (due.at.as_millis(), due.in_herd))
            .collect();
        assert_eq!(
            due,
            [
                (0, false),
                (1000, false),
                (1500, true),
                (1500, true),
                (2000, false)
            ]
        );
        let alone: Vec<_> = with_herd(iter::empty(), 2, Duration::ZERO).collect();
        assert_eq!(alone.len(), 2);
    }
}
