//! Adaptive concurrency.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use governor_core::limiter::{Failed, Limiter, OCTAVES, bucket, middle};
use governor_core::params::{Params, concurrency};
use governor_core::units::Nanos;

const P: Params = Params::DEFAULT;

fn at(millis: u64) -> Nanos {
    Nanos::from_millis(1_000_000 + millis)
}

fn gave_up(millis: u64) -> Failed {
    Failed::GaveUp {
        after: millis * 1_000,
    }
}

/// Callers that come in an even stream, on a service with a latency.
struct Load {
    limiter: Limiter<AtomicU64>,
    millis: u64,
    going: VecDeque<(u64, Nanos)>,
    refused: u64,
}

#[derive(Clone, Copy)]
enum Service {
    Answers {
        after: u64,
    },
    /// Callers give up after so long.
    Hangs {
        after: u64,
    },
    Refuses,
}

impl Load {
    fn new() -> Self {
        Self {
            limiter: Limiter::default(),
            millis: 0,
            going: VecDeque::new(),
            refused: 0,
        }
    }

    /// So many milliseconds with so many attempts in each.
    fn run(&mut self, millis: u64, each: usize, service: Service) {
        self.refused = 0;
        let (after, outcome) = match service {
            Service::Answers { after } => (after, None),
            Service::Hangs { after } => (after, Some(gave_up(after))),
            Service::Refuses => (1, Some(Failed::Otherwise)),
        };
        for _ in 0..millis {
            self.millis += 1;
            let now = at(self.millis);
            while self
                .going
                .front()
                .is_some_and(|going| going.0 <= self.millis)
            {
                let (_, entered) = self.going.pop_front().expect("not empty");
                self.limiter.leave(now, entered);
                match outcome {
                    None => self.limiter.success(now.since(entered).micros()),
                    Some(failed) => self.limiter.failure(failed),
                }
                self.limiter.tick(&P, now);
            }
            for _ in 0..each {
                self.limiter.tick(&P, now);
                if self.limiter.enter(&P, now) {
                    self.going.push_back((self.millis + after, now));
                } else {
                    self.refused += 1;
                }
            }
        }
    }
}

#[test]
fn asleep_it_refuses_nothing() {
    let mut load = Load::new();
    let mut refused = 0;
    for (each, service) in [
        (1, Service::Answers { after: 5 }),
        (20, Service::Answers { after: 5 }),
        (20, Service::Answers { after: 900 }),
        (1, Service::Refuses),
    ] {
        load.run(3_000, each, service);
        refused += load.refused;
    }
    assert_eq!(load.limiter.limit(&P), None);
    assert_eq!(refused, 0);
}

#[test]
fn it_wakes_when_callers_give_up_and_nothing_succeeds() {
    let mut load = Load::new();
    load.run(3_000, 10, Service::Answers { after: 5 });
    load.run(1_200, 10, Service::Hangs { after: 1_000 });
    let limit = load.limiter.limit(&P).expect("awake");
    assert!(
        limit <= 50,
        "begins at the healthy peak, and shrinks: {limit}"
    );
    load.run(12_000, 10, Service::Hangs { after: 1_000 });
    assert_eq!(load.limiter.limit(&P), Some(1), "down to the floor");
    assert!(load.refused > 0);
}

#[test]
fn two_give_ups_do_not_wake_it() {
    let limiter = Limiter::<AtomicU64>::default();
    for millis in (0..10_000).step_by(600) {
        limiter.failure(gave_up(500));
        limiter.tick(&P, at(millis));
    }
    assert_eq!(limiter.limit(&P), None);
}

#[test]
fn give_ups_below_a_tenth_of_the_outcomes_do_not_wake_it() {
    for (share, wakes) in [(20, false), (5, true)] {
        let limiter = Limiter::<AtomicU64>::default();
        let mut woke = false;
        // A baseline of 5 ms first, then ten times that.
        for millis in 0..20_000u64 {
            let slow = millis > 10_000;
            if slow && millis % share == 0 {
                limiter.failure(gave_up(200));
            } else {
                limiter.success(if slow { 50_000 } else { 5_000 });
            }
            limiter.tick(&P, at(millis));
            woke |= limiter.limit(&P).is_some();
        }
        assert_eq!(woke, wakes, "1 in {share}");
    }
}

