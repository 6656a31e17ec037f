//! Retries that are not worth sending, and what a destination asks its callers
//! to wait.

mod common;

use bytemuck::Zeroable;
use common::at;
use common::requests::{Answer, Request, Requests, get, post};
use governor_core::chain::Advice;
use governor_core::evidence::Evidence;
use governor_core::http::{RequestScan, method, request};
use governor_core::judge::Decision;
use governor_core::ledger::count;
use governor_core::params::{Params, codes};
use governor_core::rules::{about, said};
use governor_core::verdict::{Outcome, Reason};

/// Requests that are known to differ, without what else may refuse.
fn with(change: impl FnOnce(&mut Params)) -> Requests {
    let mut params = Params {
        budget_enabled: 0,
        breaker_enabled: 0,
        concurrency: governor_core::params::concurrency::DISABLED,
        ..Params::DEFAULT
    };
    change(&mut params);
    let requests = Requests::new(params, 1);
    requests.distinct(0, at(0));
    requests
}

fn denied(reason: Reason) -> Decision {
    Decision::Deny(reason)
}

/// Sends a request that is answered so; the time after it.
fn answered(requests: &Requests, millis: u64, request: Request, status: u32) -> u64 {
    let sent = requests.send(0, at(millis), request);
    requests.answer(&sent, at(millis + 10), status);
    millis + 20
}

#[test]
fn the_policy_says_how_many_tries_follow_the_first() {
    for attempts in [0u64, 1, 3] {
        let requests = with(|p| p.attempts = attempts as u32);
        let mut now = 100;
        for _ in 0..=attempts {
            now = answered(&requests, now, get(1), 503);
        }
        for _ in 0..5 {
            now += 100;
            assert_eq!(
                requests.refused(0, at(now), get(1)),
                denied(Reason::Attempts)
            );
        }
        // Other operations go on.
        requests.send(0, at(now), get(2));
        // The evidence ages from the last real failure.
        requests.send(0, at(now + 10_000), get(1));
    }
}

#[test]
fn rules_go_by_the_higher_of_the_declared_and_the_counted_number() {
    let requests = with(|p| p.attempts = 3);
    let declared = |declared| Request { declared, ..get(1) };
    let too_many = denied(Reason::Attempts);
    assert_eq!(requests.refused(0, at(90), declared(5)), too_many);
    for n in 0..4 {
        let sent = requests.send(0, at(100 + n * 10), declared(0));
        requests.answer(&sent, at(105 + n * 10), 429);
    }
    assert_eq!(requests.refused(0, at(200), declared(2)), too_many);
}

#[test]
fn a_chain_older_than_its_deadline_is_not_continued() {
    let requests = with(|p| (p.deadline, p.attempts) = (5_000, 100));
    let mut now = 100;
    while now < 5_000 {
        now = answered(&requests, now, get(1), 503) + 400;
    }
    assert_eq!(
        requests.refused(0, at(now + 200), get(1)),
        denied(Reason::Deadline)
    );
}

#[test]
fn a_retry_whose_caller_has_stopped_waiting_is_not_sent() {
    let requests = with(|_| ());
    let late = Request {
        declared: 2,
        said: about::EXPIRED,
        ..get(1)
    };
    assert_eq!(requests.refused(0, at(100), late), denied(Reason::Deadline));
    // A first try is its caller's business.
    requests.send(
        0,
        at(100),
        Request {
            declared: 1,
            ..late
        },
    );
}

#[test]
fn an_answer_that_will_not_change_is_not_asked_for_again() {
    for status in [400, 403, 410, 422] {
        let requests = with(|_| ());
        let named = Request { key: 7, ..get(1) };
        let now = answered(&requests, 100, named, status);
        assert_eq!(
            requests.refused(0, at(now), named),
            denied(Reason::NotRetryable),
            "{status}"
        );
        // It might after all.
        requests.send(0, at(now + 10_000), named);
    }
}

const WRONG: [u32; 7] = [400, 411, 413, 414, 415, 422, 431];

