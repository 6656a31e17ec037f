//! Counts things by the time at which they happened.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A thread-safe list of moments. Loads in tests are bounded, so every moment is kept.
#[derive(Debug, Default)]
pub struct Tally {
    moments: Mutex<Vec<Instant>>,
}

impl Tally {
    /// Notes that it happened now.
    pub fn hit(&self) {
        self.moments().push(Instant::now());
    }

    /// How often it happened at all.
    pub fn count(&self) -> usize {
        self.moments().len()
    }

    /// How often it happened since `moment`.
    pub fn since(&self, moment: Instant) -> usize {
        self.moments().iter().filter(|at| **at >= moment).count()
    }

    /// How often it happened in `length` from `moment` on.
    pub fn within(&self, moment: Instant, length: Duration) -> usize {
        self.moments()
            .iter()
            .filter(|at| **at >= moment && **at < moment + length)
            .count()
    }

    /// How often it happened in each slot of `length`, from `moment` on.
    pub fn by_slot(&self, moment: Instant, length: Duration) -> Vec<usize> {
        let mut slots = Vec::new();
        for at in self.moments().iter().filter(|at| **at >= moment) {
            let slot = ((*at - moment).as_nanos() / length.as_nanos().max(1)) as usize;
            if slots.len() <= slot {
                slots.resize(slot + 1, 0);
            }
            slots[slot] += 1;
        }
        slots
    }

    fn moments(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_fall_into_the_slot_of_their_moment() {
        let start = Instant::now();
        let slot = Duration::from_secs(1);
        let tally = Tally {
            moments: Mutex::new(vec![start, start + slot / 2, start + slot * 2]),
        };
        assert_eq!(tally.by_slot(start, slot), [2, 0, 1]);
        assert_eq!(tally.within(start, slot), 2);
        assert_eq!(tally.since(start + slot), 1);
        assert_eq!(tally.by_slot(start + slot, slot), [0, 1]);
    }
}
