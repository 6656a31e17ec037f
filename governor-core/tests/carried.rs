//! Requests that are not judged by themselves.

mod common;

use common::at;
use common::requests::{Answer, Request, Requests, get};
use governor_core::breaker::State;
use governor_core::carried::{Paid, Unjudged, passed};
use governor_core::evidence::Evidence;
use governor_core::judge::{Attempt, Decision, Orders};
use governor_core::ledger::count;
use governor_core::order::Order;
use governor_core::params::{Params, mode};
use governor_core::rules::Repeat;
use governor_core::units::Nanos;
use governor_core::verdict::{Outcome, Reason};

fn distinct() -> Requests {
    let requests = Requests::new(Params::DEFAULT, 1);
    requests.distinct(0, at(0));
    requests
}

/// Attempts that reached the network and those offered, first tries and
/// retries, as `status` shows them.
fn attempts(requests: &Requests) -> [[u64; 2]; 2] {
    let count = |which| requests.node.callers[0].workload.read(which);
    let (carried, retry) = (count(count::CARRIED), count(count::CARRIED_RETRY));
    let of = |first, again, request_first, request_again| {
        [
            count(first) + count(request_first) - (carried - retry),
            count(again) + count(request_again) - retry,
        ]
    };
    [
        of(
            count::FIRST,
            count::RETRY,
            count::REQUEST_FIRST,
            count::REQUEST_RETRY,
        ),
        of(
            count::OFFERED_FIRST,
            count::OFFERED_RETRY,
            count::REQUEST_OFFERED_FIRST,
            count::REQUEST_OFFERED_RETRY,
        ),
    ]
}

/// A connect that is let go, and succeeds.
fn connect(requests: &Requests, now: Nanos, evidence: Evidence) -> Paid {
    let node = &requests.node;
    let going = node
        .attempt(0, now, evidence, u32::MAX / 2)
        .expect("let go");
    let level = governor_core::breaker::Level::Connect;
    node.end_of(level, going, now, Outcome::Success, 0);
    if evidence.refuses() {
        Paid::Retry
    } else {
        Paid::First
    }
}

fn fails(requests: &Requests, now: Nanos, fingerprint: u64) {
    let sent = requests.send(0, now, get(fingerprint));
    requests.answer(&sent, now, 503);
}

const QUIET: Orders<'_> = Orders {
    node: None,
    destination: None,
    workload: None,
};

#[test]
fn a_connect_and_its_first_request_are_one_attempt() {
    let requests = distinct();
    let before = attempts(&requests);
    let paid = connect(&requests, at(100), Evidence::None);
    let sent = requests.first_on_connection(0, at(101), get(1), paid, &QUIET);
    requests.answer(&sent.unwrap(), at(102), 200);
    let [first, retry] = attempts(&requests)[0];
    assert_eq!([first, retry], [before[0][0] + 1, before[0][1]]);
    // The second is one of its own.
    requests.send(0, at(103), get(2));
    assert_eq!(attempts(&requests)[0][0], before[0][0] + 2);
    assert_eq!(attempts(&requests)[0], attempts(&requests)[1]);
}

#[test]
fn an_attempt_is_a_retry_if_its_connect_or_its_request_is_known_as_one() {
    for (connect_as, request_fails) in [
        (Evidence::None, true),
        (Evidence::Thread, true),
        // It was charged.
        (Evidence::Thread, false),
    ] {
        let requests = distinct();
        fails(&requests, at(100), 1);
        let before = attempts(&requests);
        let paid = connect(&requests, at(200), connect_as);
        let request = if request_fails { get(1) } else { get(2) };
        requests
            .first_on_connection(0, at(201), request, paid, &QUIET)
            .unwrap();
        for (before, after) in before.into_iter().zip(attempts(&requests)) {
            let [first, retry] = [after[0] - before[0], after[1] - before[1]];
            assert_eq!([first, retry], [0, 1], "{connect_as:?}");
        }
    }
}

#[test]
fn a_retry_on_a_new_connection_is_charged_once() {
    let spent = |connect_as| {
        let requests = distinct();
        fails(&requests, at(100), 1);
        let paid = connect(&requests, at(200), connect_as);
        requests
            .first_on_connection(0, at(201), get(1), paid, &QUIET)
            .unwrap();
        let node = &requests.node;
        node.destination.budget.spent(&node.params, at(202))
    };
    assert_eq!(spent(Evidence::None), 1);
    assert_eq!(spent(Evidence::Thread), 1);
}