#[test]
fn what_is_wrong_with_a_request_is_not_asked_again_at_once() {
    for status in WRONG {
        for request in [get(1), post(1)] {
            let requests = with(|_| ());
            let now = answered(&requests, 100, request, status);
            for millis in [now, now + 100, now + 300, 1_109] {
                assert_eq!(
                    requests.refused(0, at(millis), request),
                    denied(Reason::NotRetryable),
                    "{status} at {millis}"
                );
            }
            // Something else is written there.
            requests.send(0, at(now), get(2));
            // It ages from the answer, however often it was refused.
            requests.send(0, at(1_110), request);
        }
    }
}

/// Else a health check that is told 400 for life would be refused for life.
#[test]
fn who_asks_again_a_second_after_it_was_told_that_it_is_wrong_is_refused_no_more() {
    for gap in [100, 300, 700, 1_500, 5_000] {
        let requests = with(|_| ());
        let (mut refused, mut last) = (0, 0);
        for round in 0..100 {
            let now = at(100 + round * gap);
            match requests.request(0, now, get(1), u32::MAX / 2) {
                Ok(sent) => _ = requests.answer(&sent, now, 400),
                Err(_) => (refused, last) = (refused + 1, round * gap),
            }
        }
        assert_eq!(refused, 999 / gap, "every {gap} ms");
        assert!(last < 1_000, "every {gap} ms");
    }
}

/// Else retries that come after that second would make a guess of all others.
#[test]
fn who_asks_late_does_not_make_a_guess_of_the_others_of_its_workload() {
    let requests = with(|_| ());
    for n in 0..30 {
        let now = answered(&requests, 100 + n * 2_000, get(n), 400);
        answered(&requests, now + 1_500, get(n), 400);
    }
    let now = answered(&requests, 100_000, get(100), 503);
    assert_eq!(requests.evidence(0, at(now), &get(100)).0, Evidence::Exact);
}

#[test]
fn a_form_that_is_sent_again_after_two_seconds_passes() {
    let requests = with(|_| ());
    for n in 0..30 {
        let now = answered(&requests, 100 + n * 5_000, post(n), 422);
        answered(&requests, now + 2_000, post(n), 200);
    }
}

#[test]
fn another_operation_that_is_written_alike_is_not_refused() {
    let requests = with(|_| ());
    let named = |key| Request { key, ..post(1) };
    for key in 1..50 {
        answered(&requests, 100 + key * 50, named(key), 422);
    }
}

#[test]
fn a_guess_that_a_request_was_wrong_before_refuses_nothing() {
    let requests = Requests::new(Params::DEFAULT, 1);
    let mut now = 100;
    for _ in 0..50 {
        now = answered(&requests, now, get(1), 400);
    }
}

/// Nothing failed, and no name says that it is the same operation: a health
/// check that takes any answer for life, another user's request.
#[test]
fn who_only_looks_equal_after_an_answer_about_something_else_is_never_refused() {
    for status in [402, 403, 405, 406, 410, 451] {
        let requests = with(|_| ());
        let mut now = 100;
        for _ in 0..50 {
            now = answered(&requests, now, get(1), status);
        }
    }
}

#[test]
fn who_polls_races_or_waits_for_a_lock_is_never_refused() {
    for status in [401, 404, 409, 412, 421, 423, 425] {
        let requests = with(|_| ());
        let mut now = 100;
        for _ in 0..50 {
            now = answered(&requests, now, get(1), status);
        }
    }
}

#[test]
fn a_code_that_the_policy_calls_a_failure_may_be_retried() {
    for status in [400, 403] {
        let requests = with(|p| p.codes = codes(&[status]));
        let now = answered(&requests, 100, get(1), status.into());
        requests.send(0, at(now), get(1));
    }
}

#[test]
fn a_caller_that_is_told_not_to_retry_does_not() {
    let requests = with(|_| ());
    let sent = requests.send(0, at(100), get(1));
    let answer = Answer {
        advice: Advice::NoRetry,
        ..Answer::status(&requests.node.params, 503)
    };
    requests.end(&sent, at(110), answer, 0);
    assert_eq!(
        requests.refused(0, at(200), get(1)),
        denied(Reason::NotRetryable)
    );
}

