//! Calm: what is settled together is what is settled one by one, and nothing is decided otherwise for it.

mod common;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use bytemuck::Zeroable;
use common::{Node, START};
use governor_core::breaker::Level;
use governor_core::calm::{Calm, LONGEST, MOST, Trouble, begins_like, may_begin, word_of};
use governor_core::evidence::Evidence;
use governor_core::judge::{Attempt, Decision, Orders, attempt};
use governor_core::key::{Config, DestinationKey, WorkloadKey};
use governor_core::ledger::count;
use governor_core::params::{Params, concurrency};
use governor_core::rules::Repeat;
use governor_core::settle::{Audited, Ending, settle, settle_calm};
use governor_core::units::Nanos;
use governor_core::verdict::{Outcome, Ticket};
use proptest::prelude::*;

const MICRO: u64 = 1_000;
const CALM: Config = Config {
    generation: 1,
    orders: 0,
    level: 0,
    reserved: 0,
    adopt_until: 0,
    booted: 0,
};

/// Whether connections may be calm, or each exchange is judged and settled by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Together,
    OneByOne,
}

/// What an exchange on a connection does.
#[derive(Clone, Debug)]
struct Step {
    connection: usize,
    /// After the end of the last one anywhere, us.
    pause: u64,
    /// Until its end, us.
    took: u64,
    outcome: Outcome,
}

/// A connection as the kernel programs keep it.
struct Connection {
    calm: Calm,
    on: bool,
    steady: bool,
    entered: Nanos,
    /// What it says next is a retry.
    failed: bool,
}

/// One workload on one endpoint.
struct World {
    node: Node,
    trouble: Trouble<AtomicU64>,
    config: Config,
    connections: Vec<Connection>,
    now: Nanos,
    way: Way,
    denied: Vec<usize>,
    /// Exchanges that were neither judged nor settled by themselves.
    calm: u64,
}

impl World {
    fn new(params: Params, connections: usize, way: Way) -> Self {
        let connection = |_| Connection {
            calm: Calm::zeroed(),
            on: false,
            steady: false,
            entered: Nanos(0),
            failed: false,
        };
        Self {
            node: Node::new(params, 1),
            trouble: Trouble::default(),
            config: CALM,
            connections: (0..connections).map(connection).collect(),
            now: START,
            way,
            denied: Vec::new(),
            calm: 0,
        }
    }

    fn seal(&self) -> u64 {
        self.trouble.seal(&self.config)
    }

    fn leave(&mut self, which: usize, outstanding: u32) {
        let connection = &mut self.connections[which];
        let batch = connection.calm.batch(outstanding, 1);
        let ledgers = self.node.ledgers(0);
        settle_calm(
            &self.node.params,
            &batch,
            self.now,
            connection.entered,
            &ledgers,
        );
        connection.entered = Nanos(0);
        connection.on = false;
        let until = connection.calm;
        connection.calm = Calm::zeroed();
        // Of a connection on which nothing is outstanding it is still known how long it rests.
        if outstanding == 0 {
            connection.calm = until;
        }
    }

    fn exchange(&mut self, number: usize, step: &Step) {
        self.now = Nanos(self.now.0 + step.pause * MICRO);
        let seal = self.seal();
        let connection = &mut self.connections[step.connection];
        let steady = connection.calm.is_steady(self.now);
        let evidence = if connection.failed {
            Evidence::Exact
        } else {
            Evidence::None
        };
        let asked = self.now;
        let mut probe = None;
        let goes_on = connection.on && connection.calm.goes_on(self.now, seal);
        if !goes_on {
            if connection.on {
                self.leave(step.connection, 0);
            }
            let decision = self.judge(evidence, number as u32);
            let connection = &mut self.connections[step.connection];
            connection.steady = steady && evidence == Evidence::None;
            match decision {
                Decision::Go => {}
                Decision::Probe(ticket) => probe = Some(ticket),
                _ => {
                    self.trouble.stir(self.now);
                    self.denied.push(number);
                    return;
                }
            }
            connection.entered = self.now;
        }
        self.now = Nanos(self.now.0 + step.took * MICRO);
        let took = Nanos(self.now.0 - asked.0);
        let seal = self.seal();
        let connection = &mut self.connections[step.connection];
        if connection.on {
            let noted = step.outcome == Outcome::Success
                && connection.calm.holds(seal)
                && connection.calm.note(self.now, took);
            if noted {
                self.calm += 1;
                return;
            }
            self.leave(step.connection, 1);
        }
        self.settle(step, took, probe);
    }

