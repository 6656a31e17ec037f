//! I1 to I7 and I9 as properties of the law, over random traces.

mod common;

use std::collections::BTreeMap;

use common::{Going, Node, at};
use governor_core::breaker::{Move, State};
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::params::{Params, mode};
use governor_core::verdict::{Outcome, Reason};
use proptest::collection::vec;
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Debug)]
struct Happening {
    /// Milliseconds after the one before.
    after: u64,
    caller: usize,
    random: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Try(Evidence),
    /// One of the outstanding attempts ends.
    End(usize, Outcome),
    /// One is never heard of again.
    Lose(usize),
}

fn evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        4 => Just(Evidence::None),
        1 => Just(Evidence::Inferred),
        1 => Just(Evidence::Thread),
        3 => Just(Evidence::Exact),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Success),
        2 => Just(Outcome::Refused),
        3 => Just(Outcome::Timeout),
        1 => Just(Outcome::NoAnswer),
        1 => Just(Outcome::Cancelled),
    ]
}

/// Time steps: mostly within a tick, sometimes over many windows.
fn after() -> impl Strategy<Value = u64> {
    prop_oneof![
        30 => Just(0u64),
        30 => 1u64..30,
        10 => 30u64..400,
        4 => 400u64..3_000,
        1 => 3_000u64..60_000,
    ]
}

/// A trace whose moods change: in an outage everything fails.
fn trace(length: usize) -> impl Strategy<Value = Vec<Happening>> {
    let calm = (after(), 0usize..3, any::<u32>(), what(outcome().boxed()));
    let outage = (
        after(),
        0usize..3,
        any::<u32>(),
        what(Just(Outcome::Timeout).boxed()),
    );
    let refusing = (
        after(),
        0usize..3,
        any::<u32>(),
        what(Just(Outcome::Refused).boxed()),
    );
    let mood = prop_oneof![vec(calm, 1..60), vec(outage, 1..120), vec(refusing, 1..60),];
    vec(mood, 1..length).prop_map(|moods| {
        moods
            .into_iter()
            .flatten()
            .map(|(after, caller, random, what)| Happening {
                after,
                caller,
                random,
                what,
            })
            .collect()
    })
}

fn what(outcome: BoxedStrategy<Outcome>) -> impl Strategy<Value = What> {
    prop_oneof![
        5 => evidence().prop_map(What::Try),
        5 => (any::<prop::sample::Index>(), outcome).prop_map(|(which, how)| What::End(which.index(usize::MAX), how)),
        1 => any::<prop::sample::Index>().prop_map(|which| What::Lose(which.index(usize::MAX))),
    ]
}

/// What a step of a trace came to.
enum Came {
    Decided(usize, Evidence, Decision),
    Ended(Going, Outcome),
    Nothing,
}

/// Plays a trace; shows each step to `look` after it.
struct Play {
    node: Node,
    millis: u64,
    going: Vec<Going>,
}

impl Play {
    fn new(params: Params, callers: usize) -> Self {
        Self {
            node: Node::new(params, callers),
            millis: 0,
            going: Vec::new(),
        }
    }

    fn step(&mut self, happening: &Happening) -> Came {
        self.millis += happening.after;
        let now = at(self.millis);
        let caller = happening.caller % self.node.callers.len();
        match happening.what {
            What::Try(evidence) => {
                let decision = self.node.decide(caller, now, evidence, happening.random);
                if let Some(going) = going(caller, now, decision) {
                    self.going.push(going);
                }
                Came::Decided(caller, evidence, decision)
            }
            What::End(which, outcome) if !self.going.is_empty() => {
                let going = self.going.swap_remove(which % self.going.len());
                self.node.end_of(
                    governor_core::breaker::Level::Exchange,
                    going,
                    now,
                    outcome,
                    happening.random,
                );
                Came::Ended(going, outcome)
            }
            What::Lose(which) if !self.going.is_empty() => {
                let lost = which % self.going.len();
                self.going.swap_remove(lost);
                Came::Nothing
            }
            What::End(..) | What::Lose(_) => Came::Nothing,
        }
    }
}

fn going(caller: usize, now: governor_core::units::Nanos, decision: Decision) -> Option<Going> {
    use governor_core::settle::Audited;
    let (probe, audited) = match decision {
        Decision::Go => (None, Audited::Admitted),
        Decision::Probe(ticket) => (Some(ticket), Audited::Admitted),
        Decision::WouldDeny(_) => (None, Audited::WouldDeny),
        Decision::Watch => (None, Audited::Watched),
        Decision::Deny(_) => return None,
    };
    Some(Going {
        caller,
        since: now,
        probe,
        audited,
    })
}

