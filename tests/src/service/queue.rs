//! The queue: first come, first served, each for its time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::capacity::Capacity;
use super::order::{Mood, Order};
use super::told::Counts;

/// Who waits for being worked off.
pub type Turn = oneshot::Sender<()>;

/// The queue and what moves it. All of it lives on one thread.
#[derive(Debug)]
pub struct Queue {
    waiting: RefCell<VecDeque<Turn>>,
    capacity: Cell<Capacity>,
    mood: Cell<Mood>,
    changed: Notify,
    numbered: Cell<usize>,
}

impl Queue {
    /// An empty queue.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            waiting: RefCell::default(),
            capacity: Cell::new(capacity),
            mood: Cell::new(Mood::Serve),
            changed: Notify::new(),
            numbered: Cell::new(0),
        }
    }

    /// How requests are treated now.
    pub fn mood(&self) -> Mood {
        self.mood.get()
    }

    /// Takes an order.
    pub fn obey(&self, order: Order) {
        let mut capacity = self.capacity.get();
        match order {
            Order::Mood(mood) => self.mood.set(mood),
            Order::Slow(factor) => capacity.slowed = factor,
            Order::Capacity(full) => capacity.full = full,
            Order::Cold => capacity.since = Instant::now(),
        }
        self.capacity.set(capacity);
        self.changed.notify_one();
    }

    /// Whether a share of requests draws this one: of any hundred in a row exactly so many are
    /// drawn, in an order that no caller's rhythm follows.
    pub fn draws(&self, percent: u8) -> bool {
        let number = self.numbered.replace(self.numbered.get() + 1);
        number * 37 % 100 < usize::from(percent)
    }

    /// Waits for its turn and for the time that it takes.
    pub async fn pass(&self) {
        let (turn, came) = oneshot::channel();
        self.waiting.borrow_mut().push_back(turn);
        self.changed.notify_one();
        // The worker lives as long as the program.
        let _ = came.await;
    }

    /// Works it off, one request after the other. A late timer costs no capacity; what was not
    /// used while nobody waited is lost.
    pub async fn work(&self, counts: &Counts) {
        let mut free = Instant::now();
        loop {
            let now = Instant::now();
            counts.set(
                self.waiting.borrow().len() as u32,
                self.capacity.get().at(now),
            );
            if self.mood.get() == Mood::Stall || self.waiting.borrow().is_empty() {
                // Counts are told while nothing moves, too.
                let _ =
                    tokio::time::timeout(Duration::from_millis(10), self.changed.notified()).await;
                free = free.max(Instant::now());
                continue;
            }
            free += self.capacity.get().one(now);
            sleep_until(free).await;
            let next = self.waiting.borrow_mut().pop_front();
            if let Some(turn) = next {
                // A connection that was closed by order has left the queue.
                let _ = turn.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;

    async fn passed_within(queue: Rc<Queue>, length: Duration) -> usize {
        let passed = Rc::new(Cell::new(0));
        let tasks = LocalSet::new();
        for _ in 0..1_000 {
            let (queue, passed) = (Rc::clone(&queue), Rc::clone(&passed));
            tasks.spawn_local(async move {
                queue.pass().await;
                passed.set(passed.get() + 1);
            });
        }
        let counts = Counts::told_on_stdout();
        let work = tasks.run_until(async { queue.work(&counts).await });
        let _ = tokio::time::timeout(length, work).await;
        passed.get()
    }

    fn queue() -> Rc<Queue> {
        Rc::new(Queue::new(Capacity {
            full: 100.0,
            cold: 1.0,
            warm: Duration::ZERO,
            slowed: 1.0,
            since: Instant::now(),
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_pass_a_second_as_the_capacity_says() {
        let passed = passed_within(queue(), Duration::from_secs(2)).await;
        assert!((195..=205).contains(&passed), "{passed}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_passes_a_stalled_queue_and_slowness_divides() {
        let stalled = queue();
        stalled.obey(Order::Mood(Mood::Stall));
        assert_eq!(passed_within(stalled, Duration::from_secs(2)).await, 0);
        let slow = queue();
        slow.obey(Order::Slow(4.0));
        let passed = passed_within(slow, Duration::from_secs(2)).await;
        assert!((48..=52).contains(&passed), "{passed}");
    }

    #[tokio::test]
    async fn a_share_of_any_hundred_is_drawn() {
        let queue = queue();
        let drawn = || (0..100).filter(|_| queue.draws(30)).count();
        assert_eq!([drawn(), drawn()], [30, 30]);
    }
}
