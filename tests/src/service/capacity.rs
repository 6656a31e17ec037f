//! How fast the service works: by its capacity, cold or warm, and by what slows it.

use std::time::Duration;

use tokio::time::Instant;

/// Requests per second over time.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Warm, per second.
    pub full: f64,
    /// What of it a cold service can do, 0..1.
    pub cold: f64,
    /// How long it takes to warm up; the growth is linear.
    pub warm: Duration,
    /// How many times slower it is than it could be.
    pub slowed: f64,
    /// Since when it warms up.
    pub since: Instant,
}

impl Capacity {
    /// Per second at this moment.
    pub fn at(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.since).as_secs_f64();
        let grown = match self.warm.as_secs_f64() {
            0.0 => 1.0,
            warm => (age / warm).min(1.0),
        };
        self.full * (self.cold + (1.0 - self.cold) * grown) / self.slowed
    }

    /// What one request takes at this moment.
    pub fn one(&self, now: Instant) -> Duration {
        Duration::from_secs_f64(1.0 / self.at(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_service_warms_up_to_its_whole_capacity() {
        let since = Instant::now();
        let cold = Capacity {
            full: 1_000.0,
            cold: 0.2,
            warm: Duration::from_secs(10),
            slowed: 1.0,
            since,
        };
        let at = |seconds| cold.at(since + Duration::from_secs(seconds)).round();
        assert_eq!([0, 5, 10, 60].map(at), [200.0, 600.0, 1_000.0, 1_000.0]);
        assert_eq!(cold.one(since), Duration::from_millis(5));
    }
}
