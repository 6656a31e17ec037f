//! The retry budget, through the law.

mod common;

use common::{Node, at};
use governor_core::judge::Decision;
use governor_core::params::{Params, concurrency};
use governor_core::units::Nanos;
use governor_core::verdict::{Outcome, Reason};

/// Only the budget.
const P: Params = Params {
    breaker_enabled: 0,
    concurrency: concurrency::DISABLED,
    ..Params::DEFAULT
};

/// Some successes of a caller, spread over the window that ends at `millis`.
fn succeed(node: &Node, caller: usize, count: u64, millis: u64) {
    for i in 0..count {
        let now = at(millis - 9_000 + i * 9_000 / count);
        let going = node.first(caller, now).expect("a first try");
        node.end(going, now, Outcome::Success);
    }
}

/// How many of so many retries at once are admitted.
fn retries(node: &Node, caller: usize, tries: u32, now: Nanos) -> u32 {
    (0..tries)
        .map(|_| u32::from(node.retry(caller, now).is_ok()))
        .sum()
}

/// The same over ten tenths of a window, so that pacing does not bind.
fn retries_over_a_window(node: &Node, caller: usize, millis: u64) -> u32 {
    (0..10)
        .map(|tenth| retries(node, caller, 500, at(millis + tenth * 1_000)))
        .sum()
}

#[test]
fn a_first_try_is_never_refused_by_the_budget() {
    let node = Node::new(P, 1);
    for _ in 0..10_000 {
        assert!(node.first(0, at(0)).is_ok());
    }
}

#[test]
fn without_any_success_one_retry_a_second_is_admitted() {
    let node = Node::new(P, 1);
    assert_eq!(retries_over_a_window(&node, 0, 0), 10);
    assert_eq!(
        node.retry(0, at(9_500)),
        Err(Decision::Deny(Reason::Budget))
    );
}

#[test]
fn a_tenth_of_the_successes_and_the_reserve_are_admitted() {
    let node = Node::new(P, 1);
    succeed(&node, 0, 1_000, 10_000);
    // 1,000 first tries in ten seconds: the reserve is their tenth, at most 100.
    assert_eq!(node.destination.budget.reserve(&P), 100);
    assert_eq!(node.destination.budget.allowance(&P, at(10_000)), 200);
    // No more than an eighth at once.
    assert_eq!(retries(&node, 0, 500, at(10_000)), 25 - 1);
}

#[test]
fn the_reserve_does_not_grow_while_something_fails() {
    let node = Node::new(P, 1);
    let failed = node.first(0, at(0)).expect("a first try");
    node.end(failed, at(0), Outcome::Refused);
    for i in 0..900 {
        node.first(0, at(i * 10)).expect("a first try");
    }
    assert_eq!(node.destination.budget.reserve(&P), 10);
    for i in 900..2_000 {
        node.first(0, at(i * 10)).expect("a first try");
    }
    assert_eq!(node.destination.budget.reserve(&P), 100);
}

#[test]
fn while_another_retries_too_a_workload_borrows_half_of_the_reserve() {
    let node = Node::new(
        Params {
            reserve_floor: 100,
            ..P
        },
        3,
    );
    assert!(node.retry(1, at(0)).is_ok());
    let (mut first, mut last) = (0, 0);
    for tenth in 0..10 {
        first += retries(&node, 0, 500, at(tenth * 1_000));
        last += retries(&node, 2, 500, at(tenth * 1_000));
    }
    assert_eq!((first, last), (50, 100 - 50 - 1));
}

#[test]
fn alone_a_workload_borrows_all_of_it() {
    let node = Node::new(
        Params {
            reserve_floor: 100,
            ..P
        },
        2,
    );
    assert_eq!(retries_over_a_window(&node, 0, 0), 100);
}

#[test]
fn what_a_workload_has_earned_is_its_own() {
    let node = Node::new(P, 2);
    succeed(&node, 1, 95, 10_000);
    for second in 10..100 {
        // A broken one spends the reserve, and would spend more.
        retries(&node, 0, 500, at(second * 1_000));
        for i in 0..10 {
            let now = at(second * 1_000 + i * 90);
            let going = node.first(1, now).expect("a first try");
            node.end(going, now, Outcome::Success);
        }
        assert!(
            node.retry(1, at(second * 1_000 + 950)).is_ok(),
            "second {second}"
        );
    }
}

#[test]
fn a_denied_retry_costs_nothing() {
    let node = Node::new(P, 1);
    assert_eq!(retries_over_a_window(&node, 0, 0), 10);
    for i in 0..1_000 {
        assert!(node.retry(0, at(9_000 + i % 900)).is_err());
    }
    // The window moves on as if they had not been.
    assert_eq!(retries(&node, 0, 10, at(10_000)), 1);
}

#[test]
fn disabled_it_refuses_nothing() {
    let node = Node::new(
        Params {
            budget_enabled: 0,
            ..P
        },
        1,
    );
    assert_eq!(retries(&node, 0, 1_000, at(0)), 1_000);
}

/// A node of callers that have each succeeded so often in the window before `WINDOW`.
fn healthy(callers: usize, each: u64) -> Node {
    let node = Node::new(P, callers);
    for caller in 0..callers {
        succeed(&node, caller, each, WINDOW);
    }
    node
}

/// When the first window is over, ms.
const WINDOW: u64 = 10_000;

/// How many retries are admitted when all callers but the last so many ask in turns.
fn all_ask(node: &Node, but: usize) -> u32 {
    let callers = 0..node.callers.len() - but;
    (0..20)
        .flat_map(|_| callers.clone())
        .map(|caller| retries(node, caller, 1, at(WINDOW)))
        .sum()
}

#[test]
fn many_small_workloads_do_not_spend_all_they_have_in_one_tenth() {
    // Each has earned a retry, all together 20, and there is a reserve of 20.
    let node = healthy(20, 10);
    assert_eq!(all_ask(&node, 0), 20 / 10 + 1 + 20 / 8);
}

#[test]
fn a_small_workload_alone_spends_a_few_at_once() {
    assert_eq!(all_ask(&healthy(1, 90), 0), 4);
    // Half of what little it has.
    assert_eq!(all_ask(&healthy(1, 40), 0), 2);
}

#[test]
fn a_large_workload_has_its_eighth_whatever_others_spend() {
    let node = healthy(41, 10);
    succeed(&node, 40, 790, WINDOW);
    // An even tenth of what all have earned and one more, and an eighth of the reserve.
    assert_eq!(all_ask(&node, 1), 120 / 10 + 1 + 100 / 8);
    assert_eq!(retries(&node, 40, 500, at(WINDOW)), 80 / 8);
}
