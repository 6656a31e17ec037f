//! How much the service can do: as much as it was given, less while it is cold.

use std::time::Duration;

/// Requests per second, which grow while it works.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    full: f64,
    /// What of it a cold service has, 0..1.
    cold: f64,
    /// How much work makes it warm.
    warm: Duration,
    /// Work since it was cold.
    worked: Duration,
}

impl Capacity {
    /// A warm service that can do `full` a second. Were it cold, it could do the `cold` share (0..1)
    /// of that, and would be warm after working for `warm`.
    pub fn new(full: f64, cold: f64, warm: Duration) -> Self {
        Self {
            full,
            cold,
            warm,
            worked: warm,
        }
    }

    /// Per second, now.
    pub fn rate(&self) -> f64 {
        let grown = match self.warm.as_secs_f64() {
            0.0 => 1.0,
            warm => (self.worked.as_secs_f64() / warm).min(1.0),
        };
        self.full * (self.cold + (1.0 - self.cold) * grown)
    }

    /// It worked for so long: what it works on makes it warm. Idle time does not, as no cache fills then.
    pub fn worked(&mut self, time: Duration) {
        self.worked = self.worked.saturating_add(time).min(self.warm);
    }

    /// Its caches are gone.
    pub fn cool(&mut self) {
        self.worked = Duration::ZERO;
    }

    /// It has more machines, or fewer.
    pub fn resize(&mut self, full: f64) {
        self.full = full;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_cold_service_warms_up_by_its_work_to_its_whole_capacity() {
        let mut capacity = Capacity::new(1_000.0, 0.25, 10 * SECOND);
        assert_eq!(capacity.rate(), 1_000.0);
        capacity.cool();
        assert_eq!(capacity.rate(), 250.0);
        capacity.worked(5 * SECOND);
        assert_eq!(capacity.rate(), 625.0);
        capacity.worked(60 * SECOND);
        assert_eq!(capacity.rate(), 1_000.0);
        capacity.resize(2_000.0);
        assert_eq!(capacity.rate(), 2_000.0);
    }

    #[test]
    fn one_that_needs_no_warming_is_never_cold() {
        let mut capacity = Capacity::new(1_000.0, 0.2, Duration::ZERO);
        capacity.cool();
        assert_eq!(capacity.rate(), 1_000.0);
    }
}
