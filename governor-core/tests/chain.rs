//! Which requests are known to be retries.

mod common;

use common::requests::{Answer, Request, Requests, get, post};
use common::{THREADS, at};
use governor_core::chain::{Advice, Chain, Learned, Link, Result, Seen, operation};
use governor_core::evidence::{Evidence, History};
use governor_core::params::Params;
use governor_core::units::Millis;
use governor_core::verdict::Outcome;
use std::sync::atomic::AtomicU64;

const WINDOW: Millis = Millis(10_000);
const FIRST: Link = Link {
    started: Millis(1_000),
    number: 1,
    about: 0,
};

fn at_ms(millis: u64) -> Millis {
    Millis(1_000 + millis)
}

/// A node whose requests are known to differ from one another.
fn distinct() -> Requests {
    let requests = Requests::new(Params::DEFAULT, 2);
    requests.distinct(0, at(0));
    requests
}

#[test]
fn an_equal_request_after_a_failure_is_the_next_try() {
    let chain = Chain::<AtomicU64>::default();
    assert_eq!(chain.look(at_ms(0), WINDOW).seen, Seen::Fresh);
    chain.sent(at_ms(0), WINDOW);
    chain.ended(at_ms(50), WINDOW, &FIRST, Result::Failed);
    let second = chain.look(at_ms(500), WINDOW);
    assert_eq!(second.seen, Seen::Failed);
    assert_eq!(
        second.link,
        Link {
            started: at_ms(0),
            number: 2,
            about: 0
        }
    );
    chain.sent(at_ms(500), WINDOW);
    chain.ended(at_ms(600), WINDOW, &second.link, Result::Failed);
    assert_eq!(chain.look(at_ms(700), WINDOW).link.number, 3);
    assert_eq!(chain.look(at_ms(700), WINDOW).link.started, at_ms(0));
}

#[test]
fn evidence_ages_from_the_failure_and_not_from_what_is_refused_after_it() {
    let requests = distinct();
    let sent = requests.send(0, at(100), get(1));
    requests.answer(&sent, at(150), 503);
    for millis in (200..10_150).step_by(50) {
        let (evidence, _) = requests.evidence(0, at(millis), &get(1));
        assert_eq!(evidence, Evidence::Exact, "{millis}");
    }
    let (evidence, link) = requests.evidence(0, at(10_150), &get(1));
    assert_eq!(evidence, Evidence::None);
    assert_eq!(link.number, 1);
}

#[test]
fn the_end_of_a_request_that_was_cancelled_is_no_evidence() {
    let requests = distinct();
    let sent = requests.send(0, at(100), get(1));
    requests.end(&sent, at(110), Answer::none(Outcome::Cancelled), 0);
    assert_eq!(requests.evidence(0, at(120), &get(1)).0, Evidence::None);
}

#[test]
fn a_success_ends_the_chain() {
    let requests = distinct();
    let sent = requests.send(0, at(100), get(1));
    requests.answer(&sent, at(150), 503);
    let again = requests.send(0, at(200), get(1));
    assert_eq!(again.link.number, 2);
    requests.answer(&again, at(250), 200);
    assert_eq!(requests.evidence(0, at(300), &get(1)).0, Evidence::None);
}

#[test]
fn without_healthy_history_equality_is_only_a_guess() {
    let requests = Requests::new(Params::DEFAULT, 1);
    let sent = requests.send(0, at(0), get(1));
    requests.answer(&sent, at(50), 503);
    assert_eq!(requests.evidence(0, at(100), &get(1)).0, Evidence::Inferred);
}

#[test]
fn of_twenty_different_requests_two_may_come_again_by_themselves() {
    assert_eq!(History::of(19, 0), History::Unknown);
    assert_eq!(History::of(20, 2), History::Distinct);
    assert_eq!(History::of(20, 3), History::Unknown);
    assert_eq!(History::of(30, 3), History::Distinct);
}

#[test]
fn a_request_that_comes_again_by_itself_is_only_suspected() {
    let requests = distinct();
    for n in 0..3 {
        let sent = requests.send(0, at(100 + n * 100), get(7));
        requests.answer(&sent, at(110 + n * 100), 200);
    }
    let sent = requests.send(0, at(500), get(7));
    requests.answer(&sent, at(510), 503);
    assert_eq!(requests.evidence(0, at(520), &get(7)).0, Evidence::Inferred);
    // Of others it says nothing.
    let sent = requests.send(0, at(500), get(8));
    requests.answer(&sent, at(510), 503);
    assert_eq!(requests.evidence(0, at(520), &get(8)).0, Evidence::Exact);
}

