//! A policy that is first tried in audit, and then put in force.

mod common;

use common::{Going, Node, at};
use governor_core::breaker::{Move, State};
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::params::{Params, mode};
use governor_core::settle::Audited;
use governor_core::verdict::{Outcome, Reason};
use proptest::collection::vec;
use proptest::prelude::*;

const ENFORCE: Params = Params::DEFAULT;
const AUDIT: Params = Params {
    mode: mode::AUDIT,
    ..ENFORCE
};

fn go(node: &Node, millis: u64) -> Going {
    // The highest number: a ramp would refuse it.
    let going = node.attempt(0, at(millis), Evidence::None, u32::MAX);
    going.expect("let go")
}

fn comes(node: &Node, millis: u64, outcome: Outcome) -> Move {
    let going = go(node, millis);
    node.end(going, at(millis), outcome)
}

fn state(node: &Node) -> State {
    node.callers[0].endpoint.breaker.view().state
}

/// Its breaker has opened under a policy, just before 1,000.
fn opened(params: Params) -> Node {
    let node = Node::new(params, 1);
    for i in 0..7 {
        comes(&node, 990 + i, Outcome::Refused);
    }
    assert_eq!(state(&node), State::Open);
    node
}

/// When its probe is due.
fn due(node: &Node) -> u64 {
    node.callers[0].endpoint.breaker.view().deadline.0 - at(0).stamp().0
}

#[test]
fn what_opened_in_audit_refuses_nothing_when_the_policy_is_put_in_force() {
    let mut node = opened(AUDIT);
    node.params = ENFORCE;
    for i in 0..2_000 {
        comes(&node, 1_000 + i, Outcome::Success);
    }
    assert_eq!(state(&node), State::Closed);
}

#[test]
fn where_the_service_is_still_silent_the_next_failure_opens_it() {
    let mut node = opened(AUDIT);
    node.params = ENFORCE;
    assert_eq!(comes(&node, 1_000, Outcome::Refused), Move::Tripped);
    let refused = node.first(0, at(1_001));
    assert_eq!(refused, Err(Decision::Deny(Reason::Breaker)));
}

#[test]
fn the_ramp_of_a_breaker_that_audit_opened_is_none() {
    let mut node = opened(AUDIT);
    let due = due(&node);
    assert_eq!(comes(&node, due, Outcome::Success), Move::Closed);
    let ramp = node.decide(0, at(due + 1), Evidence::None, u32::MAX);
    assert_eq!(ramp, Decision::WouldDeny(Reason::Breaker));
    node.params = ENFORCE;
    go(&node, due + 1);
}

#[test]
fn a_probe_that_is_out_when_the_policy_is_put_in_force_gives_its_lease_back() {
    let mut node = opened(AUDIT);
    let due = due(&node);
    let probe = go(&node, due);
    assert!(probe.probe.is_some());
    node.params = ENFORCE;
    comes(&node, due + 1, Outcome::Success);
    assert_eq!(node.end(probe, at(due + 2), Outcome::Success), Move::None);
    let (now, until) = (at(due + 3).stamp(), at(due + 9).stamp());
    assert!(node.lease.claim(1, now, now, until).is_some());
}

#[test]
fn what_opened_in_force_stays_in_force() {
    let mut node = opened(ENFORCE);
    node.params = AUDIT;
    let meanwhile = node.decide(0, at(1_000), Evidence::None, 0);
    assert_eq!(meanwhile, Decision::WouldDeny(Reason::Breaker));
    node.params = ENFORCE;
    let refused = node.first(0, at(1_001));
    assert_eq!(refused, Err(Decision::Deny(Reason::Breaker)));
}

#[test]
fn what_a_probe_of_audit_opened_again_was_not_in_force() {
    let mut node = opened(ENFORCE);
    let due = due(&node);
    node.params = AUDIT;
    assert_eq!(comes(&node, due, Outcome::Refused), Move::Reopened);
    node.params = ENFORCE;
    go(&node, due + 1);
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        1 => Just(Outcome::Success),
        5 => Just(Outcome::Refused),
        3 => Just(Outcome::Timeout),
        1 => Just(Outcome::Cancelled),
    ]
}

proptest! {
    /// Whatever audit saw.
    #[test]
    fn the_breaker_of_a_healthy_service_refuses_nothing_after_the_switch(
        before in vec((0u64..700, outcome()), 0..120),
        wait in 0u64..2_000,
        after in vec((0u64..100, any::<u32>()), 1..60),
    ) {
        let mut node = Node::new(AUDIT, 1);
        let mut millis = 0;
        for (gap, outcome) in before {
            millis += gap;
            comes(&node, millis, outcome);
        }
        node.params = ENFORCE;
        millis += wait;
        for (gap, random) in after {
            millis += gap;
            let decision = node.decide(0, at(millis), Evidence::None, random);
            prop_assert_ne!(decision, Decision::Deny(Reason::Breaker));
            if decision == Decision::Go {
                let going = Going {
                    caller: 0,
                    since: at(millis),
                    probe: None,
                    audited: Audited::Admitted,
                };
                node.end(going, at(millis), Outcome::Success);
            }
        }
    }
}