#[test]
fn a_retry_on_a_new_connection_stays_within_the_budget() {
    let requests = distinct();
    let mut denied = 0;
    for n in 0..200 {
        let now = at(1_000 + n * 10);
        fails(&requests, now, n);
        let paid = connect(&requests, now, Evidence::None);
        match requests.first_on_connection(0, now, get(n), paid, &QUIET) {
            Ok(sent) => drop(requests.answer(&sent, now, 200)),
            Err(decision) => {
                assert_eq!(decision, Decision::Deny(Reason::Budget));
                denied += 1;
            }
        }
    }
    assert!(denied > 100, "{denied}");
    let counts = &requests.node.callers[0].workload;
    assert_eq!(counts.read(count::DENIED + Reason::Budget as usize), denied);
    // Its connect went out, and the attempt did not.
    let [reached, offered] = attempts(&requests);
    assert_eq!(offered[1] - reached[1], denied);
}

#[test]
fn a_first_request_that_repeats_nothing_is_asked_nothing() {
    let requests = distinct();
    let off = Order {
        off_from: 1,
        off_until: at(100_000).0,
        shed_until: at(100_000).0,
        shed_share: 10_000,
        ..bytemuck::Zeroable::zeroed()
    };
    let orders = Orders {
        node: Some(&off),
        ..QUIET
    };
    requests
        .first_on_connection(0, at(100), get(1), Paid::First, &orders)
        .unwrap();
}

#[test]
fn retries_off_means_those_on_new_connections_too() {
    let requests = distinct();
    fails(&requests, at(100), 1);
    let off = Order {
        off_from: 1,
        off_until: at(100_000).0,
        ..bytemuck::Zeroable::zeroed()
    };
    for orders in [
        Orders {
            node: Some(&off),
            ..QUIET
        },
        Orders {
            destination: Some(&off),
            ..QUIET
        },
        Orders {
            workload: Some(&off),
            ..QUIET
        },
    ] {
        let denied = requests.first_on_connection(0, at(200), get(1), Paid::First, &orders);
        assert_eq!(denied.unwrap_err(), Decision::Deny(Reason::Shed));
    }
}

#[test]
fn a_share_that_is_shed_is_drawn_once_for_an_attempt() {
    let requests = distinct();
    fails(&requests, at(100), 1);
    let shed = |shed_retries_only| Order {
        shed_until: at(100_000).0,
        shed_share: 10_000,
        shed_retries_only,
        ..bytemuck::Zeroable::zeroed()
    };
    let (all, retries) = (shed(0), shed(1));
    let with = |order| Orders {
        node: Some(order),
        ..QUIET
    };
    // The connect has passed it.
    requests
        .first_on_connection(0, at(200), get(1), Paid::First, &with(&all))
        .unwrap();
    // What concerns retries only was not drawn for a first try, and was for a retry.
    let denied = requests.first_on_connection(0, at(200), get(1), Paid::First, &with(&retries));
    assert_eq!(denied.unwrap_err(), Decision::Deny(Reason::Shed));
    requests
        .first_on_connection(0, at(200), get(1), Paid::Retry, &with(&retries))
        .unwrap();
}

#[test]
fn a_retry_rule_holds_on_a_new_connection() {
    let named = Request { key: 7, ..get(1) };
    for paid in [Paid::First, Paid::Retry] {
        let requests = distinct();
        let sent = requests.send(0, at(100), named);
        requests.answer(&sent, at(100), 403);
        let denied = requests.first_on_connection(0, at(200), named, paid, &QUIET);
        assert_eq!(denied.unwrap_err(), Decision::Deny(Reason::NotRetryable));
    }
}

#[test]
fn audit_lets_a_first_request_go_that_it_would_deny() {
    let requests = Requests::new(
        Params {
            mode: mode::AUDIT,
            ..Params::DEFAULT
        },
        1,
    );
    requests.distinct(0, at(0));
    let named = Request { key: 7, ..get(1) };
    let sent = requests.send(0, at(100), named);
    requests.answer(&sent, at(100), 403);
    let workload = &requests.node.callers[0].workload;
    let in_flight = workload.limiter.in_flight(at(200));
    let sent = requests
        .first_on_connection(0, at(200), named, Paid::First, &QUIET)
        .unwrap();
    assert_eq!(workload.limiter.in_flight(at(200)), in_flight);
    assert_eq!(
        workload.read(count::WOULD_DENY + Reason::NotRetryable as usize),
        1
    );
    requests.answer(&sent, at(201), 200);
    assert_eq!(workload.read(count::WOULD_DENY_SUCCEEDED), 1);
}

fn request(requests: &Requests, now: Nanos, evidence: Evidence) -> Attempt {
    let repeat = Repeat {
        number: 99,
        ..Repeat::NONE
    };
    Attempt::request(&requests.node.params, now, 1, evidence, &repeat, 0)
}

