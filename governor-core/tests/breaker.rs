//! The breaker and its probes, through the law.

mod common;

use common::{Node, at};
use governor_core::breaker::{Level, Move, State};
use governor_core::evidence::Evidence;
use governor_core::judge::{Attempt, Decision, Ledgers, Orders, attempt};
use governor_core::ledger::count;
use governor_core::order::{Order, hold};
use governor_core::params::Params;
use governor_core::settle::{Ending, settle};
use governor_core::units::Nanos;
use governor_core::verdict::{Outcome, Reason};

const REFUSED: Result<common::Going, Decision> = Err(Decision::Deny(Reason::Breaker));

fn fail(node: &Node, caller: usize, now: Nanos) -> Move {
    let going = node.first(caller, now).expect("admitted");
    node.end(going, now, Outcome::Refused)
}

/// The first caller gets an answer of that status.
fn answered(node: &Node, now: Nanos, status: u32) -> Move {
    let going = node.first(0, now).expect("admitted");
    let ending = Ending {
        now,
        entered: going.since,
        latency: 0,
        level: Level::Exchange,
        outcome: Outcome::Status,
        status,
        retry_after: 0,
        probe: going.probe.into(),
        audited: going.audited,
        random: u32::MAX / 2,
    };
    settle(&node.params, &ending, &node.ledgers(0)).moved
}

fn succeed(node: &Node, caller: usize, now: Nanos) -> Move {
    let going = node.first(caller, now).expect("admitted");
    node.end(going, now, Outcome::Success)
}

fn state(node: &Node, caller: usize) -> State {
    node.callers[caller].endpoint.breaker.view().state
}

/// A node whose first caller's breaker has just opened at `at(10_000)`.
fn opened(callers: usize) -> Node {
    let node = Node::new(Params::DEFAULT, callers);
    for caller in 0..callers {
        for i in 0..7 {
            fail(&node, caller, at(10_000 - 6 + i));
        }
        assert_eq!(state(&node, caller), State::Open);
    }
    node
}

/// When the first caller's probe is due.
fn due(node: &Node, caller: usize) -> u64 {
    node.callers[caller].endpoint.breaker.view().deadline.0 - at(0).stamp().0
}

#[test]
fn seven_failures_in_a_row_and_never_a_success_trip() {
    let node = Node::new(Params::DEFAULT, 1);
    for i in 0..6 {
        assert_eq!(fail(&node, 0, at(i * 100)), Move::None);
    }
    assert_eq!(fail(&node, 0, at(600)), Move::Tripped);
    assert_eq!(node.first(0, at(601)), REFUSED);
}

#[test]
fn a_success_in_the_window_asks_for_twenty_failures_and_two_seconds_of_silence() {
    let node = Node::new(Params::DEFAULT, 1);
    succeed(&node, 0, at(0));
    for i in 0..19 {
        assert_eq!(fail(&node, 0, at(1 + i)), Move::None);
    }
    assert_eq!(
        fail(&node, 0, at(1_999)),
        Move::None,
        "twenty, but not yet two seconds"
    );
    assert_eq!(fail(&node, 0, at(2_000)), Move::Tripped);
}

#[test]
fn seven_failures_trip_once_the_last_success_is_older_than_the_window() {
    let node = Node::new(Params::DEFAULT, 1);
    succeed(&node, 0, at(0));
    for i in 0..7 {
        assert_eq!(fail(&node, 0, at(9_000 + i)), Move::None);
    }
    assert_eq!(fail(&node, 0, at(10_000)), Move::Tripped);
}

#[test]
fn seven_answers_are_no_silence_even_where_nothing_else_was_ever_seen() {
    for status in [500, 503] {
        let node = Node::new(Params::DEFAULT, 1);
        for i in 0..19 {
            assert_eq!(answered(&node, at(i), status), Move::None, "{status}");
        }
        assert_eq!(answered(&node, at(19), status), Move::Tripped, "{status}");
    }
}

#[test]
fn seven_answers_that_last_as_long_as_the_window_trip() {
    let node = Node::new(Params::DEFAULT, 1);
    for i in 0..7 {
        assert_eq!(answered(&node, at(i * 1_600), 503), Move::None);
    }
    assert_eq!(answered(&node, at(10_000), 503), Move::Tripped);
}

#[test]
fn one_success_in_twenty_keeps_it_closed_for_ever() {
    let node = Node::new(Params::DEFAULT, 1);
    for i in 0..10_000 {
        let moved = if i % 20 == 0 {
            succeed(&node, 0, at(i * 10))
        } else {
            fail(&node, 0, at(i * 10))
        };
        assert_eq!(moved, Move::None);
    }
}