    fn judge(&self, evidence: Evidence, random: u32) -> Decision {
        let p = &self.node.params;
        let a = Attempt::request(p, self.now, 1, evidence, &Repeat::NONE, random);
        let decision = attempt(p, &a, &self.node.ledgers(0), &Orders::default());
        if matches!(decision, Decision::Probe(_)) {
            self.trouble.stir(self.now);
        }
        decision
    }

    fn settle(&mut self, step: &Step, took: Nanos, probe: Option<Ticket>) {
        let connection = &mut self.connections[step.connection];
        let p = &self.node.params;
        let ending = Ending {
            now: self.now,
            entered: connection.entered,
            latency: took.micros(),
            level: Level::Exchange,
            outcome: step.outcome,
            status: if step.outcome == Outcome::Status {
                500
            } else {
                200
            },
            retry_after: 0,
            probe: probe.into(),
            audited: Audited::Admitted,
            random: 1,
        };
        let ledgers = self.node.ledgers(0);
        settle(p, &ending, &ledgers);
        let failed = !matches!(step.outcome, Outcome::Success | Outcome::Cancelled);
        if failed {
            self.trouble.stir(self.now);
        }
        connection.failed = failed;
        connection.entered = Nanos(0);
        let begins = self.way == Way::Together
            && connection.steady
            && step.outcome == Outcome::Success
            && probe.is_none()
            && self.trouble.is_quiet(self.now)
            && may_begin(p, self.now, took.micros(), &ledgers);
        connection.calm.rest(self.now, took);
        if begins {
            ledgers.workload.limiter.enter_unasked(self.now);
            connection.entered = self.now;
            connection.on = true;
            let seal = self.trouble.seal(&self.config);
            connection.calm.begin(self.now, took, 0, seal, 200);
        }
    }

    fn play(mut self, steps: &[Step]) -> Self {
        self.begin(steps);
        self.end()
    }

    fn begin(&mut self, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            self.exchange(number, step);
        }
    }

    /// Connections end.
    fn end(mut self) -> Self {
        for which in 0..self.connections.len() {
            if self.connections[which].on {
                self.leave(which, 0);
            }
        }
        self
    }

    /// As the breaker knows it, ms.
    fn last_success(&self) -> u64 {
        self.node.callers[0].endpoint.breaker.last_success().0
    }

    /// All that is reported, and what budget and limiter go by.
    fn books(&self) -> Vec<(String, u64)> {
        let caller = &self.node.callers[0];
        let workload = &caller.workload;
        let mut all: Vec<(String, u64)> = (0..count::ALL)
            .map(|which| (format!("count {which}"), workload.read(which)))
            .collect();
        let destination = &self.node.destination;
        let sum = destination.latency_sum.load(SeqCst);
        all.push(("sum of latencies".to_owned(), sum));
        for (bucket, cell) in destination.latency.iter().enumerate() {
            all.push((format!("bucket {bucket}"), cell.load(SeqCst)));
        }
        let p = &self.node.params;
        let earned = destination.budget.allowance(p, self.now) - destination.budget.reserve(p);
        all.push(("retries earned".to_owned(), earned));
        let in_flight = workload.limiter.in_flight(self.now);
        all.push(("in flight".to_owned(), in_flight));
        all.push(("last success".to_owned(), self.last_success()));
        all
    }
}

/// What the books of two worlds have that differs.
fn differences(one: &World, other: &World) -> String {
    let pairs = one.books().into_iter().zip(other.books());
    pairs
        .filter(|(one, other)| one != other)
        .map(|((what, one), (_, other))| format!("{what}: {one}, {other}; "))
        .collect()
}