#[test]
fn what_may_take_effect_twice_is_not_sent_twice() {
    let p = Params::DEFAULT;
    let unclear = [
        Answer::none(Outcome::Timeout),
        Answer::none(Outcome::Reset),
        Answer::none(Outcome::NoAnswer),
        Answer::status(&p, 500),
        Answer::status(&p, 502),
        Answer::status(&p, 504),
    ];
    for answer in unclear {
        let requests = with(|_| ());
        let sent = requests.send(0, at(100), post(1));
        requests.end(&sent, at(110), answer, 0);
        assert_eq!(
            requests.refused(0, at(200), post(1)),
            denied(Reason::NonIdempotent),
            "{answer:?}"
        );
        let allowed = with(|p| p.refuse_non_idempotent = 0);
        let sent = allowed.send(0, at(100), post(1));
        allowed.end(&sent, at(110), answer, 0);
        allowed.send(0, at(200), post(1));
        // Doing it twice is like doing it once.
        let sent = requests.send(0, at(100), get(2));
        requests.end(&sent, at(110), answer, 0);
        requests.send(0, at(200), get(2));
    }
}

#[test]
fn a_post_that_can_not_have_taken_effect_may_be_sent_again() {
    let p = Params::DEFAULT;
    let clear = [
        Answer::none(Outcome::Refused),
        Answer::none(Outcome::Unreachable),
        Answer::status(&p, 429),
        Answer::status(&p, 503),
    ];
    for answer in clear {
        let requests = with(|_| ());
        let sent = requests.send(0, at(100), post(1));
        requests.end(&sent, at(110), answer, 0);
        requests.send(0, at(200), post(1));
    }
}

#[test]
fn a_guess_refuses_nothing() {
    // No healthy history.
    let requests = Requests::new(
        Params {
            attempts: 0,
            ..Params::DEFAULT
        },
        1,
    );
    let mut now = 0;
    for _ in 0..5 {
        now = answered(&requests, now, get(1), 403);
    }
}

fn scan(change: impl FnOnce(&mut RequestScan)) -> RequestScan {
    let mut scan = RequestScan::zeroed();
    scan.method = method::GET;
    change(&mut scan);
    scan
}

#[test]
fn a_request_says_what_repeating_it_would_do() {
    for method in [method::POST, method::PATCH, method::OTHER] {
        let bare = scan(|it| it.method = method);
        assert_eq!(said(&bare, 0), about::NOT_IDEMPOTENT);
        let keyed = scan(|it| (it.method, it.flags) = (method, request::flag::IDEMPOTENT));
        assert_eq!(said(&keyed, 0), 0);
    }
    for method in [method::GET, method::HEAD, method::PUT, method::DELETE] {
        assert_eq!(said(&scan(|it| it.method = method), 0), 0);
    }
}

#[test]
fn a_request_says_when_its_caller_stops_waiting() {
    let until = scan(|it| it.expires = 1_000);
    assert_eq!(said(&until, 1_000), 0);
    assert_eq!(said(&until, 1_001), about::EXPIRED);
    assert_eq!(said(&scan(|it| it.patience = 250), 0), 0);
    assert_eq!(said(&scan(|it| it.patience = 1), 0), about::EXPIRED);
}

/// A 503 or 429 that asks to wait.
fn wait(requests: &Requests, status: u32, retry_after: u32) -> Answer {
    Answer {
        retry_after,
        ..Answer::status(&requests.node.params, status)
    }
}

#[test]
fn retries_wait_as_long_as_the_destination_asks() {
    for status in [429, 503] {
        let requests = with(|_| ());
        let sent = requests.send(0, at(100), get(1));
        requests.end(&sent, at(110), wait(&requests, status, 3_000), 0);
        assert_eq!(
            requests.refused(0, at(3_109), get(1)),
            denied(Reason::RetryAfter)
        );
        requests.send(0, at(3_109), get(2));
        requests.send(0, at(3_110), get(1));
    }
}

