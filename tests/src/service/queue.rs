//! The queue: first come, first served, each for its time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use tokio::select;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::capacity::Capacity;
use super::order::{Mood, Order};
use super::told::Counts;

/// Longer than any storm.
const LONG: Duration = Duration::from_secs(1_000_000);

/// Tells one who waits that its work is done.
type Turn = oneshot::Sender<()>;

/// The queue and what moves it. All of it lives on one thread.
#[derive(Debug)]
pub struct Queue {
    waiting: RefCell<VecDeque<Turn>>,
    came: Notify,
    capacity: RefCell<Capacity>,
    mood: watch::Sender<Mood>,
    ordered: Notify,
}

impl Queue {
    /// An empty queue.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            waiting: RefCell::default(),
            came: Notify::new(),
            capacity: RefCell::new(capacity),
            mood: watch::Sender::new(Mood::Serve),
            ordered: Notify::new(),
        }
    }

    /// How requests are treated now.
    pub fn mood(&self) -> Mood {
        *self.mood.borrow()
    }

    /// Tells when that changes.
    pub fn moods(&self) -> watch::Receiver<Mood> {
        self.mood.subscribe()
    }

    /// Takes an order.
    pub fn obey(&self, order: Order) {
        match order {
            Order::Mood(mood) => _ = self.mood.send_replace(mood),
            Order::Capacity(full) => self.capacity.borrow_mut().resize(full),
            Order::Cold => self.capacity.borrow_mut().cool(),
        }
        self.ordered.notify_one();
    }

    /// Queues, and waits until it is worked off.
    pub async fn pass(&self) {
        let (turn, done) = oneshot::channel();
        self.waiting.borrow_mut().push_back(turn);
        self.came.notify_one();
        // The worker lives as long as the program.
        let _ = done.await;
    }

    /// Requests per second, now.
    pub fn rate(&self) -> f64 {
        self.capacity.borrow().rate() * self.mood().pace()
    }

    /// Works it off, one request after the other. A late timer costs no capacity; what was not used
    /// while nobody waited is lost.
    pub async fn work(&self, counts: &Counts) {
        let mut free = Instant::now();
        loop {
            counts.count(|slot| slot.capacity = self.rate());
            let next = self.waiting.borrow_mut().pop_front();
            let Some(turn) = next else {
                select! {
                    () = self.came.notified() => free = free.max(Instant::now()),
                    () = self.ordered.notified() => {}
                }
                continue;
            };
            // Else its connection was closed by an order: a dead process has no queue.
            if !turn.is_closed() {
                free = self.serve(&turn, free, counts).await;
                let _ = turn.send(());
            }
        }
    }

    /// The work of one request, from `free` on; when it is done. An order changes how fast what is
    /// left of it goes.
    async fn serve(&self, turn: &Turn, mut free: Instant, counts: &Counts) -> Instant {
        let mut left = 1.0;
        loop {
            let rate = self.rate();
            if rate == 0.0 {
                self.ordered.notified().await;
                free = Instant::now();
                if turn.is_closed() {
                    return free;
                }
            } else {
                let end = free + Duration::from_secs_f64(left / rate).min(LONG);
                select! {
                    biased;
                    () = sleep_until(end) => {
                        self.capacity.borrow_mut().worked(end - free);
                        return end;
                    }
                    () = self.ordered.notified() => {
                        let now = Instant::now().clamp(free, end);
                        left = (left - (now - free).as_secs_f64() * rate).max(0.0);
                        self.capacity.borrow_mut().worked(now - free);
                        free = now;
                    }
                }
            }
            counts.count(|slot| slot.capacity = self.rate());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};
    use tokio::time::sleep;

    use super::*;

    /// A queue that is worked off beside a test.
    struct Worked {
        queue: Rc<Queue>,
        passed: Rc<Cell<usize>>,
    }

    impl Worked {
        async fn come(&self, number: usize) -> Vec<JoinHandle<()>> {
            let come = |_| {
                let (queue, passed) = (Rc::clone(&self.queue), Rc::clone(&self.passed));
                spawn_local(async move {
                    queue.pass().await;
                    passed.set(passed.get() + 1);
                })
            };
            let all = (0..number).map(come).collect();
            yield_now().await;
            all
        }

        /// As many as pass in that time.
        async fn pass_in(&self, time: Duration) -> usize {
            let before = self.passed.get();
            sleep(time).await;
            self.passed.get() - before
        }

        fn order(&self, order: &str) {
            self.queue.obey(order.parse().unwrap());
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    async fn with_queue<F: Future<Output = ()>>(
        capacity: Capacity,
        test: impl FnOnce(Worked) -> F,
    ) {
        let queue = Rc::new(Queue::new(capacity));
        let worked = Worked {
            queue: Rc::clone(&queue),
            passed: Rc::default(),
        };
        let (counts, _slots) = Counts::new();
        let tasks = LocalSet::new();
        tasks
            .run_until(async {
                select! {
                    // The worker sees who came before the test goes on.
                    biased;
                    () = queue.work(&counts) => {}
                    () = test(worked) => {}
                }
            })
            .await;
    }

    fn warm(rate: f64) -> Capacity {
        Capacity::new(rate, 0.2, 10 * SECOND)
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_pass_a_second_as_the_capacity_says() {
        with_queue(warm(1_000.0), async |it| {
            it.come(10_000).await;
            for _ in 0..5 {
                let passed = it.pass_in(SECOND).await;
                assert!((998..=1_002).contains(&passed), "{passed}");
            }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_used_is_lost() {
        with_queue(warm(100.0), async |it| {
            sleep(10 * SECOND).await;
            it.come(1_000).await;
            let passed = it.pass_in(SECOND).await;
            assert!((99..=101).contains(&passed), "{passed}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_worker_loses_no_capacity() {
        with_queue(warm(100.0), async |it| {
            it.come(1_000).await;
            // No timer is served before the next await.
            tokio::time::advance(SECOND).await;
            let passed = it.pass_in(SECOND).await;
            assert!((199..=201).contains(&passed), "{passed}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_queue_does_not_move_and_makes_nothing_up_for_it() {
        with_queue(warm(100.0), async |it| {
            it.order("stall");
            it.come(1_000).await;
            assert_eq!(it.pass_in(5 * SECOND).await, 0);
            it.order("serve");
            let passed = it.pass_in(SECOND).await;
            assert!((99..=101).contains(&passed), "{passed}");
            it.order("slow 4");
            let passed = it.pass_in(4 * SECOND).await;
            assert!((99..=101).contains(&passed), "{passed}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_reaches_the_request_that_is_worked_on() {
        with_queue(warm(10.0), async |it| {
            it.order("slow 1000");
            it.come(1).await;
            assert_eq!(it.pass_in(10 * SECOND).await, 0);
            it.order("serve");
            assert_eq!(it.pass_in(SECOND / 10).await, 1);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_cold_queue_gets_faster_by_its_work_alone() {
        with_queue(warm(100.0), async |it| {
            it.order("cold");
            sleep(60 * SECOND).await;
            it.come(5_000).await;
            // 20 a second, and 8 more each second: 24 in the first.
            let passed = it.pass_in(SECOND).await;
            assert!((23..=25).contains(&passed), "{passed}");
            it.pass_in(9 * SECOND).await;
            let passed = it.pass_in(SECOND).await;
            assert!((99..=101).contains(&passed), "{passed}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_left_the_queue_by_order_costs_nothing() {
        with_queue(warm(10.0), async |it| {
            it.order("refuse");
            for dead in it.come(100).await {
                dead.abort();
            }
            // They leave when their tasks are next looked at.
            sleep(SECOND / 1_000).await;
            it.order("serve");
            it.come(1).await;
            assert_eq!(it.pass_in(SECOND / 5).await, 1);
        })
        .await;
    }
}