/// A healthy life: pauses of all lengths, latencies over a wide range.
fn healthy() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![20 => 0u64..150, 2 => 150u64..3_000, 1 => 3_000u64..200_000];
    let took = prop_oneof![20 => 100u64..180, 4 => 20u64..2_000, 1 => 2_000u64..100_000];
    let step = (0usize..3, pause, took).prop_map(|(connection, pause, took)| Step {
        connection,
        pause,
        took,
        outcome: Outcome::Success,
    });
    // Less than a window of the budget: at its edge what is told late lies elsewhere.
    proptest::collection::vec(step, 1..400)
}

/// The same, in which some fail.
fn failing() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        60 => Just(Outcome::Success),
        1 => Just(Outcome::Status),
        1 => Just(Outcome::Timeout),
        1 => Just(Outcome::NoAnswer),
        1 => Just(Outcome::Cancelled),
    ];
    (healthy(), proptest::collection::vec(outcome, 400)).prop_map(|(steps, outcomes)| {
        let mut life = Vec::new();
        for (mut step, outcome) in steps.into_iter().zip(outcomes) {
            step.outcome = outcome;
            let failed = outcome != Outcome::Success;
            let connection = step.connection;
            life.push(step);
            // Who is in constant use says something before the retry comes.
            for other in (0..3).filter(|other| failed && *other != connection) {
                life.push(Step {
                    connection: other,
                    ..alike(1).remove(0)
                });
            }
        }
        life
    })
}

/// Healthy, on slow services too: each exchange takes about as long as the one before.
fn slow() -> impl Strategy<Value = Vec<Step>> {
    let took = prop_oneof![100u64..1_000, 1_000u64..200_000, 200_000u64..5_000_000];
    (took, healthy()).prop_map(|(took, mut steps)| {
        for step in &mut steps {
            step.took = took + step.took / 10;
            step.pause = step.pause.min(took);
        }
        steps
    })
}

/// Nobody answers any more: tries of others, 50 ms apart.
fn silence() -> Vec<Step> {
    let step = Step {
        connection: 3,
        pause: 50_000,
        took: 10,
        outcome: Outcome::NoAnswer,
    };
    vec![step; 120]
}

/// What the breaker may be told late of a success, ms.
const LATE: u64 = 2 * LONGEST.0 / 1_000_000;

proptest! {
    #[test]
    fn silence_opens_the_breaker_as_soon_as_one_by_one_and_hardly_sooner(steps in slow()) {
        let mut worlds = [Way::Together, Way::OneByOne].map(|way| {
            let params = Params {
                concurrency: concurrency::DISABLED,
                budget_enabled: 0,
                ..Params::DEFAULT
            };
            let mut world = World::new(params, 4, way);
            world.begin(&steps);
            world
        });
        let [together, one_by_one] = worlds.each_ref().map(World::last_success);
        prop_assert!(together <= one_by_one, "{together} after {one_by_one}");
        prop_assert!(together + LATE + 1 >= one_by_one, "{together} {one_by_one}");
        let [together, one_by_one] = worlds.each_mut().map(|world| {
            world.denied.clear();
            world.begin(&silence());
            world.denied.first().copied().expect("the breaker opened")
        });
        let sooner = one_by_one as i64 - together as i64;
        // By number of tries, of 50 ms each.
        prop_assert!((0..=LATE as i64 / 50 + 1).contains(&sooner), "{together} {one_by_one}");
        let [together, one_by_one] = worlds.map(World::end);
        prop_assert!(together.last_success() <= one_by_one.last_success());
    }

    #[test]
    fn a_healthy_life_leaves_the_same_books_together_as_one_by_one(steps in healthy()) {
        let together = World::new(Params::DEFAULT, 3, Way::Together).play(&steps);
        let one_by_one = World::new(Params::DEFAULT, 3, Way::OneByOne).play(&steps);
        prop_assert_eq!(&together.denied, &Vec::new());
        prop_assert_eq!(differences(&together, &one_by_one), "");
        let reserve = |world: &World| world.node.destination.budget.reserve(&world.node.params);
        prop_assert_eq!(reserve(&together), reserve(&one_by_one));
    }

    #[test]
    fn what_is_refused_among_failures_is_refused_together_and_one_by_one(steps in failing()) {
        let together = World::new(Params::DEFAULT, 3, Way::Together).play(&steps);
        let one_by_one = World::new(Params::DEFAULT, 3, Way::OneByOne).play(&steps);
        prop_assert_eq!(&together.denied, &one_by_one.denied);
        prop_assert_eq!(differences(&together, &one_by_one), "");
        // The healthy rate is of what was told before the failure.
        let reserve = |world: &World| world.node.destination.budget.reserve(&world.node.params);
        let (less, most) = (reserve(&together), reserve(&one_by_one));
        prop_assert!(less <= most && less + 3 * u64::from(MOST) / 10 >= most, "{less} {most}");
    }
}

