//! The rolling count against a naive model, and at rest after a race.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::rounds;
use governor_core::window::{Cap, SPAN, Window};
use proptest::prelude::*;

type Host = Window<AtomicU64>;

const SPAN_U64: u64 = SPAN as u64;

/// What the window should hold: a count per epoch, and the newest epoch seen.
#[derive(Default)]
struct Naive {
    counts: HashMap<u64, u64>,
    newest: Option<u64>,
}

impl Naive {
    fn advance(&mut self, epoch: u64) -> u64 {
        let newest = self.newest.map_or(epoch, |newest| newest.max(epoch));
        self.newest = Some(newest);
        newest
    }
    fn count(&self, epoch: u64) -> u64 {
        let last = self.newest.map_or(epoch, |newest| newest.max(epoch));
        (0..SPAN_U64)
            .filter_map(|age| self.counts.get(&last.checked_sub(age)?))
            .sum()
    }
    fn slot(&self, epoch: u64) -> u64 {
        self.counts.get(&epoch).copied().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u32),
    Reserve {
        total: u64,
        slot: u64,
    },
    Strict {
        total: u64,
    },
    /// Takes back one of what was added so many epochs ago.
    Remove {
        age: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u32..50).prop_map(Step::Add),
        (0u64..120, 0u64..30).prop_map(|(total, slot)| Step::Reserve { total, slot }),
        (0u64..120).prop_map(|total| Step::Strict { total }),
        (0u64..14).prop_map(|age| Step::Remove { age }),
    ]
}

/// How far the clock moves before a step: mostly little, sometimes far.
fn advance() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => Just(0u64),
        6 => 1u64..4,
        2 => 4u64..40,
        1 => 40u64..100_000,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2_000)
    })]

    #[test]
    fn a_window_counts_what_a_naive_model_counts(
        start in prop_oneof![0u64..40, (1u64 << 28) - 60..1 << 28, any::<u32>().prop_map(u64::from)],
        // (advance, skew of this CPU's clock, step)
        steps in prop::collection::vec((advance(), 0u64..3, step()), 1..120),
    ) {
        let start = start + 20;
        let window = Host::default();
        let mut naive = Naive::default();
        let mut clock = start;
        for (advance, skew, step) in steps {
            clock += advance;
            let epoch = clock - skew;
            match step {
                Step::Add(amount) => {
                    prop_assert!(window.add(epoch, amount).is_some());
                    let at = naive.advance(epoch);
                    *naive.counts.entry(at).or_default() += u64::from(amount);
                }
                Step::Reserve { total, slot } => {
                    // Refused or not, the try brings the window to its epoch.
                    let at = naive.advance(epoch);
                    let fits = naive.count(epoch) < total && naive.slot(at) < slot;
                    let got = window.reserve(epoch, Cap::both(total, slot));
                    prop_assert_eq!(got.is_some(), fits);
                    if fits {
                        *naive.counts.entry(at).or_default() += 1;
                        prop_assert_eq!(got, Some(naive.count(epoch)));
                    }
                }
                Step::Strict { total } => {
                    let behind = naive.newest.is_some_and(|newest| newest > epoch);
                    naive.advance(epoch);
                    let fits = !behind && naive.count(epoch) < total;
                    prop_assert_eq!(window.reserve(epoch, Cap::strict(total)).is_some(), fits);
                    if fits {
                        *naive.counts.entry(epoch).or_default() += 1;
                    }
                }
                Step::Remove { age } => {
                    let at = epoch.saturating_sub(age);
                    let newest = naive.newest.map_or(epoch, |newest| newest.max(epoch));
                    // A caller takes back only what it has added.
                    if naive.slot(at) > 0 {
                        window.remove(epoch, at);
                        naive.advance(epoch);
                        if newest - at < SPAN_U64 {
                            *naive.counts.entry(at).or_default() -= 1;
                        }
                    }
                }
            }
            prop_assert_eq!(window.count(epoch), naive.count(epoch));
            prop_assert_eq!(window.count(clock), naive.count(clock));
            prop_assert_eq!(window.count(clock + 3), naive.count(clock + 3));
        }
    }
}

#[test]
fn epochs_wrap_without_losing_the_count() {
    let window = Host::default();
    let wrap = 1u64 << 28;
    for epoch in wrap - 5..wrap + 5 {
        assert!(window.add(epoch, 2).is_some());
    }
    assert_eq!(window.count(wrap + 4), 20);
    assert_eq!(window.count(wrap + 9), 10);
    assert_eq!(window.count(wrap + 14), 0);
}

#[test]
fn a_fresh_window_works_at_any_epoch() {
    for epoch in (1u64 << 28) - 20..(1u64 << 28) + 20 {
        let window = Host::default();
        assert_eq!(
            window.reserve(epoch, Cap::strict(1)),
            Some(1),
            "epoch {epoch}"
        );
        assert_eq!(window.reserve(epoch, Cap::strict(1)), None);
    }
}

/// The cells of a window: its word and its slots.
fn cells(window: &Host) -> &[AtomicU64] {
    const CELLS: usize = size_of::<Host>() / size_of::<AtomicU64>();
    // SAFETY: `Window<AtomicU64>` is repr(C) and made of `AtomicU64` only.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(window).cast(), CELLS) }
}

#[test]
fn a_slot_write_that_came_late_heals_when_its_slot_comes_round() {
    let window = Host::default();
    window.add(100, 5);
    // A CPU counted 3 in the word at 100, but its slot write comes at 112.
    cells(&window)[0].fetch_add(3, Ordering::SeqCst);
    assert_eq!(window.count(100), 8);
    for epoch in 101..=112 {
        window.add(epoch, 1);
    }
    cells(&window)[1 + (100 & 15)].fetch_add(3, Ordering::SeqCst);
    // Too high for a while: that refuses a little, it never overshoots.
    assert_eq!(window.count(112), 10 + 3);
    for epoch in 113..=100 + 16 + 10 {
        window.add(epoch, 1);
    }
    assert_eq!(window.count(126), 10);
}

