//! Random histories of one ip:port: attempts and their endings in all weathers, policies and orders
//! that change meanwhile, clocks that stand, leap and fall back.

use governor_core::breaker::Level;
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::order::{Order, STAGES, Told, hold};
use governor_core::params::Params;
use governor_core::trace::{Step, what};
use governor_core::verdict::Outcome;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::WORKLOADS;
use super::policies::params;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// A history.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When it begins, ns.
    pub start: u64,
    /// The policy at the beginning.
    pub params: Params,
    /// What happens.
    pub happenings: Vec<Happening>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub struct Happening {
    clock: Clock,
    workload: u64,
    random: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    On(u64),
    /// The step runs on a CPU whose clock is behind.
    Back(u64),
}

#[derive(Clone, Debug)]
enum What {
    Try(Tried),
    /// One of the outstanding attempts ends.
    End {
        which: Index,
        outcome: Outcome,
        status: u16,
        retry_after: u32,
        level: Level,
        /// Where it is not the time since the attempt, us.
        latency: Option<u64>,
    },
    /// An ending that no attempt explains.
    Stray(Step),
    Policy(Params),
    Order(Option<Order>),
}

/// An attempt, and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Tried {
    what: u32,
    evidence: Evidence,
    age: u64,
    number: u32,
    about: u16,
    paid: u16,
    why: u16,
}

/// What the players have to do.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Both run this step.
    Step(Step),
    /// Both get this policy.
    Policy(Params),
    /// Both get this order.
    Order(Option<Order>),
}

/// An attempt that is on its way.
#[derive(Clone, Copy, Debug)]
struct Going {
    workload: u64,
    since: u64,
    decision: Decision,
}

/// Turns what happens into deeds: it remembers what is on its way.
#[derive(Debug)]
pub struct Story {
    now: u64,
    going: Vec<Going>,
}

impl Story {
    /// At the beginning.
    pub fn new(trace: &Trace) -> Self {
        Self {
            now: trace.start,
            going: Vec::new(),
        }
    }

    /// The deed, if something is to be done.
    pub fn next(&mut self, happening: &Happening) -> Option<Deed> {
        let now = match happening.clock {
            Clock::On(by) => {
                self.now += by;
                self.now
            }
            Clock::Back(by) => self.now.saturating_sub(by),
        };
        let blank = Step {
            now,
            workload: happening.workload,
            random: happening.random,
            ..bytemuck::Zeroable::zeroed()
        };
        let step = match &happening.what {
            What::Policy(params) => return Some(Deed::Policy(*params)),
            What::Order(order) => return Some(Deed::Order(order.map(|it| begin(it, now)))),
            What::Try(tried) => Step {
                what: tried.what,
                evidence: tried.evidence as u32,
                age: tried.age,
                number: tried.number,
                about: tried.about,
                paid: tried.paid,
                why: tried.why,
                ..blank
            },
            What::Stray(stray) => Step {
                entered: now.saturating_sub(stray.entered),
                now,
                workload: happening.workload,
                random: happening.random,
                ..*stray
            },
            What::End {
                which,
                outcome,
                status,
                retry_after,
                level,
                latency,
            } => {
                if self.going.is_empty() {
                    return None;
                }
                let going = self.going.swap_remove(which.index(self.going.len()));
                let step = ending(&going, blank, *latency);
                Step {
                    what: 1 + *level as u32,
                    outcome: *outcome as u32,
                    status: *status,
                    retry_after: *retry_after,
                    ..step
                }
            }
        };
        Some(Deed::Step(step))
    }

    /// What came of an attempt.
    pub fn decided(&mut self, step: &Step, decision: Decision) {
        if !matches!(decision, Decision::Deny(_)) {
            self.going.push(Going {
                workload: step.workload,
                since: step.now,
                decision,
            });
        }
    }
}

fn ending(going: &Going, blank: Step, latency: Option<u64>) -> Step {
    let apart = match going.decision {
        Decision::WouldDeny(_) => 1,
        Decision::Watch => 2,
        _ => 0,
    };
    let step = Step {
        workload: going.workload,
        entered: if apart == 0 { going.since } else { 0 },
        latency: latency.unwrap_or(blank.now.saturating_sub(going.since) / MICRO),
        audited: apart,
        ..blank
    };
    match going.decision {
        Decision::Probe(ticket) => Step {
            probe: 1,
            probe_breaker: ticket.breaker,
            probe_lease: ticket.lease,
            ..step
        },
        _ => step,
    }
}

