//! Times of the kernel as people read them.

use std::time::{Duration, SystemTime};

use governor_core::units::{Millis, Nanos};

/// The kernel's clock beside the wall's.
pub(super) struct Clock {
    /// The kernel's, now.
    pub now: Nanos,
    wall: SystemTime,
}

impl Clock {
    /// Both clocks at once.
    pub fn new(now: Nanos) -> Self {
        Self {
            now,
            wall: SystemTime::now(),
        }
    }

    /// A time of the kernel as RFC 3339; none where it never was.
    pub fn wall(&self, time: Nanos) -> Option<String> {
        if time.0 == 0 {
            return None;
        }
        let wall = match time.0.checked_sub(self.now.0) {
            Some(ahead) => self.wall.checked_add(Duration::from_nanos(ahead)),
            None => self
                .wall
                .checked_sub(Duration::from_nanos(self.now.0 - time.0)),
        };
        Some(humantime::format_rfc3339_millis(wall?).to_string())
    }

    /// The same, of a stamp in milliseconds.
    pub fn wall_millis(&self, time: Millis) -> Option<String> {
        self.wall(Nanos::from_millis(time.0))
    }
}
