//! I1 to I5 as properties of the law at the level of requests, over random
//! traces of what callers send and servers answer.

mod common;

use std::collections::{BTreeMap, VecDeque};

use common::at;
use common::requests::{Answer, Request, Requests, Sent, get};
use governor_core::breaker::{Move, State};
use governor_core::chain::Advice;
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::params::Params;
use governor_core::rules::about;
use governor_core::verdict::{Outcome, Reason};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const CALLERS: usize = 2;

/// One thing that happens, so many milliseconds after the one before.
#[derive(Clone, Copy, Debug)]
struct Happening {
    after: u64,
    caller: usize,
    random: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send(Request),
    /// One of those that failed or were refused is sent again.
    Again(Index),
    End(Index, Answer),
}

/// Answers and endings that are failures, and some that are not.
fn answer(failing: bool) -> impl Strategy<Value = Answer> {
    let p = Params::DEFAULT;
    let status = move |list: &'static [u32]| {
        let wait = prop_oneof![3 => Just(0u32), 1 => 0u32..4_000];
        let advice = prop_oneof![9 => Just(Advice::None), 1 => Just(Advice::NoRetry)];
        (select(list), wait, advice).prop_map(move |(status, retry_after, advice)| Answer {
            retry_after,
            advice,
            ..Answer::status(&p, status)
        })
    };
    let none = select(
        [
            Outcome::Timeout,
            Outcome::Reset,
            Outcome::NoAnswer,
            Outcome::Cancelled,
        ]
        .as_slice(),
    )
    .prop_map(Answer::none);
    let fine = if failing { 0 } else { 12 };
    prop_oneof![
        1 + fine => status(&[200, 200, 201, 304, 404, 409]),
        1 => status(&[400, 403, 422]),
        4 => status(&[429, 500, 502, 503, 503, 504]),
        3 => none,
    ]
}

/// Few that come again and many that differ.
fn request() -> impl Strategy<Value = Request> {
    let fingerprint = prop_oneof![1 => 0u64..3, 4 => 100u64..100_000];
    let said = select([0, 0, 0, about::NOT_IDEMPOTENT, about::EXPIRED].as_slice());
    let key = prop_oneof![4 => Just(0u64), 1 => 1u64..1_000];
    let declared = prop_oneof![6 => Just(0u32), 1 => Just(1u32), 1 => 2u32..6];
    (fingerprint, said, key, declared).prop_map(|(fingerprint, said, key, declared)| Request {
        fingerprint,
        declared,
        key,
        said,
    })
}

fn after() -> impl Strategy<Value = u64> {
    prop_oneof![
        30 => Just(0u64),
        30 => 1u64..30,
        10 => 30u64..400,
        4 => 400u64..3_000,
        1 => 3_000u64..60_000,
    ]
}

fn trace(moods: usize) -> impl Strategy<Value = Vec<Happening>> {
    let mood = any::<bool>().prop_flat_map(|failing| {
        let what = prop_oneof![
            3 => request().prop_map(What::Send),
            2 => any::<Index>().prop_map(What::Again),
            4 => (any::<Index>(), answer(failing)).prop_map(|(which, how)| What::End(which, how)),
        ];
        let happening =
            (after(), 0..CALLERS, any::<u32>(), what).prop_map(|(after, caller, random, what)| {
                Happening {
                    after,
                    caller,
                    random,
                    what,
                }
            });
        vec(happening, 1..80)
    });
    vec(mood, 1..moods).prop_map(|moods| moods.concat())
}

/// What a step came to.
enum Came {
    Decided(Request, Evidence, Result<Sent, Decision>),
    Ended(Sent, Answer),
    Nothing,
}

struct Play {
    requests: Requests,
    millis: u64,
    going: Vec<Sent>,
    /// What failed or was refused lately.
    failed: VecDeque<Request>,
}

impl Play {
    /// Callers whose healthy requests differ.
    fn new(params: Params) -> Self {
        let requests = Requests::new(params, CALLERS);
        for caller in 0..CALLERS {
            requests.distinct(caller, at(0));
        }
        Self {
            requests,
            millis: 100,
            going: Vec::new(),
            failed: VecDeque::new(),
        }
    }

    fn send(&mut self, happening: &Happening, request: Request) -> Came {
        let (caller, now) = (happening.caller, at(self.millis));
        let (evidence, _) = self.requests.evidence(caller, now, &request);
        let sent = self
            .requests
            .request(caller, now, request, happening.random);
        match &sent {
            Ok(sent) => self.going.push(*sent),
            Err(_) => self.failed.push_back(request),
        }
        Came::Decided(request, evidence, sent)
    }

