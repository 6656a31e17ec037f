//! Which requests came before: the service's own truth about repeated work.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How long a request is remembered, microseconds.
const REMEMBERED: u64 = 60_000_000;
/// As many as are remembered at most, the oldest are forgotten first: a minute of 5,000 a second three
/// times over, in some 50 MB.
const MOST: usize = 1 << 20;

/// The requests of the last minute. Time is given, in microseconds.
#[derive(Debug, Default)]
pub struct Repeats {
    /// When each came last.
    last: HashMap<u64, u64>,
    /// In the order they came.
    order: VecDeque<(u64, u64)>,
}

impl Repeats {
    /// A request comes; whether the same caller asked for the same within the last minute.
    pub fn is_one(&mut self, caller: &str, target: &str, now: u64) -> bool {
        self.forget(now);
        let mut hasher = DefaultHasher::new();
        (caller, target).hash(&mut hasher);
        let what = hasher.finish();
        self.order.push_back((now, what));
        self.last.insert(what, now).is_some()
    }

    fn forget(&mut self, now: u64) {
        while let Some((came, what)) = self.order.front().copied()
            && (self.order.len() >= MOST || came + REMEMBERED < now)
        {
            self.order.pop_front();
            // It may have come again since.
            if self.last.get(&what) == Some(&came) {
                self.last.remove(&what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn what_came_within_a_minute_is_a_repeat() {
        let mut repeats = Repeats::default();
        assert!(!repeats.is_one("a", "/1", 0));
        assert!(repeats.is_one("a", "/1", 40 * SECOND));
        assert!(!repeats.is_one("b", "/1", 40 * SECOND));
        assert!(!repeats.is_one("a", "/2", 40 * SECOND));
        // A minute counts from when it came last.
        assert!(repeats.is_one("a", "/1", 90 * SECOND));
        assert!(!repeats.is_one("a", "/1", 151 * SECOND));
    }

    #[test]
    fn memory_is_bounded() {
        let mut repeats = Repeats::default();
        for number in 0..MOST + 1_000 {
            assert!(!repeats.is_one("a", &number.to_string(), 1));
        }
        assert_eq!((repeats.last.len(), repeats.order.len()), (MOST, MOST));
        assert!(!repeats.is_one("a", "0", 1), "the oldest is forgotten");
        assert!(repeats.is_one("a", "5000", 1));
    }
}