#[test]
fn a_rate_trips_only_where_it_is_asked_for() {
    let rate = Params {
        failure_share: 5_000,
        ..Params::DEFAULT
    };
    for (params, trips) in [(Params::DEFAULT, false), (rate, true)] {
        let node = Node::new(params, 1);
        let mut tripped = false;
        for i in 0..20 {
            let now = at(i * 10);
            let Ok(going) = node.first(0, now) else { break };
            let outcome = if i % 2 == 0 {
                Outcome::Success
            } else {
                Outcome::Refused
            };
            tripped |= node.end(going, now, outcome) == Move::Tripped;
        }
        assert_eq!(tripped, trips);
    }
}

#[test]
fn an_open_breaker_refuses_until_its_time_and_then_sends_one_probe() {
    let node = opened(1);
    let due = due(&node, 0);
    assert!(
        (10_500..=11_500).contains(&due),
        "base 1 s with 50 % jitter: {due}"
    );
    assert_eq!(node.first(0, at(due - 1)), REFUSED);
    let probe = node.first(0, at(due)).expect("the probe");
    assert!(probe.probe.is_some());
    for i in 0..100 {
        assert_eq!(node.first(0, at(due + i)), REFUSED);
    }
}

#[test]
fn a_successful_probe_closes_and_admission_grows_over_the_ramp() {
    let node = opened(1);
    let probe = node.first(0, at(12_000)).expect("the probe");
    assert_eq!(node.end(probe, at(12_001), Outcome::Success), Move::Closed);
    let admitted = |millis: u64| {
        (0..1_000u32)
            .filter(|i| {
                let going =
                    node.attempt(0, at(millis), Evidence::None, i.wrapping_mul(0x9e37_79b9));
                if let Ok(going) = going {
                    node.end(going, at(millis), Outcome::Success);
                }
                going.is_ok()
            })
            .count()
    };
    let (early, middle, late) = (admitted(12_011), admitted(12_500), admitted(13_001));
    assert!((10..150).contains(&early), "{early}");
    assert!((400..600).contains(&middle), "{middle}");
    assert_eq!(late, 1_000);
}

#[test]
fn two_failed_probes_do_not_lengthen_the_open_time_and_later_ones_double_it() {
    let node = opened(1);
    let mut open = Vec::new();
    for _ in 0..8 {
        let now = due(&node, 0);
        let probe = node.first(0, at(now)).expect("the probe");
        assert_eq!(node.end(probe, at(now), Outcome::Refused), Move::Reopened);
        open.push((due(&node, 0) - now + 5) / 10 * 10);
    }
    // The middle random number leaves out the jitter.
    assert_eq!(
        open,
        [1_000, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000, 5_000]
    );
}

#[test]
fn a_probe_that_got_an_error_lets_the_next_one_go_soon() {
    let node = opened(1);
    let open_after = |outcome: Outcome| {
        let now = due(&node, 0);
        let probe = node.first(0, at(now)).expect("the probe");
        assert_eq!(node.end(probe, at(now), outcome), Move::Reopened);
        (due(&node, 0) - now + 5) / 10 * 10
    };
    for _ in 0..5 {
        open_after(Outcome::Timeout);
    }
    assert_eq!(open_after(Outcome::Status), 1_000);
    assert_eq!(open_after(Outcome::Status), 1_000);
    // What was silent before and is again has not come nearer.
    assert_eq!(open_after(Outcome::Timeout), 5_000);
}

#[test]
fn a_probe_that_waited_in_vain_has_waited() {
    let node = opened(1);
    let sent = due(&node, 0);
    let probe = node.first(0, at(sent)).expect("the probe");
    node.end(probe, at(sent + 900), Outcome::Timeout);
    assert!((sent + 990..=sent + 1_010).contains(&due(&node, 0)));
}

#[test]
fn a_lost_probe_frees_itself_and_doubles_nothing() {
    let node = opened(1);
    let before = node.callers[0].endpoint.breaker.view().backoff;
    let lost = node.first(0, at(12_000)).expect("the probe");
    assert_eq!(node.first(0, at(16_999)), REFUSED);
    let next = node.first(0, at(17_001)).expect("the next probe");
    assert!(next.probe.is_some());
    assert_eq!(node.callers[0].endpoint.breaker.view().backoff, before);
    // The lost one reports at last: that neither closes nor reopens.
    assert_eq!(node.end(lost, at(17_002), Outcome::Refused), Move::None);
    assert_eq!(state(&node, 0), State::HalfOpen);
    assert_eq!(
        node.first(0, at(17_003)),
        REFUSED,
        "nor frees the other's lease"
    );
    assert_eq!(node.end(next, at(17_010), Outcome::Success), Move::Closed);
}

