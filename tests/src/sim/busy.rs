//! Scenarios on a machine that is short of processors, where latency says little.
//!
//! A call takes a few milliseconds, which vary, and again and again the machine
//! does something else for 5 to 50 ms: who should answer meanwhile answers after
//! it. From the moment something fails on it is away two thirds of the time, and
//! a sixth before. That is what a lab run beside other work looks like (load 15
//! on 2 processors), where the limiter took it for a queue.

use std::rc::Rc;

use super::scenario::{Scenario, Seconds};
use super::world::{Backend, Caller, Jitter, Mode, Random, Workload, World, poisson};

/// From when on something fails.
const FAILS: f64 = 30.0;
/// Length of all.
const END: f64 = 90.0;
const JUDGED: Seconds = Seconds(FAILS as u32, END as u32 - 2);

impl Scenario {
    /// On a busy machine: one of three backends fails; its limiters have nothing to do.
    pub const BUSY: [Self; 5] = [
        Self {
            name: "busy-hangs",
            title: "busy machine: 1 of 3 addresses does not answer, 120/s, no retries",
            judged: JUDGED,
            possible: None,
            world: |random| apart(random, 120.0, Mode::Hang),
        },
        Self {
            name: "busy-full",
            title: "busy machine: 1 of 3 addresses answers 503, 120/s, no retries",
            judged: JUDGED,
            possible: None,
            world: |random| apart(random, 120.0, Mode::Full),
        },
        Self {
            name: "busy-quiet",
            title: "busy machine: 1 of 3 addresses does not answer, 15/s, no retries",
            judged: JUDGED,
            possible: None,
            world: |random| apart(random, 15.0, Mode::Hang),
        },
        Self {
            name: "busy-one-hangs",
            title: "busy machine: 1 of 3 behind one address does not answer, 120/s, no retries",
            judged: JUDGED,
            possible: None,
            world: |random| behind_one(random, Mode::Hang),
        },
        Self {
            name: "busy-one-full",
            title: "busy machine: 1 of 3 behind one address answers 503, 120/s, no retries",
            judged: JUDGED,
            possible: None,
            world: |random| behind_one(random, Mode::Full),
        },
    ];

