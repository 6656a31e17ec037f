//! One law, shown: what is tested on the host is what runs in the kernel. The same traces run through
//! both, with equal results and equal ledgers.

mod kernel;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use governor_core::breaker::Move;
use governor_core::judge::Decision;
use governor_core::params::Params;
use governor_core::trace::{Kind, Step};
use governor_core::verdict::Reason;
use kernel::host::Host;
use kernel::policies::params;
use kernel::trace::{Deed, Story, Trace, traces};
use kernel::{Books, Kernel};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The law in the kernel and on the host, side by side.
struct Pair<'a> {
    kernel: &'a mut Kernel,
    host: Host,
}

/// When ledgers are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    AtTheEnd,
    AfterEachStep,
}

/// How often a trace came by each result.
#[derive(Debug, Default)]
struct Reached(BTreeMap<String, u64>);

impl Reached {
    fn steps(&self) -> u64 {
        self.0
            .iter()
            .filter(|(what, _)| *what != AWAKE)
            .map(|(_, count)| count)
            .sum()
    }

    fn note(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }
}

const AWAKE: &str = "limiter awake";

/// Every result that the law has, and the moves of the breaker that an ending makes.
fn all_there_is() -> Vec<String> {
    let reasons = Reason::ALL.map(|reason| format!("{reason:?}"));
    let kinds = ["Deny", "WouldDeny"];
    let refusals = kinds
        .iter()
        .flat_map(|kind| reasons.each_ref().map(|reason| format!("{kind}({reason})")));
    let others = [
        "Go", "Probe", "Watch", "None", "Tripped", "Reopened", "Closed", "Calm", AWAKE,
    ];
    refusals.chain(others.map(str::to_owned)).collect()
}

fn name_of(step: &Step, result: u64) -> String {
    if matches!(step.kind(), Kind::Attempt | Kind::Request) {
        return match Decision::unpack(result) {
            Decision::Probe(_) => "Probe".to_owned(),
            other => format!("{other:?}"),
        };
    }
    if step.kind() == Kind::Calm {
        return "Calm".to_owned();
    }
    let moves = [Move::None, Move::Tripped, Move::Reopened, Move::Closed];
    let moved = moves.into_iter().find(|moved| *moved as u64 == result);
    moved.map_or_else(|| format!("move {result}"), |moved| format!("{moved:?}"))
}

impl<'a> Pair<'a> {
    /// Both with new ledgers.
    fn new(kernel: &'a mut Kernel, params: Params) -> Self {
        kernel.forget();
        kernel.set_params(&params);
        kernel.set_order(None);
        let host = Host::new(params);
        Self { kernel, host }
    }

    /// Plays a trace to its end; the first difference, or what it reached.
    fn play(&mut self, trace: &Trace, compare: Compare, reached: &mut Reached) -> Vec<String> {
        let mut story = Story::new(trace);
        for happening in &trace.happenings {
            match story.next(happening) {
                None => {}
                Some(Deed::Policy(params)) => {
                    self.kernel.set_params(&params);
                    self.host.params = params;
                }
                Some(Deed::Order(order)) => {
                    self.kernel.set_order(order.as_ref());
                    self.host.order = order;
                }
                Some(Deed::Step(step)) => {
                    let (kernel, host) = (self.kernel.law().run(&step), self.host.run(&step));
                    if kernel != host {
                        let (kernel, host) = (name_of(&step, kernel), name_of(&step, host));
                        return vec![format!("{step:?}: kernel {kernel}, host {host}")];
                    }
                    if matches!(step.kind(), Kind::Attempt | Kind::Request) {
                        story.decided(&step, Decision::unpack(host));
                    }
                    reached.note(name_of(&step, host));
                    if self.host.limiter_is_awake() {
                        reached.note(AWAKE.to_owned());
                    }
                    let differences = match compare {
                        Compare::AtTheEnd => Vec::new(),
                        Compare::AfterEachStep => self.differences(),
                    };
                    if !differences.is_empty() {
                        return differences;
                    }
                }
            }
        }
        self.differences()
    }