#[test]
fn no_destination_makes_its_callers_wait_longer_than_the_policy_allows() {
    let requests = with(|p| p.pushback_max = 2_000);
    let sent = requests.send(0, at(100), get(1));
    requests.end(&sent, at(110), wait(&requests, 503, u32::MAX), 0);
    assert_eq!(
        requests.refused(0, at(2_109), get(1)),
        denied(Reason::RetryAfter)
    );
    requests.send(0, at(2_110), get(1));
}

#[test]
fn a_policy_may_ignore_what_the_destination_asks() {
    let requests = with(|p| p.honor_pushback = 0);
    let sent = requests.send(0, at(100), get(1));
    requests.end(&sent, at(110), wait(&requests, 503, 3_000), 0);
    requests.send(0, at(200), get(1));
}

#[test]
fn first_tries_wait_when_answers_over_two_seconds_were_all_pushback() {
    let requests = with(|_| ());
    let push = |millis, fingerprint| {
        let sent = requests.send(0, at(millis), get(fingerprint));
        requests.end(&sent, at(millis), wait(&requests, 429, 10_000), 0);
    };
    for n in 0..20 {
        push(100 + n * 100, n);
    }
    // Silence is no answer.
    requests.send(0, at(5_000), get(100));
    push(5_000, 101);
    assert_eq!(
        requests.refused(0, at(5_001), get(102)),
        denied(Reason::RetryAfter)
    );
    assert_eq!(
        requests.node.callers[0].workload.read(count::DENIED_FIRST),
        1
    );
}

#[test]
fn one_key_that_is_pushed_back_does_not_stop_the_others() {
    let requests = with(|_| ());
    let mut now = 100;
    for n in 0..100 {
        let sent = requests.send(0, at(now), get(10_000 + n));
        requests.end(&sent, at(now), wait(&requests, 429, 10_000), 0);
        now = answered(&requests, now, get(20_000 + n), 200) + 50;
    }
}

#[test]
fn another_failure_is_not_only_pushback() {
    let requests = with(|_| ());
    for n in 0..40 {
        let now = 100 + n * 100;
        let sent = requests.send(0, at(now), get(10_000 + n));
        let answer = if n % 10 == 9 {
            Answer::status(&requests.node.params, 500)
        } else {
            wait(&requests, 429, 10_000)
        };
        requests.end(&sent, at(now), answer, 0);
    }
}

#[test]
fn a_success_ends_the_waiting() {
    let requests = with(|_| ());
    let [slow, sent] = [9, 1].map(|fingerprint| requests.send(0, at(100), get(fingerprint)));
    requests.end(&sent, at(110), wait(&requests, 503, 3_000), 0);
    assert_eq!(
        requests.refused(0, at(200), get(1)),
        denied(Reason::RetryAfter)
    );
    requests.answer(&slow, at(300), 200);
    requests.send(0, at(301), get(1));
}

#[test]
fn a_refusal_of_a_governor_asks_nobody_to_wait() {
    let requests = with(|_| ());
    let sent = requests.send(0, at(100), get(1));
    requests.answer(&sent, at(110), 503);
    let relayed = requests.send(0, at(200), get(2));
    let ours = Answer {
        outcome: Outcome::Cancelled,
        ..wait(&requests, 503, 5_000)
    };
    requests.end(&relayed, at(210), ours, 0);
    requests.send(0, at(220), get(1));
}

#[test]
fn an_answer_that_asks_for_no_wait_ends_none() {
    let requests = with(|_| ());
    let [one, other] = [1, 2].map(|fingerprint| requests.send(0, at(100), get(fingerprint)));
    requests.end(&one, at(110), wait(&requests, 503, 3_000), 0);
    requests.answer(&other, at(120), 503);
    assert_eq!(
        requests.refused(0, at(200), get(1)),
        denied(Reason::RetryAfter)
    );
}