#[test]
fn two_at_once_that_succeed_come_again_by_themselves() {
    let requests = distinct();
    let both = [(); 2].map(|()| requests.send(0, at(100), get(7)));
    for sent in &both {
        requests.answer(sent, at(110), 200);
    }
    assert!(requests.chain(0, 7).repeats());
}

#[test]
fn a_retry_that_overtakes_the_end_of_what_it_repeats_does_not_spoil_the_evidence() {
    let requests = distinct();
    let slow = requests.send(0, at(100), get(7));
    let retry = requests.send(0, at(1_100), get(7));
    requests.end(&slow, at(1_101), Answer::none(Outcome::Timeout), 0);
    assert!(!requests.chain(0, 7).repeats());
    requests.end(&retry, at(2_100), Answer::none(Outcome::Timeout), 0);
    assert_eq!(requests.evidence(0, at(2_101), &get(7)).0, Evidence::Exact);
}

#[test]
fn a_hedge_that_is_not_needed_any_more_is_cancelled() {
    let requests = distinct();
    let pair = |millis: u64| [0, 30].map(|late| requests.send(0, at(millis + late), get(millis)));
    // Whichever of the two is answered.
    for (millis, first) in [(100, 0), (1_000, 1)] {
        let pair = pair(millis);
        requests.answer(&pair[first], at(millis + 250), 200);
        assert_eq!(
            requests.close(&pair[1 - first], at(millis + 251)),
            Outcome::Cancelled
        );
    }
    // Of three both others are.
    let pair = pair(2_000);
    let third = requests.send(0, at(2_060), get(2_000));
    requests.answer(&pair[1], at(2_250), 200);
    for hedge in [pair[0], third] {
        assert_eq!(requests.close(&hedge, at(2_251)), Outcome::Cancelled);
    }
}

#[test]
fn who_closes_while_no_equal_one_is_answered_gave_up() {
    let requests = distinct();
    let close = |sent, millis| requests.close(&sent, at(millis));
    let alone = requests.send(0, at(100), get(1));
    assert_eq!(close(alone, 350), Outcome::Timeout);
    let pair = [(); 2].map(|()| requests.send(0, at(100), get(2)));
    assert_eq!(close(pair[0], 350), Outcome::Timeout);
    // It was answered, and with a failure.
    requests.answer(&pair[1], at(360), 503);
    let third = requests.send(0, at(370), get(2));
    assert_eq!(close(third, 620), Outcome::Timeout);
    // A success that is older than the request.
    requests.answer(&requests.send(0, at(700), get(3)), at(710), 200);
    assert_eq!(
        close(requests.send(0, at(720), get(3)), 1_000),
        Outcome::Timeout
    );
    // One that comes long before the end: nobody waits for that with a hedge.
    let pair = [(); 2].map(|()| requests.send(0, at(2_000), get(4)));
    requests.answer(&pair[0], at(2_250), 200);
    assert_eq!(close(pair[1], 3_250), Outcome::Timeout);
}

/// Someone is always answered there.
#[test]
fn on_one_hot_target_who_closes_gave_up() {
    let requests = distinct();
    let mut cancelled = 0;
    for round in 0..50 {
        let now = 100 + round * 1_000;
        let pair = [(); 2].map(|()| requests.send(0, at(now), get(7)));
        requests.answer(&pair[0], at(now + 50), 200);
        cancelled += u32::from(requests.close(&pair[1], at(now + 51)) == Outcome::Cancelled);
    }
    assert_eq!(cancelled, 1, "of the first pair nothing tells");
}

/// Two wrong ones at once are not one and its retry.
#[test]
fn two_at_once_that_are_told_that_they_are_wrong_come_by_themselves() {
    let requests = distinct();
    let pair = [(); 2].map(|()| requests.send(0, at(100), get(7)));
    requests.answer(&pair[0], at(110), 400);
    assert_eq!(requests.evidence(0, at(120), &get(7)).0, Evidence::Inferred);
    assert!(
        !requests.chain(0, 7).repeats(),
        "of the workload it says nothing"
    );
}

#[test]
fn equal_requests_of_another_workload_say_nothing() {
    let requests = distinct();
    let sent = requests.send(0, at(100), get(1));
    requests.answer(&sent, at(150), 503);
    assert_eq!(requests.evidence(1, at(200), &get(1)).0, Evidence::None);
}

#[test]
fn a_declared_retry_is_one_and_only_tries_that_were_seen_are_counted() {
    let requests = Requests::new(Params::DEFAULT, 1);
    let declared = |declared| Request { declared, ..get(1) };
    let (evidence, link) = requests.evidence(0, at(0), &declared(50));
    assert_eq!((evidence, link.number), (Evidence::Exact, 1));
    assert_eq!(requests.evidence(0, at(0), &declared(1)).0, Evidence::None);
    // Nor by the next ones.
    let sent = requests.send(0, at(0), declared(2));
    requests.answer(&sent, at(5), 503);
    let (evidence, link) = requests.evidence(0, at(10), &declared(50));
    assert_eq!((evidence, link.number), (Evidence::Exact, 2));
}

