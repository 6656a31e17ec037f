//! Whether a connect repeats a failed one (I2).

use std::sync::atomic::{AtomicU64, Ordering};

use governor_core::evidence::{Claims, Evidence, Noted, ThreadHistory};
use governor_core::ledger::WorkloadLedger;
use governor_core::units::Millis;
use proptest::prelude::*;

const WINDOW: Millis = Millis(10_000);
const HERE: u64 = 1;
const THERE: u64 = 2;

type Thread = ThreadHistory<AtomicU64>;

/// A thread that has called every second for a while, without failures; the
/// time of its last attempt.
fn healthy() -> (Thread, u64) {
    let thread = Thread::default();
    for second in 1..=10u64 {
        let Noted {
            repeats, number, ..
        } = thread.attempt(HERE, Millis(second * 1_000), WINDOW);
        assert!(!repeats);
        thread.ended(number, Millis(second * 1_000 + 5), true);
    }
    (thread, 10_000)
}

/// An attempt at `now` that fails at once.
fn fails(thread: &Thread, now: u64) -> bool {
    let Noted {
        repeats, number, ..
    } = thread.attempt(HERE, Millis(now), WINDOW);
    thread.ended(number, Millis(now), false);
    repeats
}

fn repeats(thread: &Thread, endpoint: u64, now: u64) -> bool {
    thread.attempt(endpoint, Millis(now), WINDOW).repeats
}

#[test]
fn coming_back_sooner_than_half_the_healthy_gap_is_a_retry() {
    let (thread, last) = healthy();
    assert!(!fails(&thread, last + 1_000));
    assert!(repeats(&thread, HERE, last + 1_100));
}

#[test]
fn coming_back_at_the_usual_time_is_a_first_try() {
    let (thread, last) = healthy();
    fails(&thread, last + 1_000);
    assert!(!repeats(&thread, HERE, last + 1_600));
}

#[test]
fn without_a_healthy_history_nothing_is_a_retry() {
    let thread = Thread::default();
    for i in 0..100 {
        assert!(!fails(&thread, 1_000 + i));
    }
}

#[test]
fn one_failure_explains_one_attempt() {
    let (thread, last) = healthy();
    fails(&thread, last + 1_000);
    assert!(repeats(&thread, HERE, last + 1_010));
    // That one was denied or has not ended: it is no failure.
    assert!(!repeats(&thread, HERE, last + 1_020));
}

#[test]
fn a_thread_that_has_been_elsewhere_meanwhile_is_not_sequential() {
    let (thread, last) = healthy();
    fails(&thread, last + 1_000);
    assert!(!repeats(&thread, THERE, last + 1_010));
    assert!(!repeats(&thread, HERE, last + 1_020));
}

#[test]
fn a_thread_s_evidence_expires_after_the_window() {
    let thread = Thread::default();
    for minute in 1..=5u64 {
        let Noted { number, .. } = thread.attempt(HERE, Millis(minute * 60_000), WINDOW);
        thread.ended(number, Millis(minute * 60_000 + 5), true);
    }
    fails(&thread, 360_000);
    assert!(
        !repeats(&thread, HERE, 370_000),
        "ten seconds later, and well below half a minute"
    );
}

#[test]
fn an_outcome_that_comes_late_belongs_to_its_own_attempt() {
    let (thread, last) = healthy();
    let Noted { number: slow, .. } = thread.attempt(HERE, Millis(last + 1_000), WINDOW);
    let Noted { number: quick, .. } = thread.attempt(HERE, Millis(last + 1_010), WINDOW);
    thread.ended(quick, Millis(last + 1_015), true);
    thread.ended(slow, Millis(last + 1_020), false);
    assert!(!repeats(&thread, HERE, last + 1_030));
}

#[test]
fn a_claim_is_taken_once_and_expires_after_the_real_failure() {
    let claims = Claims::<AtomicU64>::default();
    assert!(!claims.claim(Millis(1_000), WINDOW));
    claims.failed(Millis(1_000), WINDOW);
    claims.failed(Millis(1_001), WINDOW);
    assert!(claims.claim(Millis(5_000), WINDOW));
    assert!(
        claims.claim(Millis(11_000), WINDOW),
        "claiming does not renew it"
    );
    assert!(!claims.claim(Millis(11_000), WINDOW));
    claims.failed(Millis(20_000), WINDOW);
    assert!(!claims.claim(Millis(30_000), WINDOW));
}