/// Times in an order count from when it is given.
fn begin(order: Order, now: u64) -> Order {
    let at = |after: u64| if after == 0 { 0 } else { now + after };
    Order {
        shed_until: at(order.shed_until),
        off_from: at(order.off_from),
        off_until: at(order.off_until),
        hold_until: at(order.hold_until),
        ..order
    }
}

/// What callers meet for a while.
#[derive(Clone, Copy, Debug)]
enum Weather {
    Calm,
    Refusing,
    Hanging,
    Slow,
    Full,
    Mixed,
}

impl Weather {
    const ALL: [Self; 6] = [
        Self::Calm,
        Self::Refusing,
        Self::Hanging,
        Self::Slow,
        Self::Full,
        Self::Mixed,
    ];
}

/// Latencies at the edges of what is told apart, us.
const EDGES: [u64; 7] = [0, 1, 31, 32, 33 * MILLI, u32::MAX as u64, u64::MAX];

fn outcome(weather: Weather) -> BoxedStrategy<Outcome> {
    let any = select(Outcome::ALL.as_slice());
    let usual = match weather {
        Weather::Calm | Weather::Slow => Outcome::Success,
        Weather::Refusing => Outcome::Refused,
        Weather::Full => Outcome::Status,
        Weather::Hanging => Outcome::Timeout,
        Weather::Mixed => return any.boxed(),
    };
    prop_oneof![19 => Just(usual), 1 => any].boxed()
}

fn latency(weather: Weather) -> BoxedStrategy<Option<u64>> {
    let usual = match weather {
        Weather::Slow => (100 * MICRO..500 * MICRO).prop_map(Some).boxed(),
        Weather::Hanging | Weather::Mixed => Just(None).boxed(),
        Weather::Calm | Weather::Refusing | Weather::Full => {
            (100..5 * MICRO).prop_map(Some).boxed()
        }
    };
    let odd = select(EDGES.as_slice());
    prop_oneof![30 => usual, 1 => odd.prop_map(Some)].boxed()
}

fn evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        4 => Just(Evidence::None),
        1 => Just(Evidence::Inferred),
        1 => Just(Evidence::Thread),
        3 => Just(Evidence::Exact),
    ]
}

/// An attempt of any kind; mostly what is asked the most.
fn tried() -> impl Strategy<Value = Tried> {
    let what = select([what::CONNECT, what::REQUEST, what::CARRIED, what::PASSED].as_slice());
    let age = prop_oneof![6 => 0u64..2_000, 1 => any::<u64>()];
    let number = prop_oneof![6 => 0u32..7, 1 => any::<u32>()];
    // Mostly nothing: what is refused here is not asked anything else.
    let about = prop_oneof![8 => Just(0u16), 1 => 0u16..16];
    (what, evidence(), age, number, about, 0u16..2, 0u16..4).prop_map(
        |(what, evidence, age, number, about, paid, why)| Tried {
            what,
            evidence,
            age,
            number,
            about,
            paid,
            why,
        },
    )
}

/// The status of an answer and how long it asks to wait.
fn answer() -> impl Strategy<Value = (u16, u32)> {
    let status = select([0, 200, 404, 429, 500, 503, 504, 599, u16::MAX].as_slice());
    let wait = prop_oneof![4 => Just(0u32), 2 => 0u32..5_000, 1 => any::<u32>()];
    (status, wait)
}

fn level() -> impl Strategy<Value = Level> {
    select([Level::Connect, Level::Exchange, Level::Exchange].as_slice())
}

/// Mostly within a tick, at times over many windows, seldom for hours; now and then behind.
fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![
        10 => (0u64..100).prop_map(Clock::On),
        30 => (0..10 * MICRO).prop_map(Clock::On),
        40 => (0..30 * MILLI).prop_map(Clock::On),
        10 => (30 * MILLI..400 * MILLI).prop_map(Clock::On),
        6 => (400 * MILLI..6 * SECOND).prop_map(Clock::On),
        1 => (6 * SECOND..HOUR).prop_map(Clock::On),
        1 => (HOUR..100 * HOUR).prop_map(Clock::On),
        4 => (0..300 * MILLI).prop_map(Clock::Back),
    ]
}