#[test]
fn what_no_executor_reaches_is_counted_and_never_denied() {
    let requests = distinct();
    let node = &requests.node;
    let sent = [(); 20].map(|()| requests.send(0, at(1_000), get(1)));
    for sent in &sent {
        requests.answer(sent, at(3_000), 500);
    }
    assert_eq!(node.callers[0].endpoint.breaker.view().state, State::Open);
    let before = attempts(&requests);
    for _ in 0..10 {
        let a = request(&requests, at(3_100), Evidence::Exact);
        let decision = passed(&node.params, &a, Unjudged::Unreached, &node.ledgers(0));
        assert_eq!(decision, Decision::Go);
    }
    let workload = &node.callers[0].workload;
    assert_eq!(workload.read(count::UNREACHED), 10);
    assert_eq!(attempts(&requests)[0][1], before[0][1] + 10);
    assert_eq!(workload.limiter.in_flight(at(3_100)), 10);
}

#[test]
fn the_first_request_of_a_probe_is_the_probe() {
    let requests = distinct();
    let node = &requests.node;
    let before = attempts(&requests);
    connect(&requests, at(100), Evidence::None);
    let a = request(&requests, at(101), Evidence::Exact);
    let why = Unjudged::Probe(Paid::First);
    assert_eq!(
        passed(&node.params, &a, why, &node.ledgers(0)),
        Decision::Go
    );
    let after = attempts(&requests)[0];
    assert_eq!(
        after[0] + after[1],
        before[0][0] + before[0][1] + 1,
        "one attempt"
    );
}

#[test]
fn a_policy_that_only_observes_judges_no_request() {
    let requests = Requests::new(
        Params {
            mode: mode::DISABLED,
            ..Params::DEFAULT
        },
        1,
    );
    let node = &requests.node;
    let a = request(&requests, at(0), Evidence::Exact);
    for why in [Unjudged::Unreached, Unjudged::Apart(Paid::First)] {
        let decision = passed(&node.params, &a, why, &node.ledgers(0));
        assert_eq!(decision, Decision::Watch);
    }
    requests
        .first_on_connection(0, at(0), get(1), Paid::First, &QUIET)
        .unwrap();
    assert_eq!(node.callers[0].workload.limiter.in_flight(at(0)), 0);
}

/// It accepts from the first, and that is all it does.
#[test]
fn where_requests_are_sent_connects_do_not_earn() {
    for (asks, earned) in [(true, 0), (false, 100)] {
        let requests = Requests::new(Params::DEFAULT, 1);
        for n in 0..1_000 {
            let paid = connect(&requests, at(n), Evidence::None);
            if asks {
                requests
                    .first_on_connection(0, at(n), get(n), paid, &QUIET)
                    .expect("let go");
            }
        }
        let (p, budget) = (&requests.node.params, &requests.node.destination.budget);
        let allowance = budget.allowance(p, at(1_000));
        assert_eq!(allowance - budget.reserve(p), earned, "asks: {asks}");
    }
}

/// Connects succeed all the while, and here nothing was ever answered well.
#[test]
fn twenty_failed_requests_open_a_breaker_that_only_saw_connects_succeed() {
    let requests = Requests::new(Params::DEFAULT, 1);
    let breaker = &requests.node.callers[0].endpoint.breaker;
    for i in 0..20 {
        assert_eq!(breaker.view().state, State::Closed, "{i}");
        let now = at(100 + i * 10);
        let paid = connect(&requests, now, Evidence::None);
        let sent = requests.first_on_connection(0, now, get(i), paid, &QUIET);
        requests.answer(&sent.expect("let go"), now, 503);
    }
    assert_eq!(breaker.view().state, State::Open);
}

/// Connects go on to succeed in a stall, and here nothing was ever answered.
#[test]
fn a_stall_that_is_older_than_the_governor_opens_the_breaker() {
    let requests = Requests::new(Params::DEFAULT, 1);
    let breaker = &requests.node.callers[0].endpoint.breaker;
    let unanswered = Answer::none(Outcome::Timeout);
    for i in 0..60 {
        let now = at(100 + i * 100);
        if !matches!(breaker.view().state, State::Closed) {
            return;
        }
        let paid = connect(&requests, now, Evidence::None);
        let sent = requests.first_on_connection(0, now, get(i), paid, &QUIET);
        let _ = requests.end(
            &sent.expect("let go"),
            at(100 + i * 100 + 90),
            unanswered,
            0,
        );
    }
    panic!("it never opens");
}