fn alike(count: usize) -> Vec<Step> {
    let step = Step {
        connection: 0,
        pause: 20,
        took: 150,
        outcome: Outcome::Success,
    };
    vec![step; count]
}

#[test]
fn of_four_thousand_exchanges_without_a_pause_one_in_two_hundred_is_judged() {
    let world = World::new(Params::DEFAULT, 1, Way::Together).play(&alike(4_000));
    let judged = 4_000 - world.calm;
    assert!((15..=19).contains(&judged), "{judged} were judged");
}

#[test]
fn a_connection_that_rests_longer_than_its_answers_take_is_never_calm() {
    let mut steps = alike(200);
    for step in &mut steps {
        (step.pause, step.took) = (2_000, 400);
    }
    let world = World::new(Params::DEFAULT, 1, Way::Together).play(&steps);
    assert_eq!(world.calm, 0);
}

#[test]
fn a_failure_ends_the_calm_of_every_connection_and_it_does_not_return_at_once() {
    let mut world = World::new(Params::DEFAULT, 2, Way::Together).play(&[]);
    for (number, step) in alike(20).iter().enumerate() {
        world.exchange(number, step);
    }
    assert!(world.connections[0].on);
    let failure = Step {
        connection: 1,
        outcome: Outcome::Status,
        ..alike(1).remove(0)
    };
    world.exchange(20, &failure);
    let calm = world.calm;
    for (number, step) in alike(2_000).iter().enumerate() {
        world.exchange(21 + number, step);
    }
    assert_eq!(world.calm, calm, "2,000 exchanges within 0.4 s");
    world.now = Nanos(world.now.0 + 2_000_000 * MICRO);
    for (number, step) in alike(40).iter().enumerate() {
        world.exchange(3_000 + number, step);
    }
    assert!(world.calm > calm, "two seconds later it is calm again");
}

#[test]
fn a_failure_while_an_exchange_is_on_its_way_makes_that_one_an_ordinary_one() {
    let mut calm = Calm::zeroed();
    let trouble = Trouble::<AtomicU64>::default();
    calm.begin(START, Nanos(100 * MICRO), 0, trouble.seal(&CALM), 200);
    assert!(calm.goes_on(Nanos(START.0 + MICRO), trouble.seal(&CALM)));
    trouble.stir(Nanos(START.0 + 2 * MICRO));
    assert!(!calm.holds(trouble.seal(&CALM)));
}

#[test]
fn an_order_and_a_new_policy_end_it() {
    let mut calm = Calm::zeroed();
    let trouble = Trouble::<AtomicU64>::default();
    calm.begin(START, Nanos(100 * MICRO), 0, trouble.seal(&CALM), 200);
    let ordered = Config { orders: 1, ..CALM };
    let reloaded = Config {
        generation: 2,
        ..CALM
    };
    assert!(calm.holds(trouble.seal(&CALM)));
    assert!(!calm.holds(trouble.seal(&ordered)));
    assert!(!calm.holds(trouble.seal(&reloaded)));
    // And none begins under an order.
    calm.begin(START, Nanos(100 * MICRO), 0, trouble.seal(&ordered), 200);
    assert!(!calm.holds(trouble.seal(&ordered)));
}