    fn step(&mut self, happening: &Happening) -> Came {
        self.millis += happening.after;
        if self.failed.len() > 8 {
            self.failed.pop_front();
        }
        match happening.what {
            What::Send(request) => self.send(happening, request),
            What::Again(which) if !self.failed.is_empty() => {
                let request = self.failed[which.index(self.failed.len())];
                let declared = if request.declared == 0 {
                    0
                } else {
                    request.declared + 1
                };
                self.send(
                    happening,
                    Request {
                        declared,
                        ..request
                    },
                )
            }
            What::End(which, answer) if !self.going.is_empty() => {
                let sent = self.going.swap_remove(which.index(self.going.len()));
                self.requests
                    .end(&sent, at(self.millis), answer, happening.random);
                if answer.outcome != Outcome::Success || answer.status >= 400 {
                    self.failed.push_back(sent.request);
                }
                Came::Ended(sent, answer)
            }
            What::Again(_) | What::End(..) => Came::Nothing,
        }
    }
}

/// Refusals that a random number or another's place can not change.
const fn is_sure(decision: Decision) -> bool {
    matches!(
        decision,
        Decision::Deny(
            Reason::RetryAfter
                | Reason::Deadline
                | Reason::Attempts
                | Reason::NotRetryable
                | Reason::NonIdempotent
        )
    )
}