/// Endings as no socket makes them: tickets of others, wrong times.
fn stray() -> impl Strategy<Value = Step> {
    let ticket = || prop_oneof![0u32..20, any::<u32>()];
    let times = (prop_oneof![Just(0), 0..4 * SECOND], any::<u32>());
    (
        1u32..3,
        0u32..9,
        0u32..2,
        ticket(),
        ticket(),
        0u32..4,
        times,
    )
        .prop_map(
            |(what, outcome, probe, probe_breaker, probe_lease, audited, (entered, latency))| {
                Step {
                    what,
                    outcome,
                    probe,
                    probe_breaker,
                    probe_lease,
                    audited,
                    entered,
                    latency: latency.into(),
                    ..bytemuck::Zeroable::zeroed()
                }
            },
        )
}

/// Endings that are settled together, some of them late.
fn together() -> impl Strategy<Value = Step> {
    let late = prop_oneof![3 => Just(0u32), 1 => any::<u32>()];
    let entered = prop_oneof![Just(0), 0..4 * SECOND];
    (
        any::<u64>(),
        0..MILLI,
        0u16..80,
        late,
        0u32..2,
        0u16..2,
        entered,
    )
        .prop_map(
            |(age, latency, about, retry_after, probe, paid, entered)| Step {
                what: what::CALM,
                age,
                latency,
                about,
                retry_after,
                probe,
                paid,
                entered,
                ..bytemuck::Zeroable::zeroed()
            },
        )
}

fn order() -> impl Strategy<Value = Order> {
    let until = || prop_oneof![2 => Just(0), 3 => 1..20 * SECOND];
    let share = select([0, 1, 5_000, 10_000].as_slice());
    let holds = select([hold::NONE, hold::NONE, hold::OPEN, hold::CLOSED].as_slice());
    let stages = prop::array::uniform8(select([0, 10, 50, 100].as_slice()));
    (
        (until(), until(), until(), until()),
        select([0, SECOND, 7].as_slice()),
        stages,
        (holds, share, 0u32..2),
    )
        .prop_map(
            |((shed_until, off_from, off_for, hold_until), stage_every, stages, rest)| {
                let stages: [u8; STAGES] = stages;
                Order {
                    shed_until,
                    off_from,
                    off_until: off_from + off_for,
                    stage_every,
                    stages,
                    hold_until,
                    hold: rest.0,
                    shed_share: rest.1,
                    shed_retries_only: rest.2,
                    hold_above: Told::NOTHING,
                    began_with: Told::NOTHING,
                }
            },
        )
}

fn what(weather: Weather) -> impl Strategy<Value = What> {
    let end = (
        any::<Index>(),
        outcome(weather),
        answer(),
        level(),
        latency(weather),
    )
        .prop_map(
            |(which, outcome, (status, retry_after), level, latency)| What::End {
                which,
                outcome,
                status,
                retry_after,
                level,
                latency,
            },
        );
    prop_oneof![
        100 => tried().prop_map(What::Try),
        80 => end,
        6 => stray().prop_map(What::Stray),
        8 => together().prop_map(What::Stray),
        1 => params().prop_map(What::Policy),
        2 => option::of(order()).prop_map(What::Order),
    ]
}

fn spell(longest: usize) -> impl Strategy<Value = Vec<Happening>> {
    select(Weather::ALL.as_slice()).prop_flat_map(move |weather| {
        let happening = (
            clock(),
            select(WORKLOADS.as_slice()),
            any::<u32>(),
            what(weather),
        );
        let happening = happening.prop_map(|(clock, workload, random, what)| Happening {
            clock,
            workload,
            random,
            what,
        });
        vec(happening, 1..longest)
    })
}

/// Histories of so many spells of weather at most, each so long at most.
pub fn traces(spells: usize, longest: usize) -> impl Strategy<Value = Trace> {
    // The first moments after boot, a day, ten years.
    let start = select([0, 1, 20 * MILLI, 24 * HOUR, 87_600 * HOUR].as_slice());
    (start, params(), vec(spell(longest), 1..spells)).prop_map(|(start, params, spells)| Trace {
        start,
        params,
        happenings: spells.concat(),
    })
}