#[test]
fn it_grows_back_and_sleeps_when_it_is_not_needed() {
    let mut load = Load::new();
    load.run(3_000, 4, Service::Answers { after: 5 });
    load.run(6_000, 4, Service::Hangs { after: 1_000 });
    assert_eq!(load.limiter.limit(&P), Some(1));
    load.run(3_500, 4, Service::Answers { after: 5 });
    load.run(1_000, 4, Service::Answers { after: 5 });
    assert_eq!(load.refused, 0, "grown back");
    load.run(6_000, 4, Service::Answers { after: 5 });
    assert_eq!(load.limiter.limit(&P), None, "asleep");
}

#[test]
fn a_service_that_is_slow_for_a_moment_now_and_then_does_not_keep_it_awake() {
    let mut load = Load::new();
    load.run(3_000, 1, Service::Answers { after: 5 });
    // Who waits 200 ms feels 30.
    load.run(6_000, 1, Service::Hangs { after: 200 });
    assert_eq!(load.limiter.limit(&P), Some(1));
    load.run(2_800, 1, Service::Answers { after: 5 });
    for _ in 0..3 {
        load.run(200, 1, Service::Answers { after: 30 });
        load.run(2_300, 1, Service::Answers { after: 5 });
        assert_eq!(load.refused, 0, "not needed");
    }
    assert_eq!(load.limiter.limit(&P), None, "asleep");
}

#[test]
fn a_second_at_the_floor_teaches_it_what_is_normal_now() {
    // The service comes back slower for good: 300 ms, three ticks each.
    let mut load = Load::new();
    load.run(3_000, 4, Service::Answers { after: 5 });
    load.run(6_000, 4, Service::Hangs { after: 1_000 });
    assert_eq!(load.limiter.limit(&P), Some(1));
    load.run(10_000, 1, Service::Answers { after: 300 });
    load.run(1_000, 1, Service::Answers { after: 300 });
    assert_eq!(load.refused, 0, "limit {:?}", load.limiter.limit(&P));
}

/// Successes of a latency, and every third caller gives up.
fn a_third_gives_up(limiter: &Limiter<AtomicU64>, millis: Range<u64>, latency: u64, why: Failed) {
    for milli in millis {
        if milli % 3 == 0 {
            limiter.failure(why);
        } else {
            limiter.success(latency * 1_000);
        }
        limiter.tick(&P, at(milli));
    }
}

#[test]
fn a_latency_that_callers_do_not_feel_does_not_wake_it() {
    for (patience, latency, wakes) in [
        // A machine that is short of processors.
        (gave_up(1_000), 50, false),
        (Failed::NoRoom, 50, false),
        // A queue.
        (gave_up(1_000), 800, true),
        (Failed::NoRoom, 800, true),
        (gave_up(200), 50, true),
        // Callers killed beside a poll of an hour are no measure of patience.
        (gave_up(3_600_000), 2_000, true),
    ] {
        let limiter = Limiter::<AtomicU64>::default();
        for milli in 0..1_000 {
            limiter.success(2_000);
            limiter.tick(&P, at(milli));
        }
        a_third_gives_up(&limiter, 1_000..2_000, latency, patience);
        let awake = limiter.limit(&P).is_some();
        assert_eq!(awake, wakes, "{patience:?}, {latency} ms");
    }
}

#[test]
fn half_of_what_callers_wait_is_high_whatever_was_usual() {
    let limiter = Limiter::<AtomicU64>::default();
    for milli in 0..1_000 {
        limiter.success(400_000);
        limiter.tick(&P, at(milli));
    }
    a_third_gives_up(&limiter, 1_000..2_000, 700, gave_up(1_000));
    assert!(limiter.limit(&P).is_some());
}

#[test]
fn a_few_latencies_are_no_median() {
    // Ten a second: one that is slow does not say that three ticks are.
    let limiter = Limiter::<AtomicU64>::default();
    for tick in 0..60 {
        let slow = tick > 30 && tick % 10 < 3;
        limiter.success(if slow { 900_000 } else { 5_000 });
        if tick > 30 {
            limiter.failure(gave_up(1_000));
        }
        limiter.tick(&P, at(tick * 100));
    }
    assert_eq!(limiter.limit(&P), None);
}

#[test]
fn a_limit_that_is_not_used_does_not_grow() {
    let mut load = Load::new();
    load.run(3_000, 4, Service::Answers { after: 5 });
    load.run(3_000, 4, Service::Hangs { after: 1_000 });
    load.run(5_000, 4, Service::Answers { after: 5 });
    let limit = load.limiter.limit(&P).expect("awake");
    // Twenty are in flight; another second of growth would make 550 of it.
    assert!((300..400).contains(&limit), "{limit}");
}

