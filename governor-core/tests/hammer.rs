//! The law from many threads at once, over the host's atomics.
//!
//! The clock moves when every thread has passed: a CPU is not interrupted for
//! whole epochs.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use common::{Going, Node, THREADS, at, rounds};
use governor_core::breaker::State;
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::ledger::count;
use governor_core::params::{Params, concurrency};
use governor_core::units::Nanos;
use governor_core::verdict::Outcome;

fn open(node: &Node) {
    for caller in 0..node.callers.len() {
        for _ in 0..7 {
            let going = node.first(caller, at(0)).expect("closed");
            node.end(going, at(0), Outcome::Refused);
        }
    }
}

#[test]
fn of_all_threads_of_one_workload_exactly_one_probes() {
    let node = Node::new(Params::DEFAULT, 1);
    open(&node);
    let probes: Vec<AtomicU64> = (0..2_000).map(|_| AtomicU64::new(0)).collect();
    rounds(probes.len() as u64, |_, round| {
        // The longest open time, jitter included, is always over.
        let now = at(10_000 * (round + 1));
        for _ in 0..20 {
            match node.attempt(0, now, Evidence::None, 77) {
                Ok(going) => {
                    assert!(
                        going.probe.is_some(),
                        "an open breaker lets only probes pass"
                    );
                    probes[round as usize].fetch_add(1, SeqCst);
                    node.end(going, now, Outcome::Refused);
                }
                Err(_) => continue,
            }
        }
    });
    assert!(probes.iter().all(|count| count.load(SeqCst) == 1));
    assert_eq!(
        node.callers[0].workload.read(count::PROBE_SENT),
        probes.len() as u64
    );
    assert_eq!(
        node.callers[0].workload.read(count::PROBE_FAILURE),
        probes.len() as u64
    );
}

#[test]
fn of_all_workloads_one_probes_at_a_time() {
    let node = Node::new(Params::DEFAULT, THREADS);
    open(&node);
    let under_way = AtomicU64::new(0);
    let sent: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let probes: Vec<Mutex<Option<Going>>> = (0..THREADS).map(|_| Mutex::new(None)).collect();
    rounds(3_000, |thread, round| {
        let now = at(10_000 + round * 100);
        let mut probe = probes[thread].lock().expect("not poisoned");
        // Each probe takes three rounds.
        if let Some(going) =
            probe.take_if(|going| now.since(going.since) >= Nanos::from_millis(300))
        {
            under_way.fetch_sub(1, SeqCst);
            node.end(going, now, Outcome::Refused);
        }
        for _ in 0..10 {
            if let Ok(going) = node.attempt(thread, now, Evidence::None, 77) {
                assert!(going.probe.is_some());
                assert_eq!(under_way.fetch_add(1, SeqCst), 0, "another is under way");
                sent[thread].fetch_add(1, SeqCst);
                *probe = Some(going);
            }
        }
    });
    let sent: Vec<u64> = sent.iter().map(|count| count.load(SeqCst)).collect();
    // 300 s, and one probe per 5 s for each, more or less.
    assert!(
        sent.iter().all(|&count| (30..90).contains(&count)),
        "{sent:?}"
    );
}

#[test]
fn lost_probes_let_exactly_one_follow_at_each_deadline() {
    let node = Node::new(Params::DEFAULT, 2);
    open(&node);
    let probes = AtomicU64::new(0);
    // No probe ever reports: each counts as lost after 5 s.
    rounds(1_000, |thread, round| {
        for _ in 0..10 {
            if node
                .attempt(thread % 2, at(10_000 + round * 50), Evidence::None, 77)
                .is_ok()
            {
                probes.fetch_add(1, SeqCst);
            }
        }
    });
    let sent = probes.load(SeqCst);
    assert!((9..=11).contains(&sent), "{sent} probes in 50 s");
}

