//! What the service counts, and tells a line of JSON at a time: slots of 50 ms.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::storm::report::monotonic_micros;

/// Length of a slot, microseconds.
pub const SLOT: u64 = 50_000;
/// A target that comes again within one to two of these is a repeat, microseconds.
const REMEMBERED: u64 = 30_000_000;

/// What happened in 50 ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    /// Its beginning, microseconds of CLOCK_MONOTONIC: a multiple of [`SLOT`].
    pub t: u64,
    /// Requests that came in, by caller (`User-Agent`).
    pub arrived: BTreeMap<String, u32>,
    /// Of those, requests for a target that came before, in the last half minute at least.
    pub repeats: u32,
    /// Requests that were worked off and answered to somebody.
    pub answered: u32,
    /// Requests that were answered with an error.
    pub failed: u32,
    /// Requests that were worked off for a caller who had left.
    pub wasted: u32,
    /// Tries at the backend, and those of them that were first.
    pub called: u32,
    /// See [`Slot::called`].
    pub called_first: u32,
    /// Requests in the queue at the end of the slot.
    pub waiting: u32,
    /// What the service could do, per second.
    pub capacity: f64,
}

impl Slot {
    /// Requests that came in, of whomever.
    pub fn came(&self) -> u32 {
        self.arrived.values().sum()
    }
}

/// Where everything is counted.
#[derive(Debug)]
pub struct Counts {
    inner: Mutex<Inner>,
    lines: mpsc::Sender<Slot>,
}

#[derive(Debug, Default)]
struct Inner {
    slot: Slot,
    waiting: u32,
    capacity: f64,
    seen: HashSet<u64>,
    seen_before: HashSet<u64>,
    turned: u64,
}

impl Counts {
    /// Counts that are told on standard output by a thread of their own: a reader that is slow
    /// does not slow the service.
    pub fn told_on_stdout() -> Self {
        let (lines, told) = mpsc::channel::<Slot>();
        thread::spawn(move || {
            let mut out = std::io::stdout().lock();
            for slot in told {
                // Whoever does not read any more does not want to know.
                let _ = serde_json::to_writer(&mut out, &slot);
                let _ = out.write_all(b"\n").and_then(|()| out.flush());
            }
        });
        let now = monotonic_micros();
        let inner = Inner {
            slot: Slot {
                t: now - now % SLOT,
                ..Slot::default()
            },
            turned: now,
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            lines,
        }
    }

    /// Changes the slot of this moment; the ones before are told.
    pub fn count(&self, change: impl FnOnce(&mut Slot)) {
        change(&mut self.now().slot);
    }

    /// A request came in.
    pub fn came(&self, caller: &str, target: &str) {
        let mut hasher = DefaultHasher::new();
        (caller, target).hash(&mut hasher);
        let mut inner = self.now();
        let target = hasher.finish();
        let is_new = inner.seen.insert(target) && !inner.seen_before.contains(&target);
        inner.slot.repeats += u32::from(!is_new);
        match inner.slot.arrived.get_mut(caller) {
            Some(count) => *count += 1,
            None => {
                inner.slot.arrived.insert(caller.to_owned(), 1);
            }
        }
    }

    /// The queue is so long, the capacity so high.
    pub fn set(&self, waiting: u32, capacity: f64) {
        let mut inner = self.now();
        inner.waiting = waiting;
        inner.capacity = capacity;
    }

    /// Tells slots that are over though nothing happens.
    pub async fn tick(&self) {
        loop {
            let now = monotonic_micros();
            tokio::time::sleep(Duration::from_micros(SLOT - now % SLOT)).await;
            drop(self.now());
        }
    }

    fn now(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = monotonic_micros();
        while inner.slot.t + SLOT <= now {
            let next = Slot {
                t: inner.slot.t + SLOT,
                ..Slot::default()
            };
            let mut over = std::mem::replace(&mut inner.slot, next);
            over.waiting = inner.waiting;
            over.capacity = inner.capacity;
            // The reader is gone with the whole program only.
            let _ = self.lines.send(over);
        }
        if now - inner.turned > REMEMBERED {
            inner.turned = now;
            inner.seen_before = std::mem::take(&mut inner.seen);
        }
        inner
    }
}