    /// Where limiters have work to do, beyond what chose the law.
    pub const LIMITED: [Self; 6] = [
        Self {
            name: "node-overload",
            title: "50 nodes, 1.2x overload, 3 retries",
            judged: Seconds(10, 88),
            possible: Some(1_000.0),
            world: |random| overload(random, 50),
        },
        Self {
            name: "many-overload",
            title: "250 nodes, 1.2x overload, 3 retries",
            judged: Seconds(10, 88),
            possible: Some(1_000.0),
            world: |random| overload(random, 250),
        },
        Self {
            name: "flapping",
            title: "a stall of 1.5 s every 5 s at 64 % load, 3 retries",
            judged: Seconds(20, 88),
            possible: Some(640.0),
            world: |random| {
                let stalls = |time: f64| time > 20.0 && time % 5.0 < 1.5;
                World::single(
                    END as usize,
                    poisson(random, 640.0, 0.0, END),
                    vec![Backend::fifo(
                        move |time| {
                            if stalls(time) { 0.0 } else { 1_000.0 }
                        },
                    )],
                    Caller::retrying(Jitter::None),
                )
            },
        },
        Self {
            name: "slower-for-good",
            title: "9 of 10 hang for 5 s, then latency is 600 ms instead of 5, 100/s, no retries",
            judged: Seconds(27, 88),
            possible: None,
            world: |random| {
                let backend = Backend::parallel(|time, _, random| {
                    (if time > 20.0 { 0.6 } else { 0.005 }) * random.between(0.8, 1.2)
                });
                let hangs = |time: f64, _, random: &mut Random| {
                    if (20.0..25.0).contains(&time) && random.chance(0.9) {
                        Mode::Hang
                    } else {
                        Mode::Serve
                    }
                };
                World::single(
                    END as usize,
                    poisson(random, 100.0, 0.0, END),
                    vec![backend.that(hangs)],
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "sways-beside-a-hang",
            title: "1 of 3 backends hangs, the others take 100 or 250 ms by turns, 300/s, no retries",
            judged: Seconds(25, 78),
            possible: None,
            world: |random| {
                let hangs = sways(4.0, 0.25).that(|time, _, _| match time >= 20.0 {
                    true => Mode::Hang,
                    false => Mode::Serve,
                });
                let backends = vec![sways(4.0, 0.25), sways(4.0, 0.25), hangs];
                World::single(
                    80,
                    poisson(random, 300.0, 0.0, 80.0),
                    backends,
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "sways-after-a-stall",
            title: "a stall of 5 s; answers take 100 or 300 ms, for 0.4 s each, 300/s, no retries",
            judged: Seconds(29, 78),
            possible: None,
            world: |random| {
                let stalls =
                    sways(0.8, 0.3).that(|time, _, _| match (20.0..25.0).contains(&time) {
                        true => Mode::Hang,
                        false => Mode::Serve,
                    });
                World::single(
                    80,
                    poisson(random, 300.0, 0.0, 80.0),
                    vec![stalls],
                    Caller::PATIENT,
                )
            },
        },
    ];
}

/// A backend that takes 100 ms, or for half of each turn so long, both in seconds. Nobody waits in a queue.
pub fn sways(turn: f64, slow: f64) -> Backend {
    Backend::parallel(move |time, _, random| {
        let takes = if time % turn < turn / 2.0 { 0.1 } else { slow };
        takes * random.between(0.7, 1.3)
    })
}

/// When the machine does something else: from, until.
struct Machine(Vec<(f64, f64)>);

impl Machine {
    fn new(random: &mut Random) -> Rc<Self> {
        let mut away = Vec::new();
        let mut time = 0.0;
        while time < END {
            let gap = if time < FAILS { 0.140 } else { 0.015 };
            let from = time + random.exponential(gap);
            time = from + random.between(0.005, 0.050);
            away.push((from, time));
        }
        Rc::new(Self(away))
    }

    /// When it is there, from this time on.
    fn there(&self, time: f64) -> f64 {
        let begun = self.0.partition_point(|&(from, _)| from <= time);
        match begun.checked_sub(1) {
            Some(last) => time.max(self.0[last].1),
            None => time,
        }
    }

    /// How long a call takes that is begun now.
    fn latency(&self, time: f64, random: &mut Random) -> f64 {
        let work = 0.002 * (0.6 * random.normal()).exp();
        self.there(self.there(time) + work) - time
    }
}

/// Three backends, one of which fails.
fn three(random: &mut Random, fails: Mode) -> Vec<Backend> {
    let machine = Machine::new(random);
    let backend = || {
        let machine = Rc::clone(&machine);
        Backend::parallel(move |time, _, random| machine.latency(time, random))
    };
    let bad = backend().that(
        move |time, _, _| {
            if time >= FAILS { fails } else { Mode::Serve }
        },
    );
    vec![backend(), backend(), bad]
}

/// Callers choose among three addresses.
fn apart(random: &mut Random, rate: f64, fails: Mode) -> World {
    let backends = three(random, fails);
    World::single(
        END as usize,
        poisson(random, rate, 0.0, END),
        backends.into_iter().map(Backend::alone).collect(),
        Caller::PATIENT,
    )
}

/// The three are behind one address, as a Service's are: no breaker sees one of them.
fn behind_one(random: &mut Random, fails: Mode) -> World {
    let backends = three(random, fails);
    World::single(
        END as usize,
        poisson(random, 120.0, 0.0, END),
        backends,
        Caller::PATIENT,
    )
}

/// So many nodes offer a service 1.2 times what it can do.
fn overload(random: &mut Random, nodes: usize) -> World {
    let workloads = (0..nodes).map(|node| Workload {
        node,
        arrivals: poisson(random, 1_200.0 / nodes as f64, 0.0, END),
        backends: vec![0],
        caller: Caller::retrying(Jitter::None),
    });
    World {
        seconds: END as usize,
        workloads: workloads.collect(),
        backends: vec![Backend::fifo(|_| 1_000.0)],
    }
}