/// The state that evidence lives in: all words but what counts attempts.
fn evidence_of(node: &Node, millis: u64) -> Vec<u64> {
    let mut words = vec![
        node.destination.budget.spent(&node.params, at(millis)),
        node.destination.budget.allowance(&node.params, at(millis)),
    ];
    for caller in &node.callers {
        let breaker = &caller.endpoint.breaker;
        let view = breaker.view();
        words.extend([
            view.state as u64,
            u64::from(view.generation),
            u64::from(view.backoff),
            view.deadline.0,
            breaker.run(),
            breaker.last_success().0,
            breaker.opened().0,
            u64::from(
                caller
                    .endpoint
                    .claims
                    .claim(at(millis).stamp(), node.params.evidence()),
            ),
            caller.workload.limiter.in_flight(at(millis)),
        ]);
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    /// I1: what is denied leaves no trace in anything that later decides.
    #[test]
    fn a_denial_is_never_evidence(trace in trace(8), random in any::<u32>()) {
        let mut play = Play::new(Params::DEFAULT, 3);
        for happening in &trace {
            play.step(happening);
            // Only where the answer is a denial whatever the random number:
            // an attempt that goes would of course leave one.
            for caller in 0..3 {
                if play.node.callers[caller].endpoint.breaker.view().state != State::HalfOpen {
                    continue;
                }
                let before = evidence_of(&play.node, play.millis);
                let decision = play.node.decide(caller, at(play.millis), Evidence::Exact, random);
                if let Some(going) = going(caller, at(play.millis), decision) {
                    play.going.push(going);
                    continue;
                }
                // `claim` above takes one claim each time it looks.
                let after = evidence_of(&play.node, play.millis);
                for (index, (before, after)) in before.iter().zip(&after).enumerate() {
                    let claim = index >= 2 && (index - 2) % 9 == 7;
                    prop_assert!(claim || before == after, "word {index}: {before} became {after}");
                }
            }
        }
    }

    /// I1, end to end: more denials in between change no later verdict.
    #[test]
    fn hammering_a_closed_door_does_not_keep_it_closed(trace in trace(8)) {
        let mut quiet = Play::new(Params::DEFAULT, 3);
        let mut loud = Play::new(Params::DEFAULT, 3);
        for happening in &trace {
            let (a, b) = (quiet.step(happening), loud.step(happening));
            if let (Came::Decided(_, _, a), Came::Decided(_, _, b)) = (a, b) {
                prop_assert_eq!(a, b);
            }
            for caller in 0..3 {
                let view = loud.node.callers[caller].endpoint.breaker.view();
                let shut = view.state == State::HalfOpen && at(loud.millis).stamp().0 < view.deadline.0;
                for _ in 0..if shut { 5 } else { 0 } {
                    let decision = loud.node.decide(caller, at(loud.millis), Evidence::Exact, 7);
                    prop_assert_eq!(decision, Decision::Deny(Reason::Breaker));
                }
            }
        }
    }

    /// I2: a budget refuses on evidence good enough only.
    #[test]
    fn a_budget_refuses_no_first_try(trace in trace(12)) {
        let mut play = Play::new(Params::DEFAULT, 3);
        for happening in &trace {
            if let Came::Decided(_, evidence, decision) = play.step(happening)
                && matches!(evidence, Evidence::None | Evidence::Inferred)
            {
                prop_assert_ne!(decision, Decision::Deny(Reason::Budget));
            }
        }
    }

    /// I3: without a failure nothing is denied, whatever the traffic.
    #[test]
    fn without_failures_nothing_is_ever_denied(
        // (after, caller, burst, latency of those that end; none: never answered)
        bursts in vec((after(), 0usize..3, 1usize..300, prop::option::of(0u64..20_000), any::<bool>()), 1..60),
        random in any::<u32>(),
    ) {
        let node = Node::new(Params::DEFAULT, 3);
        let mut ends: BTreeMap<u64, Vec<(Going, Outcome)>> = BTreeMap::new();
        let mut millis = 0;
        for (after, caller, burst, latency, hedged) in bursts {
            millis += after;
            while let Some(first) = ends.first_entry() && *first.key() <= millis {
                let (when, ended) = first.remove_entry();
                for (going, outcome) in ended {
                    prop_assert_eq!(node.end(going, at(when), outcome), Move::None);
                }
            }
            for i in 0..burst {
                let evidence = if i % 3 == 0 { Evidence::Inferred } else { Evidence::None };
                let going = node.attempt(caller, at(millis), evidence, random.rotate_left(i as u32));
                prop_assert!(going.is_ok(), "denied {going:?}");
                if let (Ok(going), Some(latency)) = (going, latency) {
                    // A cancelled hedge says nothing.
                    let outcome = if hedged && i % 2 == 0 { Outcome::Cancelled } else { Outcome::Success };
                    ends.entry(millis + latency).or_default().push((going, outcome));
                }
            }
        }
    }

    /// I4: once everything succeeds and attempts arrive, all are admitted
    /// within the longest open time, the ramp and a lost probe's time-out.
    ///
    /// Healthy is as fast as callers wait for. Where they have given up after less
    /// than eight times of what an answer takes now, the limit takes it for a queue:
    /// it shrinks, sees that it does not help, and sleeps after five seconds.
    #[test]
    fn whatever_happened_before_health_is_admitted_in_time(
        trace in trace(14),
        latency in 0u64..120,
        random in any::<u32>(),
    ) {
        let params = Params::DEFAULT;
        let mut play = Play::new(params, 3);
        let mut yields = [0; 3];
        for happening in &trace {
            if let Came::Ended(going, Outcome::Timeout) = play.step(happening)
                && at(play.millis).since(going.since).micros() < 8_000 * latency
            {
                yields[going.caller] = 5_000;
            }
        }
        let node = &play.node;
        let start = play.millis;
        // A probe under way is lost. `probeTimeout`, or twice the healthy latency.
        let lost = node
            .callers
            .iter()
            .map(|caller| caller.endpoint.breaker.view())
            .filter(|view| view.state == State::HalfOpen)
            .map(|view| view.deadline.0.saturating_sub(at(start).stamp().0))
            .max()
            .unwrap_or(0);
        let bound = params.open_max + params.open_max / 2 + params.ramp + lost;
        let mut random = random | 1;
        let mut ends: std::collections::VecDeque<(u64, Going)> = std::collections::VecDeque::new();
        for step in 0..(bound + 9_000) / 10 {
            let now = start + step * 10;
            while ends.front().is_some_and(|end| end.0 <= now) {
                let (when, going) = ends.pop_front().expect("not empty");
                node.end(going, at(when), Outcome::Success);
            }
            for (caller, yields) in yields.into_iter().enumerate() {
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                match node.attempt(caller, at(now), Evidence::None, random) {
                    Ok(going) => ends.push_back((now + latency, going)),
                    Err(denied) => prop_assert!(
                        now <= start + bound + yields,
                        "{denied:?} {} ms after health, bound {bound} ms + {yields}: {:?}",
                        now - start,
                        node.callers[caller].endpoint.breaker.view(),
                    ),
                }
            }
        }
    }

    /// I5: at each admission of a retry, the retries of its window are within
    /// percent x successes of the same window + reserve.
    #[test]
    fn retries_stay_within_the_budget_at_every_admission(
        trace in trace(14),
        percent in 0u32..10_000,
        ceiling in 0u32..60,
        enabled in any::<bool>(),
    ) {
        let params = Params {
            budget_percent: percent,
            reserve_ceiling: ceiling,
            breaker_enabled: u32::from(enabled),
            ..Params::DEFAULT
        };
        let mut play = Play::new(params, 3);
        // A naive model: what was admitted and what succeeded, by epoch.
        let (mut retries, mut successes): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        for happening in &trace {
            let came = play.step(happening);
            let epoch = params.budget_epoch(at(play.millis));
            let within = |epochs: &[u64]| epochs.iter().filter(|&&then| epoch - then < 10).count() as u64;
            match came {
                Came::Decided(_, evidence, Decision::Go) if evidence.refuses() => {
                    retries.push(epoch);
                    let reserve = play.node.destination.budget.reserve(&params);
                    prop_assert!(reserve <= u64::from(ceiling));
                    let allowance = within(&successes) * u64::from(percent) / 10_000 + reserve;
                    prop_assert!(within(&retries) <= allowance, "{} of {allowance}", within(&retries));
                }
                Came::Ended(going, Outcome::Success) => {
                    // What the law was told to earn.
                    let _ = going;
                    successes.push(epoch);
                }
                _ => {}
            }
            prop_assert_eq!(play.node.destination.budget.spent(&params, at(play.millis)), within(&retries));
        }
    }

    /// I6: of all workloads, one probe at a time: until it ends or counts as
    /// lost, at most as long as it may hold the lease.
    #[test]
    fn one_probe_at_a_time_reaches_an_address(trace in trace(20)) {
        let mut play = Play::new(Params::DEFAULT, 3);
        // The probe under way and when its lease is over.
        let mut under_way: Option<(Going, u64)> = None;
        for happening in &trace {
            let came = play.step(happening);
            let now = at(play.millis);
            match came {
                Came::Decided(caller, _, Decision::Probe(ticket)) => {
                    if let Some((other, deadline)) = under_way {
                        prop_assert!(now.stamp().0 >= deadline, "{other:?} is still under way");
                    }
                    let view = play.node.callers[caller].endpoint.breaker.view();
                    let going = going(caller, now, Decision::Probe(ticket)).expect("it goes");
                    let most = now.stamp().0 + governor_core::judge::LONGEST_HOLD.0;
                    under_way = Some((going, view.deadline.0.min(most)));
                }
                Came::Ended(going, _) if under_way.is_some_and(|(probe, _)| probe == going) => {
                    under_way = None;
                }
                _ => {}
            }
        }
    }

    /// I9: audit decides as enforcement would, where what it lets through does
    /// not count.
    #[test]
    fn audit_says_what_enforcement_would_do(trace in trace(14)) {
        let mut enforced = Play::new(Params::DEFAULT, 3);
        let mut audited = Play::new(Params { mode: mode::AUDIT, ..Params::DEFAULT }, 3);
        for happening in &trace {
            enforced.millis += happening.after;
            audited.millis += happening.after;
            let happening = Happening { after: 0, ..happening.clone() };
            match happening.what {
                What::Try(_) => {
                    let Came::Decided(_, _, real) = enforced.step(&happening) else { continue };
                    let Came::Decided(_, _, said) = audited.step(&happening) else { continue };
                    match (real, said) {
                        (Decision::Deny(real), Decision::WouldDeny(said)) => prop_assert_eq!(real, said),
                        (real, said) => prop_assert_eq!(real, said),
                    }
                    // What would have been denied ends at once, either way.
                    if matches!(said, Decision::WouldDeny(_)) {
                        let extra = audited.going.pop().expect("let go");
                        let outcome = if happening.random & 1 == 0 { Outcome::Success } else { Outcome::Timeout };
                        audited.node.end(extra, at(audited.millis), outcome);
                    }
                }
                What::End(..) | What::Lose(_) => {
                    enforced.step(&happening);
                    audited.step(&happening);
                }
            }
        }
    }

    /// I7: parameters and orders of any kind are no reason to panic.
    #[test]
    fn no_parameters_stop_the_law(
        trace in trace(4),
        words in vec(prop_oneof![Just(0u32), Just(1), 0u32..100_000], 24),
        times in vec(prop_oneof![Just(0u64), Just(1), 0u64..100_000_000_000], 9),
    ) {
        let params = Params {
            budget_epoch: times[0],
            breaker_epoch: times[1],
            breaker_interval: times[2],
            silence_for: times[3],
            open_base: times[4] % 3_600_000,
            open_max: times[5] % 3_600_000,
            probe_timeout: times[6] % 3_600_000,
            ramp: times[7] % 3_600_000,
            evidence_window: times[8],
            mode: words[0] % 3,
            budget_enabled: words[1] & 1,
            budget_percent: words[2] % 10_001,
            reserve_ceiling: words[3],
            reserve_floor: words[4],
            reserve_share: words[5] % 10_001,
            breaker_enabled: words[6] & 1,
            silence_failures: words[7],
            consecutive_failures: words[8],
            failure_share: words[9] % 10_001,
            failure_minimum: words[10],
            open_jitter: words[11] % 10_001,
            concurrency: words[12] % 3,
            limit_floor: words[13],
            limit_fixed: words[14],
            latency_tolerance: words[15],
            ..Params::DEFAULT
        };
        let mut play = Play::new(params, 3);
        for happening in &trace {
            play.step(happening);
        }
    }
}

/// The properties above would hold for traces in which nothing happens.
#[test]
fn the_traces_reach_every_verdict_of_the_law() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::<String, u32>::new();
    for _ in 0..200 {
        let trace = trace(14).new_tree(&mut runner).expect("a trace").current();
        let mut play = Play::new(Params::DEFAULT, 3);
        for happening in &trace {
            if let Came::Decided(_, _, decision) = play.step(happening) {
                let name = match decision {
                    Decision::Probe(_) => "Probe".to_owned(),
                    other => format!("{other:?}"),
                };
                *seen.entry(name).or_default() += 1;
            }
        }
    }
    println!("{seen:?}");
    for verdict in [
        "Go",
        "Probe",
        "Deny(Budget)",
        "Deny(Breaker)",
        "Deny(Concurrency)",
    ] {
        assert!(
            seen.get(verdict).is_some_and(|&count| count >= 50),
            "{verdict}: {seen:?}"
        );
    }
}