const fn is_for_retries(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Budget
            | Reason::Deadline
            | Reason::Attempts
            | Reason::NotRetryable
            | Reason::NonIdempotent
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    })]

    /// I1: who hammers at what is refused changes no later verdict.
    #[test]
    fn refused_requests_change_no_later_verdict(trace in trace(8)) {
        let mut quiet = Play::new(Params::DEFAULT);
        let mut loud = Play::new(Params::DEFAULT);
        for happening in &trace {
            let (quiet, came) = (quiet.step(happening), loud.step(happening));
            if let (Came::Decided(request, _, expected), Came::Decided(_, _, sent)) = (quiet, came) {
                let (expected, sent) = (expected.err(), sent.err());
                prop_assert_eq!(expected, sent);
                let Some(denied) = sent else { continue };
                for _ in 0..if is_sure(denied) { 5 } else { 0 } {
                    let again = loud.requests.request(happening.caller, at(loud.millis), request, happening.random);
                    prop_assert_eq!(again.err(), Some(denied));
                }
            }
        }
    }

    /// I2: retry rules and the budget refuse on exact evidence only.
    #[test]
    fn what_is_only_guessed_is_never_refused_as_a_retry(trace in trace(12)) {
        let mut play = Play::new(Params::DEFAULT);
        for happening in &trace {
            if let Came::Decided(_, evidence, Err(Decision::Deny(reason))) = play.step(happening) {
                prop_assert!(!is_for_retries(reason) || evidence == Evidence::Exact, "{evidence:?}: {reason:?}");
            }
        }
    }

    /// I2: users of one hot target look alike, and are not retries.
    #[test]
    fn on_one_hot_target_nothing_is_refused_as_a_retry(
        steps in vec((0u64..20, any::<bool>(), any::<Index>(), 0u32..100), 50..400),
        failing in 0u32..60,
    ) {
        let mut play = Play::new(Params::DEFAULT);
        let hot = get(7);
        for n in 0..2 {
            let sent = play.requests.send(0, at(50 + n), hot);
            play.requests.answer(&sent, at(50 + n), 200);
        }
        for (after, ends, which, luck) in steps {
            play.millis += after;
            let now = at(play.millis);
            if ends && !play.going.is_empty() {
                let sent = play.going.swap_remove(which.index(play.going.len()));
                let status = if luck < failing { 503 } else { 200 };
                play.requests.answer(&sent, now, status);
            } else {
                match play.requests.request(0, now, hot, luck) {
                    Ok(sent) => play.going.push(sent),
                    Err(Decision::Deny(reason)) => prop_assert!(!is_for_retries(reason), "{reason:?}"),
                    Err(other) => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }

    /// I3: without a failure nothing is denied, whatever repeats.
    #[test]
    fn without_failures_no_request_is_ever_denied(
        bursts in vec((after(), 0..CALLERS, 1usize..60, request(), 0u64..3_000, any::<bool>()), 1..60),
        statuses in vec(select([200, 204, 302, 304, 401, 404, 409, 412, 423, 501].as_slice()), 1..20),
    ) {
        let play = Play::new(Params::DEFAULT);
        let mut ends: BTreeMap<u64, Vec<Sent>> = BTreeMap::new();
        let mut millis = play.millis;
        for (after, caller, burst, request, latency, equal) in bursts {
            millis += after;
            while let Some(first) = ends.first_entry() && *first.key() <= millis {
                let (when, ended) = first.remove_entry();
                for (n, sent) in ended.iter().enumerate() {
                    let status = statuses[n % statuses.len()];
                    prop_assert_eq!(play.requests.answer(sent, at(when), status), Move::None);
                }
            }
            for n in 0..burst as u64 {
                let request = Request {
                    fingerprint: if equal { request.fingerprint } else { 200_000 + millis * 64 + n },
                    key: if equal { 0 } else { request.key },
                    declared: request.declared.min(1),
                    ..request
                };
                let sent = play.requests.request(caller, at(millis), request, n as u32);
                prop_assert!(sent.is_ok(), "{request:?}: {sent:?}");
                ends.entry(millis + latency).or_default().extend(sent);
            }
        }
    }

    /// I3: who asks for what is written wrongly is refused within a second of the
    /// first answer that says so, and never again.
    #[test]
    fn a_poller_that_is_told_that_it_is_wrong_is_refused_for_a_second_of_its_life(
        polls in vec((1u64..9_000, 0u64..3_000, select([400, 411, 413, 414, 415, 422, 431].as_slice())), 1..200),
        hasty in 1u64..100,
    ) {
        let play = Play::new(Params::DEFAULT);
        let mut millis = play.millis;
        let mut ends: BTreeMap<u64, Vec<(Sent, u32)>> = BTreeMap::new();
        let mut first = None;
        for (gap, latency, status) in polls {
            millis += gap.div_ceil(hasty);
            while let Some(next) = ends.first_entry() && *next.key() <= millis {
                let (when, ended) = next.remove_entry();
                first.get_or_insert(when);
                for (sent, status) in ended {
                    play.requests.answer(&sent, at(when), status);
                }
            }
            match play.requests.request(0, at(millis), get(7), millis as u32) {
                Ok(sent) => ends.entry(millis + latency.div_ceil(hasty)).or_default().push((sent, status)),
                Err(denied) => {
                    prop_assert_eq!(denied, Decision::Deny(Reason::NotRetryable));
                    prop_assert!(first.is_some_and(|first| millis < first + 1_000), "{first:?} {millis}");
                }
            }
        }
    }

    /// I3: of two equal requests one is cancelled when the other is answered.
    #[test]
    fn cancelled_hedges_are_no_failures(
        hedges in vec((0u64..3_000, 1u64..500, 0u64..3_000, 0usize..2, 0u64..1_000), 1..300),
    ) {
        #[derive(Clone, Copy)]
        enum Step { Send, Answer, Close }
        let play = Play::new(Params::DEFAULT);
        let mut steps = Vec::new();
        for (n, (begins, hedged, answered, first, closed)) in hedges.into_iter().enumerate() {
            let begins = play.millis + begins;
            let answer = begins + hedged + answered;
            steps.push((begins, n, 0, Step::Send));
            steps.push((begins + hedged, n, 1, Step::Send));
            steps.push((answer, n, first, Step::Answer));
            steps.push((answer + closed, n, 1 - first, Step::Close));
        }
        // Stable: what a hedge does at one moment it does in this order.
        steps.sort_by_key(|step| step.0);
        let mut going = BTreeMap::new();
        for (millis, n, which, step) in steps {
            let now = at(millis);
            match step {
                Step::Send => {
                    let sent = play.requests.request(0, now, get(300_000 + n as u64), n as u32);
                    prop_assert!(sent.is_ok(), "{sent:?} at {millis}");
                    going.extend(sent.map(|sent| ((n, which), sent)));
                }
                Step::Answer => _ = play.requests.answer(&going[&(n, which)], now, 200),
                Step::Close => prop_assert_eq!(play.requests.close(&going[&(n, which)], now), Outcome::Cancelled),
            }
        }
    }

    /// I4: once everything succeeds and requests arrive, all are admitted in time.
    #[test]
    fn whatever_was_answered_before_health_is_admitted_in_time(
        trace in trace(14),
        latency in 0u64..120,
        random in any::<u32>(),
    ) {
        let params = Params::DEFAULT;
        let mut play = Play::new(params);
        // Answers slower than an eighth of what callers waited may be a queue.
        let mut yields = [0; CALLERS];
        for happening in &trace {
            if let Came::Ended(sent, Answer { outcome: Outcome::Timeout, .. }) = play.step(happening)
                && at(play.millis).since(sent.since).micros() < 8_000 * latency
            {
                yields[sent.caller] = 5_000;
            }
        }
        let (requests, start) = (&play.requests, play.millis);
        let now = at(start).stamp().0;
        let waits = |until: u64| until.saturating_sub(now);
        let lost = requests.node.callers.iter().map(|caller| caller.endpoint.breaker.view())
            .filter(|view| view.state == State::HalfOpen).map(|view| waits(view.deadline.0)).max().unwrap_or(0);
        // A running pushback aside.
        let pushed = requests.node.callers.iter().map(|caller| waits(caller.workload.pushback.until().0)).max().unwrap_or(0);
        let bound = params.open_max + params.open_max / 2 + params.ramp + lost + pushed;
        let mut random = random | 1;
        let mut ends: VecDeque<(u64, Sent)> = VecDeque::new();
        for step in 0..(bound + 7_000) / 10 {
            let now = start + step * 10;
            while ends.front().is_some_and(|end| end.0 <= now) {
                let (when, sent) = ends.pop_front().expect("not empty");
                requests.answer(&sent, at(when), 200);
            }
            for (caller, yields) in yields.into_iter().enumerate() {
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                match requests.request(caller, at(now), get(1_000_000_000 + step), random) {
                    Ok(sent) => ends.push_back((now + latency, sent)),
                    Err(denied) => prop_assert!(now <= start + bound + yields, "{denied:?} {} ms after health, bound {bound} ms + {yields}", now - start),
                }
            }
        }
    }

    /// I5: retries of requests stay within the budget at every admission.
    #[test]
    fn repeated_requests_stay_within_the_budget_at_every_admission(
        trace in trace(14),
        percent in 0u32..10_000,
        ceiling in 0u32..60,
    ) {
        let params = Params {
            budget_percent: percent,
            reserve_ceiling: ceiling,
            breaker_enabled: 0,
            ..Params::DEFAULT
        };
        let mut play = Play::new(params);
        let (mut retries, mut successes) = (Vec::new(), vec![params.budget_epoch(at(0)); 30 * CALLERS]);
        for happening in &trace {
            let came = play.step(happening);
            let epoch = params.budget_epoch(at(play.millis));
            let within = |epochs: &[u64]| epochs.iter().filter(|&&then| epoch - then < 10).count() as u64;
            match came {
                Came::Decided(_, Evidence::Exact, Ok(_)) => {
                    retries.push(epoch);
                    let reserve = play.requests.node.destination.budget.reserve(&params);
                    let allowance = within(&successes) * u64::from(percent) / 10_000 + reserve;
                    prop_assert!(within(&retries) <= allowance, "{} of {allowance}", within(&retries));
                }
                Came::Ended(_, answer) if answer.outcome == Outcome::Success => successes.push(epoch),
                _ => {}
            }
            let spent = play.requests.node.destination.budget.spent(&params, at(play.millis));
            prop_assert_eq!(spent, within(&retries));
        }
    }
}

/// The properties above would hold of a law that never knows a retry.
#[test]
fn the_traces_reach_every_reason_to_refuse_a_retry() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut seen = BTreeMap::<String, u32>::new();
    for _ in 0..150 {
        let trace = trace(12).new_tree(&mut runner).unwrap().current();
        let mut play = Play::new(Params::DEFAULT);
        for happening in &trace {
            if let Came::Decided(_, evidence, sent) = play.step(happening) {
                *seen.entry(format!("{evidence:?}")).or_default() += 1;
                if let Err(Decision::Deny(reason)) = sent {
                    *seen.entry(format!("{reason:?}")).or_default() += 1;
                }
            }
        }
    }
    println!("{seen:#?}");
    for reason in Reason::ALL {
        let name = format!("{reason:?}");
        assert!(reason == Reason::Shed || seen.contains_key(&name), "{name}");
    }
    for evidence in [Evidence::None, Evidence::Inferred, Evidence::Exact] {
        assert!(seen.contains_key(&format!("{evidence:?}")), "{evidence:?}");
    }
}