#[test]
fn a_stretch_is_over_after_a_tenth_of_a_second_or_as_many_exchanges_as_a_lane_holds() {
    let seal = Trouble::<AtomicU64>::default().seal(&CALM);
    let mut calm = Calm::zeroed();
    let long = Nanos(40_000 * MICRO);
    calm.begin(START, long, 0, seal, 200);
    assert!(calm.goes_on(Nanos(START.0 + LONGEST.0 - 1), seal));
    assert!(!calm.goes_on(Nanos(START.0 + LONGEST.0), seal));
    let mut now = START;
    calm.begin(now, Nanos(100 * MICRO), 0, seal, 200);
    for _ in 0..MOST {
        assert!(calm.goes_on(now, seal));
        now = Nanos(now.0 + 100 * MICRO);
        assert!(calm.note(now, Nanos(100 * MICRO)));
    }
    assert!(!calm.goes_on(now, seal));
}

#[test]
fn what_takes_longer_than_a_stretch_is_never_calm() {
    let mut steps = alike(100);
    for step in &mut steps {
        step.took = LONGEST.micros() + 1;
    }
    let world = World::new(Params::DEFAULT, 1, Way::Together).play(&steps);
    assert_eq!(world.calm, 0);
}

#[test]
fn with_a_limit_or_a_ramp_each_is_judged() {
    let fixed = Params {
        concurrency: concurrency::FIXED,
        limit_fixed: 100,
        ..Params::DEFAULT
    };
    let world = World::new(fixed, 1, Way::Together).play(&alike(200));
    assert_eq!(world.calm, 0);
}

/// Exchanges that are told so long after they were, s: by what more retries may go.
fn earned_after(seconds: u64) -> u64 {
    let mut world = World::new(Params::DEFAULT, 1, Way::Together);
    world.begin(&alike(60));
    let budget = |world: &World| {
        let budget = &world.node.destination.budget;
        budget.allowance(&Params::DEFAULT, world.now) - budget.reserve(&Params::DEFAULT)
    };
    let before = world.last_success();
    world.now = Nanos(world.now.0 + seconds * 1_000_000 * MICRO);
    world.leave(0, 0);
    assert_eq!(
        world.node.callers[0].workload.read(count::REQUEST_FIRST),
        60
    );
    let told = world.last_success() - before;
    assert!(
        told <= LATE,
        "a success is known for what it was, and no later"
    );
    budget(&world)
}

#[test]
fn exchanges_that_are_told_late_earn_as_long_as_if_they_had_been_told_at_once() {
    let percent = u64::from(Params::DEFAULT.budget_percent) / 100;
    assert_eq!(earned_after(0), 60 * percent / 100);
    assert_eq!(earned_after(5), 60 * percent / 100);
    assert_eq!(earned_after(60), 0);
}

#[test]
fn an_answer_is_like_the_one_before_it_where_it_has_the_same_status() {
    let seal = Trouble::<AtomicU64>::default().seal(&CALM);
    let mut calm = Calm::zeroed();
    calm.begin(START, Nanos(MICRO), 0, seal, 204);
    let like = |head: &[u8; 12]| {
        let mut words = [0u64; 2];
        bytemuck::bytes_of_mut(&mut words)[..12].copy_from_slice(head);
        begins_like(words, calm.answer())
    };
    assert!(like(b"HTTP/1.1 204"));
    assert!(like(b"HTTP/1.0 204"));
    for other in [
        b"HTTP/1.1 200",
        b"HTTP/1.1 503",
        b"HTTP/2.1 204",
        b"HTTP/1.12204",
    ] {
        assert!(!like(other), "{}", std::str::from_utf8(other).unwrap());
    }
    calm.begin(START, Nanos(MICRO), 0, seal, 0);
    assert_eq!(calm.answer(), 0, "of what is not read nothing is known");
}

#[test]
fn workloads_and_destinations_have_words_of_their_own() {
    let mut words = std::collections::BTreeSet::new();
    for workload in 1..=20 {
        for port in 1..=20 {
            words.insert(word_of(&WorkloadKey {
                workload,
                destination: DestinationKey {
                    address: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
                    port,
                    group: 0,
                },
            }));
        }
    }
    assert!(words.len() > 350, "{} of 400", words.len());
}