#[test]
fn the_budget_is_never_exceeded_at_any_admission() {
    const EPOCHS: u64 = 400;
    let params = Params {
        breaker_enabled: 0,
        concurrency: concurrency::DISABLED,
        reserve_floor: 40,
        reserve_ceiling: 40,
        ..Params::DEFAULT
    };
    let node = Node::new(params, THREADS);
    let admitted: Vec<AtomicU64> = (0..EPOCHS).map(|_| AtomicU64::new(0)).collect();
    let earned: Vec<AtomicU64> = (0..EPOCHS).map(|_| AtomicU64::new(0)).collect();
    rounds(EPOCHS, |thread, epoch| {
        let now = at(epoch * 1_000);
        // Some epochs idle: the window is then opened anew.
        if epoch % 60 > 40 {
            return;
        }
        for i in 0..60u64 {
            if i % 3 == 0 {
                // Noted before the law is told, so that the model never has less.
                earned[epoch as usize].fetch_add(1, SeqCst);
                let going = node.first(thread, now).expect("a first try");
                node.end(going, now, Outcome::Success);
            }
            if node.retry(thread, now).is_ok() {
                admitted[epoch as usize].fetch_add(1, SeqCst);
            }
        }
    });
    let sums = |counts: &[AtomicU64]| -> Vec<u64> {
        let counts: Vec<u64> = counts.iter().map(|count| count.load(SeqCst)).collect();
        (0..counts.len())
            .map(|end| counts[end.saturating_sub(9)..=end].iter().sum())
            .collect()
    };
    let (retries, successes) = (sums(&admitted), sums(&earned));
    assert!(retries.iter().max() > Some(&60));
    for epoch in 0..EPOCHS as usize {
        // Where nothing is admitted, what was earned may expire first.
        let allowance = successes[epoch] / 10 + 40;
        let retries = retries[epoch];
        assert!(
            admitted[epoch].load(SeqCst) == 0 || retries <= allowance,
            "epoch {epoch}: {retries} of {allowance}"
        );
    }
}

#[test]
fn a_fixed_limit_is_never_exceeded() {
    const LIMIT: u64 = 7;
    let params = Params {
        concurrency: concurrency::FIXED,
        limit_fixed: LIMIT as u32,
        ..Params::DEFAULT
    };
    let node = Node::new(params, 1);
    let (in_flight, most) = (AtomicU64::new(0), AtomicU64::new(0));
    rounds(200, |thread, round| {
        let now = at(round * 50);
        let mut going = Vec::new();
        for i in 0..200 {
            if let Ok(one) = node.first(0, now) {
                most.fetch_max(in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
                going.push(one);
            }
            if (i + thread) % 3 == 0
                && let Some(one) = going.pop()
            {
                in_flight.fetch_sub(1, SeqCst);
                node.end(one, now, Outcome::Success);
            }
        }
        for one in going {
            in_flight.fetch_sub(1, SeqCst);
            node.end(one, now, Outcome::Success);
        }
    });
    assert_eq!(most.load(SeqCst), LIMIT);
}

#[test]
fn at_rest_everything_is_accounted_for() {
    const ROUNDS: u64 = 100;
    const EACH: u64 = 200;
    let node = Node::new(Params::DEFAULT, 1);
    rounds(ROUNDS, |thread, round| {
        let now = at(round * 10);
        for i in 0..EACH {
            let going = node.first(0, now).expect("healthy");
            let outcome = if (i + thread as u64).is_multiple_of(10) {
                Outcome::Cancelled
            } else {
                Outcome::Success
            };
            node.end(going, now, outcome);
        }
    });
    let caller = &node.callers[0];
    let attempts = ROUNDS * EACH * THREADS as u64;
    let successes = attempts * 9 / 10;
    assert_eq!(caller.workload.read(count::FIRST), attempts);
    assert_eq!(caller.workload.read(count::EXCHANGE), successes);
    // A change that loses every race is dropped: few, and gone with the window.
    let in_flight = caller.workload.limiter.in_flight(at(ROUNDS * 10));
    assert!(in_flight < attempts / 1_000, "{in_flight} of {attempts}");
    assert_eq!(
        caller.workload.limiter.in_flight(at(ROUNDS * 10 + 2_000)),
        0
    );
    assert_eq!(caller.endpoint.breaker.view().state, State::Closed);
    let earned = node
        .destination
        .budget
        .allowance(&node.params, at(ROUNDS * 10))
        - node.destination.budget.reserve(&node.params);
    let short = successes / 10 - earned;
    assert!(
        short <= successes / 1_000,
        "{short} of {successes} never earned"
    );
}

#[test]
fn a_decision_survives_the_way_through_a_word() {
    let node = Node::new(Params::DEFAULT, 1);
    open(&node);
    for now in [at(1), at(10_000), at(10_001)] {
        let decision = node.decide(0, now, Evidence::None, 3);
        assert_eq!(Decision::unpack(decision.pack()), decision);
        assert_ne!(decision, Decision::Go);
    }
    assert_eq!(Nanos(1_500).micros(), 1);
}
