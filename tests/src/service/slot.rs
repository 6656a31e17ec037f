//! What happened in 50 ms.

use std::collections::BTreeMap;
use std::mem;

use serde::{Deserialize, Serialize};

/// Length of a slot, microseconds.
pub const LENGTH: u64 = 50_000;

/// One line of the service. Every request that came in is, in some slot, answered, failed or wasted;
/// those that are not yet are waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    /// Its beginning, microseconds of CLOCK_MONOTONIC: a multiple of [`LENGTH`].
    pub t: u64,
    /// Requests that came in, by caller (`User-Agent`).
    pub arrived: BTreeMap<String, u64>,
    /// Of those, requests of a caller for a target that it asked for in the minute before.
    pub repeats: u64,
    /// Requests that were worked off and answered to somebody.
    pub answered: u64,
    /// Requests that got an error, or no answer at all.
    pub failed: u64,
    /// Requests that were worked off for a caller who had left.
    pub wasted: u64,
    /// Tries at the layer below.
    pub called: u64,
    /// Of those, the first of a request.
    pub called_first: u64,
    /// Requests in the queue, or with the layer below, when the slot ended.
    pub waiting: u64,
    /// What the service could do per second when the slot ended: nothing while it stalls or refuses.
    pub capacity: f64,
}

impl Slot {
    /// The empty slot that holds this moment.
    pub fn at(now: u64) -> Self {
        Self {
            t: now - now % LENGTH,
            ..Self::default()
        }
    }

    /// Requests that came in, of whomever.
    pub fn came(&self) -> u64 {
        self.arrived.values().sum()
    }

    /// A request of this caller came in.
    pub fn comes(&mut self, caller: &str) {
        match self.arrived.get_mut(caller) {
            Some(count) => *count += 1,
            None => _ = self.arrived.insert(caller.to_owned(), 1),
        }
        self.waiting += 1;
    }

    /// The moment it ends.
    pub fn end(&self) -> u64 {
        self.t + LENGTH
    }

    /// Where it is over by `now`: becomes the next one, in which nothing has happened yet, and is
    /// given back as it was.
    pub fn over(&mut self, now: u64) -> Option<Self> {
        let next = Self {
            waiting: self.waiting,
            capacity: self.capacity,
            ..Self::at(self.end())
        };
        (self.end() <= now).then(|| mem::replace(self, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_begins_at_a_multiple_of_its_length() {
        assert_eq!(Slot::at(1_049_999).t, 1_000_000);
        assert_eq!(Slot::at(1_050_000).t, 1_050_000);
    }

    #[test]
    fn slots_follow_each_other_without_a_gap_and_what_waits_stays() {
        let mut slot = Slot::at(1_000_000);
        slot.comes("a");
        slot.comes("a");
        slot.capacity = 7.0;
        assert_eq!(slot.over(1_049_999), None);
        let over = slot.over(1_120_000).unwrap();
        assert_eq!((over.t, over.came(), over.waiting), (1_000_000, 2, 2));
        let silent = slot.over(1_120_000).unwrap();
        assert_eq!((silent.t, silent.came()), (1_050_000, 0));
        assert_eq!((silent.waiting, silent.capacity), (2, 7.0));
        assert_eq!(slot.over(1_120_000), None);
        assert_eq!(slot.t, 1_100_000);
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut slot = Slot::at(1_000_000);
        slot.comes("edge");
        slot.called_first = 1;
        let line = serde_json::to_string(&slot).unwrap();
        assert!(line.contains(r#""arrived":{"edge":1}"#), "{line}");
        assert!(line.contains(r#""calledFirst":1"#), "{line}");
        assert_eq!(serde_json::from_str::<Slot>(&line).unwrap(), slot);
    }
}