#[test]
fn a_cancelled_probe_is_a_lost_one() {
    let node = opened(1);
    let probe = node.first(0, at(12_000)).expect("the probe");
    assert_eq!(node.end(probe, at(12_010), Outcome::Cancelled), Move::None);
    assert!(node.first(0, at(12_011)).expect("the next").probe.is_some());
}

#[test]
fn a_probe_of_a_slow_endpoint_may_take_twice_what_healthy_calls_take() {
    let node = Node::new(Params::DEFAULT, 1);
    let going = node.first(0, at(0)).expect("admitted");
    node.end(going, at(8_000), Outcome::Success);
    for i in 0..7 {
        fail(&node, 0, at(30_000 + i));
    }
    let sent = at(32_000);
    assert!(node.first(0, sent).expect("the probe").probe.is_some());
    assert_eq!(node.first(0, at(32_000 + 15_990)), REFUSED);
    assert!(node.first(0, at(32_000 + 16_010)).is_ok());
}

#[test]
fn what_exchanges_tripped_no_connect_closes() {
    let node = opened(1);
    let probe = node.first(0, at(12_000)).expect("the probe");
    assert_eq!(
        node.end_of(Level::Connect, probe, at(12_001), Outcome::Success, 0),
        Move::None
    );
    assert_eq!(node.first(0, at(12_002)), REFUSED);
    assert_eq!(node.end(probe, at(12_003), Outcome::Success), Move::Closed);
}

#[test]
fn a_success_of_one_workload_makes_the_others_eligible_to_probe() {
    let node = opened(2);
    let first = node.first(0, at(12_000)).expect("the probe");
    node.end(first, at(12_000), Outcome::Refused);
    let second = node.first(1, at(12_001)).expect("the other's turn");
    assert_eq!(node.first(0, at(12_002)), REFUSED);
    assert_eq!(node.end(second, at(12_003), Outcome::Success), Move::Closed);
    // Its own open time is not over, and it may probe all the same.
    assert!(due(&node, 0) > 12_900);
    assert!(node.first(0, at(12_004)).expect("eligible").probe.is_some());
    assert_eq!(state(&node, 0), State::HalfOpen, "eligible, not closed");
}

#[test]
fn a_workload_that_fails_for_its_own_reasons_waits_again_after_each_probe() {
    let node = opened(2);
    let good = node.first(1, at(12_000)).expect("the probe");
    node.end(good, at(12_001), Outcome::Success);
    let bad = node.first(0, at(12_002)).expect("eligible");
    node.end(bad, at(12_003), Outcome::Refused);
    assert_eq!(
        node.first(0, at(12_010)),
        REFUSED,
        "proven before it opened again"
    );
}

#[test]
fn without_a_lease_the_breaker_alone_sends_one_probe() {
    let node = opened(1);
    let ledgers = || Ledgers {
        lease: None,
        ..node.ledgers(0)
    };
    let try_at = |millis| {
        let attempt_ = Attempt::connect(at(millis), 1, Evidence::None, 0);
        attempt(&node.params, &attempt_, &ledgers(), &Orders::default())
    };
    assert!(matches!(try_at(12_000), Decision::Probe(_)));
    assert_eq!(try_at(12_001), Decision::Deny(Reason::Breaker));
    assert!(
        matches!(try_at(17_001), Decision::Probe(_)),
        "and never gets stuck"
    );
    assert_eq!(node.callers[0].workload.read(count::FAILED_OPEN), 2);
}

#[test]
fn an_operator_holds_it_open_or_closed_until_the_order_expires() {
    let node = opened(1);
    let order = |hold| Order {
        hold,
        hold_until: at(60_000).0,
        ..bytemuck::Zeroable::zeroed()
    };
    let with = |order: &Order, millis| {
        let attempt_ = Attempt::connect(at(millis), 1, Evidence::None, 0);
        let orders = Orders {
            destination: Some(order),
            ..Orders::default()
        };
        attempt(&node.params, &attempt_, &node.ledgers(0), &orders)
    };
    assert_eq!(with(&order(hold::CLOSED), 10_100), Decision::Go);
    assert_eq!(
        with(&order(hold::OPEN), 20_000),
        Decision::Deny(Reason::Breaker)
    );
    assert!(matches!(
        with(&order(hold::OPEN), 60_000),
        Decision::Probe(_)
    ));
}

#[test]
fn disabled_it_refuses_nothing() {
    let node = Node::new(
        Params {
            breaker_enabled: 0,
            ..Params::DEFAULT
        },
        1,
    );
    for i in 0..1_000 {
        fail(&node, 0, at(i * 10));
    }
}