#[test]
fn only_good_evidence_refuses() {
    for (evidence, refuses) in [
        (Evidence::None, false),
        (Evidence::Inferred, false),
        (Evidence::Thread, true),
        (Evidence::Exact, true),
    ] {
        assert_eq!(evidence.refuses(), refuses);
        assert_eq!(Evidence::from_number(evidence as u32), evidence);
    }
    assert_eq!(Evidence::from_number(77), Evidence::None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// However a thread calls: at most one retry per failure, and only after it.
    #[test]
    fn a_thread_never_has_more_retries_than_failures(
        steps in prop::collection::vec((0u64..3_000, prop::bool::ANY, prop::option::of(prop::bool::ANY)), 1..200),
    ) {
        let thread = Thread::default();
        let (mut now, mut failures, mut retries) = (1_000u64, 0u32, 0u32);
        for (after, here, ended) in steps {
            now += after;
            let Noted { repeats, number, .. } = thread.attempt(if here { HERE } else { THERE }, Millis(now), WINDOW);
            retries += u32::from(repeats);
            prop_assert!(retries <= failures);
            if let Some(success) = ended {
                failures += u32::from(!success);
                thread.ended(number, Millis(now), success);
            }
        }
    }

    /// A caller that never retries, however irregular within a factor of two,
    /// and however much fails, is never taken for one that does.
    #[test]
    fn a_thread_that_keeps_its_pace_is_never_a_retrier(
        gap in 2u64..5_000,
        steps in prop::collection::vec((0u64..1_000, prop::bool::ANY), 1..300),
    ) {
        let thread = Thread::default();
        let mut now = 1_000;
        for (irregular, success) in steps {
            // Between 0.71 and 1.41 of the gap: the longest over the shortest is two.
            now += (gap * 710 + gap * irregular * 7 / 10).div_ceil(1_000);
            let Noted {
        repeats, number, ..
    } = thread.attempt(HERE, Millis(now), WINDOW);
            prop_assert!(!repeats);
            thread.ended(number, Millis(now), success);
        }
    }
}

/// Which try of one operation an attempt at `now` may be, which fails at once.
fn run(thread: &Thread, now: u64) -> u32 {
    let Noted { number, run, .. } = thread.attempt(HERE, Millis(now), WINDOW);
    thread.ended(number, Millis(now), false);
    run
}

#[test]
fn a_new_thread_that_fails_and_comes_again_may_be_trying_one_operation() {
    let thread = Thread::default();
    assert_eq!([0, 100, 200].map(|at| run(&thread, 1_000 + at)), [1, 2, 3]);
    // Beyond the window it is another one.
    assert_eq!(run(&thread, 1_200 + WINDOW.0 + 1), 1);
}

#[test]
fn a_thread_that_keeps_its_usual_pace_tries_nothing_twice() {
    let (thread, last) = healthy();
    assert_eq!(
        [1, 2, 3].map(|second| run(&thread, last + second * 1_000)),
        [1, 1, 1]
    );
    assert_eq!(run(&thread, last + 3_100), 2);
    assert_eq!(run(&thread, last + 3_200), 3);
    assert_eq!(run(&thread, last + 4_200), 1);
}

#[test]
fn a_run_has_an_end_and_leaves_the_attempts_number_alone() {
    let thread = Thread::default();
    let most = (0..1_000).map(|i| run(&thread, 1_000 + i)).max();
    assert_eq!(most, Some(255));
    assert_eq!(thread.attempt(HERE, Millis(2_001), WINDOW).number, 1_001);
}

#[test]
fn the_longest_chain_is_kept_and_nobody_can_claim_any_number() {
    let ledger = WorkloadLedger::<AtomicU64>::default();
    for number in [1, 3, 2, 1] {
        ledger.tried(number);
    }
    assert_eq!(ledger.longest.load(Ordering::SeqCst), 3);
    assert_eq!(ledger.longest_guess.load(Ordering::SeqCst), 0);
    ledger.tried(4_000_000_000);
    assert_eq!(ledger.longest.load(Ordering::SeqCst), 255);
}
