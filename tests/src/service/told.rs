//! Who counts what happens, and tells it: a line of JSON every 50 ms.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::sleep;

use super::repeats::Repeats;
use super::slot::{self, Slot};
use crate::storm::report::monotonic_micros;

/// Where everything is counted, each in the slot of the moment it happens.
#[derive(Debug)]
pub struct Counts {
    now: RefCell<Slot>,
    seen: RefCell<Repeats>,
    over: Sender<Slot>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was worked off and answered.
    Answered,
    /// It got an error, or no answer.
    Failed,
    /// It was worked off for nobody.
    Wasted,
}

/// A request that came in and waits. One that is dropped without an end has failed.
#[derive(Debug)]
pub struct Arrival<'a> {
    counts: &'a Counts,
    end: End,
}

impl Counts {
    /// Counts, and where the slots come out that are over.
    pub fn new() -> (Self, Receiver<Slot>) {
        let (over, slots) = mpsc::channel();
        let counts = Self {
            now: RefCell::new(Slot::at(monotonic_micros())),
            seen: RefCell::default(),
            over,
        };
        (counts, slots)
    }

    /// Changes the slot of this moment. False when nobody takes those that are over.
    pub fn count(&self, change: impl FnOnce(&mut Slot)) -> bool {
        let mut slot = self.now.borrow_mut();
        let now = monotonic_micros();
        let mut is_heard = true;
        while let Some(over) = slot.over(now) {
            is_heard &= self.over.send(over).is_ok();
        }
        change(&mut slot);
        is_heard
    }

    /// A request comes in.
    pub fn comes(&self, caller: &str, target: &str) -> Arrival<'_> {
        let is_repeat = self
            .seen
            .borrow_mut()
            .is_one(caller, target, monotonic_micros());
        self.count(|slot| {
            slot.comes(caller);
            slot.repeats += u64::from(is_repeat);
        });
        Arrival {
            counts: self,
            end: End::Failed,
        }
    }

    /// Tells slots when they are over, also where nothing happens. Ends when nobody listens.
    pub async fn tell(&self) -> Result<()> {
        while self.count(|_| {}) {
            let left = slot::LENGTH - monotonic_micros() % slot::LENGTH;
            sleep(Duration::from_micros(left)).await;
        }
        bail!("nobody reads what it tells")
    }

    /// The last slot, as far as it came.
    pub fn finish(self) {
        self.count(|_| {});
        // Fails where nobody listens.
        let _ = self.over.send(self.now.take());
    }
}

impl Arrival<'_> {
    /// This became of it.
    pub fn ends(mut self, end: End) {
        self.end = end;
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.counts.count(|slot| {
            slot.waiting -= 1;
            match self.end {
                End::Answered => slot.answered += 1,
                End::Failed => slot.failed += 1,
                End::Wasted => slot.wasted += 1,
            }
        });
    }
}

/// Prints slots on a thread of its own: a reader that is slow does not slow the service, and none of
/// them is lost.
pub fn print(slots: Receiver<Slot>) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let mut out = io::stdout().lock();
        slots.iter().try_for_each(|slot| {
            serde_json::to_writer(&mut out, &slot)?;
            out.write_all(b"\n")?;
            out.flush()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_that_came_in_has_one_end() {
        let (counts, slots) = Counts::new();
        let (a, b, c) = (
            counts.comes("x", "/1"),
            counts.comes("x", "/1"),
            counts.comes("y", "/1"),
        );
        let waits = counts.comes("y", "/2");
        a.ends(End::Answered);
        b.ends(End::Wasted);
        drop(c);
        std::mem::forget(waits);
        counts.finish();
        let all: Vec<_> = slots.iter().collect();
        let sum = |of: fn(&Slot) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!(
            [
                sum(Slot::came),
                sum(|it| it.repeats),
                sum(|it| it.answered),
                sum(|it| it.failed),
                sum(|it| it.wasted)
            ],
            [4, 1, 1, 1, 1]
        );
        assert_eq!(all.last().map(|last| last.waiting), Some(1));
    }
}