#[test]
fn where_the_floor_does_not_help_it_sleeps() {
    // The service comes back slower for good, near what callers wait.
    let mut load = Load::new();
    load.run(3_000, 4, Service::Answers { after: 5 });
    load.run(6_000, 4, Service::Hangs { after: 1_000 });
    load.run(7_000, 4, Service::Answers { after: 700 });
    assert!(load.refused > 0);
    load.run(5_000, 4, Service::Answers { after: 700 });
    assert_eq!(load.refused, 0, "limit {:?}", load.limiter.limit(&P));
}

#[test]
fn latency_that_sways_whatever_the_limit_is_what_is_usual_soon() {
    let sways = |load: &mut Load| {
        load.run(400, 1, Service::Answers { after: 100 });
        let refused = load.refused;
        load.run(400, 1, Service::Answers { after: 300 });
        load.refused + refused
    };
    let mut load = Load::new();
    for _ in 0..8 {
        assert_eq!(sways(&mut load), 0, "asleep");
    }
    load.run(3_000, 1, Service::Hangs { after: 1_000 });
    load.limiter.restore(&P);
    let refused: Vec<_> = (0..13).map(|_| sways(&mut load)).collect();
    assert!(refused[0] > 0 && refused[10..] == [0; 3], "{refused:?}");
}

#[test]
fn what_never_ends_is_parked_after_two_seconds() {
    let limiter = Limiter::<AtomicU64>::default();
    for _ in 0..100 {
        assert!(limiter.enter(&P, at(0)));
    }
    assert_eq!(limiter.in_flight(at(1_700)), 100);
    assert_eq!(limiter.in_flight(at(2_000)), 0);
    // It ends at last: nothing left to take back.
    limiter.leave(at(30_000), at(0));
    assert!(limiter.enter(&P, at(30_000)));
    assert_eq!(limiter.in_flight(at(30_000)), 1);
}

#[test]
fn after_an_idle_time_it_sleeps() {
    let mut load = Load::new();
    load.run(3_000, 4, Service::Answers { after: 5 });
    load.run(3_000, 4, Service::Hangs { after: 1_000 });
    assert!(load.limiter.limit(&P).is_some());
    load.limiter.tick(&P, at(20_000));
    load.limiter.tick(&P, at(30_000));
    assert_eq!(load.limiter.limit(&P), None);
}

#[test]
fn when_the_breaker_closes_it_begins_again_at_twice_the_healthy_peak() {
    let mut load = Load::new();
    load.run(3_000, 16, Service::Answers { after: 5 });
    load.run(16_000, 16, Service::Hangs { after: 1_000 });
    assert_eq!(load.limiter.limit(&P), Some(1));
    load.limiter.restore(&P);
    let limit = load.limiter.limit(&P).expect("awake");
    assert!((140..=160).contains(&limit), "{limit}");
}

#[test]
fn when_the_breaker_closes_it_wakes_where_it_has_learned_what_is_healthy() {
    let mut load = Load::new();
    load.limiter.restore(&P);
    assert_eq!(load.limiter.limit(&P), None, "nothing learned");
    load.run(3_000, 4, Service::Answers { after: 5 });
    load.run(3_000, 4, Service::Refuses);
    assert_eq!(load.limiter.limit(&P), None, "nobody gave up");
    load.limiter.restore(&P);
    assert!(load.limiter.limit(&P).is_some());
    load.run(6_000, 4, Service::Answers { after: 5 });
    assert_eq!((load.refused, load.limiter.limit(&P)), (0, None));
}

#[test]
fn a_fixed_limit_is_a_limit() {
    let fixed = Params {
        concurrency: concurrency::FIXED,
        limit_fixed: 3,
        ..P
    };
    let limiter = Limiter::<AtomicU64>::default();
    let admitted = (0..10).filter(|_| limiter.enter(&fixed, at(0))).count();
    assert_eq!(admitted, 3);
    limiter.leave(at(1), at(0));
    assert!(limiter.enter(&fixed, at(1)));
    assert!(!limiter.enter(&fixed, at(1)));
}

#[test]
fn a_latency_falls_into_a_bucket_whose_middle_is_near() {
    for micros in (32..33_000_000u64).step_by(997) {
        let (octave, quarter) = bucket(micros);
        assert!(octave < OCTAVES && quarter < 4);
        let middle = middle(octave, quarter) as f64;
        let off = (middle - micros as f64).abs() / micros as f64;
        assert!(off <= 0.13, "{micros} us in the bucket of {middle} us");
    }
    assert_eq!(bucket(0), (0, 0));
    assert_eq!(bucket(u64::MAX), (OCTAVES - 1, 3));
}
