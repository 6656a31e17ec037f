//! What reached a faulty server: the truth that a governor's counts are held against.

use std::time::{Duration, Instant};

use super::faults::Fault;

/// A request that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// On which connection, counted from 0.
    pub connection: u32,
    /// Its method.
    pub method: String,
    /// Its path, without a query.
    pub target: String,
    /// N, where the path is `/op/N`.
    pub operation: Option<u32>,
    /// How often this method and path had come, this time included.
    pub attempt: u32,
    /// How it was failed, if it was.
    pub fault: Option<Fault>,
}

/// All of them, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The requests.
    pub arrivals: Vec<Arrival>,
    /// Connections accepted.
    pub connections: u32,
}

impl Log {
    /// Requests of an operation after its first. Where each operation has a target of its own,
    /// and nothing was denied, these are the retries that the clients made.
    pub fn repeats(&self) -> usize {
        let repeats = |each: &&Arrival| each.operation.is_some() && each.attempt > 1;
        self.arrivals.iter().filter(repeats).count()
    }

    /// The requests of operations in `numbers`.
    pub fn of(&self, numbers: std::ops::Range<u32>) -> Self {
        let named = |each: &&Arrival| each.operation.is_some_and(|one| numbers.contains(&one));
        Self {
            arrivals: self.arrivals.iter().filter(named).cloned().collect(),
            connections: self.connections,
        }
    }

    /// How many came in each slot of `length`, from `start` on.
    pub fn by_slot(&self, start: Instant, length: Duration) -> Vec<usize> {
        let mut slots = Vec::new();
        for arrival in self.arrivals.iter().filter(|each| each.at >= start) {
            let slot = ((arrival.at - start).as_nanos() / length.as_nanos().max(1)) as usize;
            if slots.len() <= slot {
                slots.resize(slot + 1, 0);
            }
            slots[slot] += 1;
        }
        slots
    }
}