#[test]
fn what_a_late_write_left_is_gone_when_its_slot_has_come_round() {
    let window = Host::default();
    window.add(100, 5);
    cells(&window)[0].fetch_add(3, Ordering::SeqCst);
    window.add(111, 1);
    cells(&window)[1 + (100 & 15)].fetch_add(3, Ordering::SeqCst);
    // Refused at a cap of one all the way: it must heal anyway, at the latest
    // when all sixteen slots have been in a window and left it.
    let healed = (111..111 + 26).find(|epoch| window.reserve(*epoch, Cap::total(1)).is_some());
    assert!(healed.is_some());
}

#[test]
fn slots_taken_out_late_are_not_taken_out_twice() {
    // A CPU moves the word over a long idle time and is interrupted before it
    // clears the slots; another goes on one epoch later.
    for idle in 10..60u64 {
        let window = Host::default();
        for epoch in 100..110 {
            window.add(epoch, 7);
        }
        let before: Vec<u64> = cells(&window)[1..].iter().map(load).collect();
        let first = 109 + idle;
        window.add(first, 1);
        let after: Vec<u64> = cells(&window)[1..].iter().map(load).collect();
        // Undo the slot writes of the first, as if they were still to come.
        for (cell, was) in cells(&window)[1..].iter().zip(&before) {
            cell.store(*was, Ordering::SeqCst);
        }
        window.add(first + 1, 1);
        assert_eq!(window.count(first + 1), 2, "idle {idle}");
        // And now they come.
        for ((cell, was), is) in cells(&window)[1..].iter().zip(&before).zip(&after) {
            cell.fetch_add(is.wrapping_sub(*was), Ordering::SeqCst);
        }
        assert_eq!(window.count(first + 1), 2, "idle {idle}");
        for epoch in first + 2..first + 40 {
            window.add(epoch, 1);
            assert_eq!(
                window.count(epoch),
                (epoch - first + 1).min(10),
                "idle {idle}"
            );
        }
    }
}

fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::SeqCst)
}

#[test]
fn at_rest_the_count_is_what_the_threads_added() {
    let window = Host::default();
    let clock = AtomicU64::new(1_000);
    let added = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (window, clock, added) = (&window, &clock, &added);
            scope.spawn(move || {
                for i in 0..200_000u64 {
                    let epoch = clock.load(Ordering::SeqCst);
                    let counted = window.add(epoch, 1).is_some();
                    if counted && (i ^ thread) & 3 == 0 {
                        window.remove(clock.load(Ordering::SeqCst), epoch);
                    } else if counted {
                        added.fetch_add(1, Ordering::SeqCst);
                    }
                    if thread == 0 && i.is_multiple_of(500) {
                        clock.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(added.load(Ordering::SeqCst) > 400_000);
    let total = load(&cells(&window)[0]) as u32 as i32 as i64;
    let slots: i64 = cells(&window)[1..]
        .iter()
        .map(|cell| load(cell) as i64)
        .sum();
    assert_eq!(total, slots, "the word and the slots say the same");
    let end = clock.load(Ordering::SeqCst);
    assert_eq!(window.count(end + 16), 0, "all of it expires");
}

#[test]
fn no_window_ever_holds_more_than_its_cap() {
    const CAP: u64 = 100;
    let window = Host::default();
    // Admissions by epoch: the naive model of what was let through.
    let admitted: Vec<AtomicU64> = (0..3_000).map(|_| AtomicU64::new(0)).collect();
    // The clock waits for every thread: the guarantee is for changes that are
    // not interrupted for six epochs (600 ms at the shortest interval).
    rounds(1_000, |_, round| {
        // Now and then a long idle time.
        let idle = round / 50 * 17;
        for i in 0..60 {
            // Each thread comes to the next epoch at its own time.
            let epoch = round + idle + i / 30;
            if window.reserve(1_000 + epoch, Cap::strict(CAP)).is_some() {
                admitted[epoch as usize].fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let counts: Vec<u64> = admitted.iter().map(load).collect();
    assert!(counts.iter().sum::<u64>() > 5_000);
    for (start, span) in counts.windows(SPAN as usize).enumerate() {
        let sum: u64 = span.iter().sum();
        assert!(sum <= CAP, "{sum} admitted in the ten epochs from {start}");
    }
}

#[test]
fn an_epoch_alone_holds_nothing_of_the_one_sixteen_before_it() {
    let window = Host::default();
    window.add(100, 5);
    window.add(101, 2);
    assert_eq!(window.within(101), 2);
    // Nothing has opened it yet, and it shares a slot with the first.
    assert_eq!(window.within(116), 0);
    window.add(116, 1);
    assert_eq!(window.within(116), 1);
}

#[test]
fn what_is_added_late_counts_as_long_as_if_it_had_been_added_in_time() {
    let window = Host::default();
    assert!(window.add(100, 1).is_some());
    assert_eq!(window.add_late(104, 102, 5), Some(6));
    assert_eq!(window.count(111), 5, "the first has expired");
    assert_eq!(
        window.count(112),
        0,
        "and with its own epoch what came late"
    );
    assert!(window.add(115, 2).is_some());
    assert_eq!(window.add_late(115, 104, 7), None, "it has expired");
    assert_eq!(window.count(115), 2);
    // Long idle: nothing of before is live.
    assert_eq!(window.add_late(500, 495, 1), None);
    assert_eq!(window.count(500), 0);
}