    fn differences(&self) -> Vec<String> {
        Books::of_kernel(self.kernel).differences(&self.host.books())
    }
}

/// The same numbers in every run, so that what it reaches is no matter of luck.
fn repeatable(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn fifty_thousand_steps_in_the_kernel_and_on_the_host_end_alike() {
    let kernel = RefCell::new(Kernel::law_alone(&Params::DEFAULT));
    let reached = RefCell::new(Reached::default());
    let began = Instant::now();
    let result = repeatable(170).run(&traces(16, 90), |trace| {
        let kernel = &mut *kernel.borrow_mut();
        let mut pair = Pair::new(kernel, trace.params);
        let found = pair.play(&trace, Compare::AtTheEnd, &mut reached.borrow_mut());
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    let reached = reached.into_inner();
    println!(
        "{} steps in {:?}: {:#?}",
        reached.steps(),
        began.elapsed(),
        reached.0
    );
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(reached.steps() >= 50_000, "only {}", reached.steps());
    for what in all_there_is() {
        assert!(reached.0.contains_key(&what), "{what} was never reached");
    }
}

/// New traces in every run; a difference is found where it arises.
#[test]
fn ledgers_are_equal_after_each_step() {
    let kernel = RefCell::new(Kernel::law_alone(&Params::DEFAULT));
    let config = Config {
        cases: 60,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&traces(4, 40), |trace| {
        let kernel = &mut *kernel.borrow_mut();
        let mut pair = Pair::new(kernel, trace.params);
        let found = pair.play(&trace, Compare::AfterEachStep, &mut Reached::default());
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// A change to a policy.
type Change = fn(&mut Params);

/// The tests above can fail: a host with one parameter changed a little is told apart.
#[test]
fn a_law_that_differs_in_one_parameter_is_noticed() {
    let mut kernel = Kernel::law_alone(&Params::DEFAULT);
    let changes: [(&str, Change); 10] = [
        ("consecutive_failures", |p| p.consecutive_failures += 1),
        ("open_base", |p| p.open_base += 1),
        ("budget_percent", |p| p.budget_percent += 1_000),
        ("reserve_floor", |p| p.reserve_floor += 10),
        ("limit_floor", |p| p.limit_floor += 1),
        ("ramp", |p| p.ramp *= 2),
        ("attempts", |p| p.attempts += 1),
        ("deadline", |p| p.deadline /= 1_000),
        ("pushback_max", |p| p.pushback_max /= 10),
        ("refuse_non_idempotent", |p| p.refuse_non_idempotent = 0),
    ];
    for (name, change) in changes {
        let mut runner = repeatable(1);
        let noticed = (0..400).any(|_| {
            let mut trace = traces(8, 60).new_tree(&mut runner).unwrap().current();
            trace.params = Params::DEFAULT;
            let mut pair = Pair::new(&mut kernel, trace.params);
            change(&mut pair.host.params);
            !pair
                .play(&trace, Compare::AtTheEnd, &mut Reached::default())
                .is_empty()
        });
        assert!(noticed, "{name}: kernel and host are called equal");
    }
}

#[test]
fn a_single_changed_word_of_a_ledger_is_noticed() {
    let host = Host::new(Params::DEFAULT).books();
    for ledger in 0..host.0.len() {
        for word in 0..host.0[ledger].1.len() {
            let mut other = host.clone();
            other.0[ledger].1[word] ^= 1;
            assert_eq!(other.differences(&host).len(), 1, "{ledger} {word}");
        }
    }
}

/// What a policy may not say is never tried, so this is about the traces themselves.
#[test]
fn traces_try_every_mode_and_every_way_to_limit() {
    let mut runner = repeatable(1);
    let tried: Vec<Params> = (0..300)
        .map(|_| params().new_tree(&mut runner).unwrap().current())
        .collect();
    for number in 0..3 {
        assert!(tried.iter().any(|p| p.mode == number));
        assert!(tried.iter().any(|p| p.concurrency == number));
    }
}