#[test]
fn a_named_operation_that_failed_is_known_whatever_it_looks_like() {
    let requests = Requests::new(Params::DEFAULT, 1);
    let named = |fingerprint| Request {
        key: 99,
        ..post(fingerprint)
    };
    let sent = requests.send(0, at(0), named(1));
    requests.answer(&sent, at(50), 503);
    let (evidence, link) = requests.evidence(0, at(100), &named(2));
    assert_eq!((evidence, link.number), (Evidence::Exact, 2));
}

#[test]
fn a_new_name_is_another_operation_however_equal_it_looks() {
    let requests = distinct();
    let named = |key| Request { key, ..post(1) };
    let sent = requests.send(0, at(100), named(99));
    requests.answer(&sent, at(150), 503);
    let (evidence, link) = requests.evidence(0, at(200), &named(100));
    assert_eq!((evidence, link.number), (Evidence::Inferred, 1));
}

#[test]
fn a_weak_name_counts_together_with_the_fingerprint() {
    assert_eq!(operation(0, 0, 5), 0);
    assert_eq!(operation(3, 4, 5), 3);
    assert_ne!(operation(0, 4, 5), operation(0, 4, 6));
    assert_ne!(operation(0, 4, 5), operation(0, 5, 5));
    assert_ne!(operation(0, 4, 5), 0);
}

#[test]
fn an_answer_that_will_not_change_and_one_that_is_no_failure_are_told_apart() {
    let p = Params::DEFAULT;
    let came = |status| {
        let answer = Answer::status(&p, status);
        Result::of(answer.outcome, status, Advice::None)
    };
    for status in [200, 204, 301, 304, 401, 404, 409, 412, 423, 501] {
        assert_eq!(came(status), Result::Success, "{status}");
    }
    for status in [400, 403, 410, 422] {
        assert_eq!(came(status), Result::Final, "{status}");
    }
    for status in [500, 502, 504] {
        assert_eq!(came(status), Result::Unclear, "{status}");
    }
    for status in [429, 503] {
        assert_eq!(came(status), Result::Failed, "{status}");
    }
}

#[test]
fn only_what_is_wrong_with_a_request_is_final_for_equal_ones() {
    let p = Params::DEFAULT;
    let equals = |status, advice| {
        let Answer { outcome, .. } = Answer::status(&p, status);
        Result::of(outcome, status, advice).for_equals(outcome, status)
    };
    for status in [400, 411, 413, 414, 415, 422, 431] {
        assert_eq!(equals(status, Advice::None), Result::Wrong, "{status}");
    }
    for status in [200, 402, 403, 404, 405, 406, 410, 451] {
        for advice in [Advice::None, Advice::NoRetry] {
            assert_eq!(equals(status, advice), Result::Success, "{status}");
        }
    }
    // A failure is one for all.
    assert_eq!(equals(503, Advice::None), Result::Failed);
    assert_eq!(equals(503, Advice::NoRetry), Result::Final);
    assert_eq!(
        Result::of(Outcome::Status, 400, Advice::None).for_equals(Outcome::Status, 400),
        Result::Failed,
        "a policy says that it may be tried again"
    );
}

#[test]
fn a_status_that_the_policy_calls_a_failure_may_be_tried_again() {
    assert_eq!(
        Result::of(Outcome::Status, 403, Advice::None),
        Result::Failed
    );
}

#[test]
fn who_is_told_not_to_retry_is_told_so_by_a_failure_only() {
    assert_eq!(
        Result::of(Outcome::Status, 503, Advice::NoRetry),
        Result::Final
    );
    assert_eq!(
        Result::of(Outcome::Success, 200, Advice::NoRetry),
        Result::Success
    );
    assert_eq!(
        Result::of(Outcome::Timeout, 0, Advice::NoRetry),
        Result::Unclear
    );
}

/// A lost race loses an observation, and makes none up.
#[test]
fn racing_successes_never_make_a_failure() {
    let chain = Chain::<AtomicU64>::default();
    common::rounds(2_000, |thread, round| {
        let now = at_ms(round * 3 + thread as u64);
        chain.sent(now, WINDOW);
        let learned = chain.ended(now, WINDOW, &FIRST, Result::Success);
        assert!(
            round == 0 || learned != Learned::Distinct,
            "distinct more than once"
        );
        let seen = chain.look(now, WINDOW).seen;
        assert!(
            !matches!(seen, Seen::Failed | Seen::FailedButRepeats),
            "{seen:?}"
        );
    });
    assert!(THREADS > 1 && chain.repeats());
}
