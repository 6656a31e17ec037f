//! The scenarios by which the law was chosen, by name. `docs/law.md` has their figures.

use std::ops::Range;

use super::law::{Law, simulate};
use super::series::Report;
use super::world::{Backend, Caller, Class, Jitter, Mode, Random, Workload, World, poisson};

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens in it.
    pub title: &'static str,
    /// When it is judged.
    pub judged: Seconds,
    /// Successes per second that are possible then; `None`: the share of
    /// backends that work decides.
    pub possible: Option<f64>,
    /// Who calls whom.
    pub world: fn(&mut Random) -> World,
}

/// From one second to before another.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub u32, pub u32);

impl Seconds {
    /// As a range.
    pub fn range(self) -> Range<usize> {
        self.0 as usize..self.1 as usize
    }
}

/// Healthy workloads of the scenario `greedy`: the first so many.
pub const HEALTHY: usize = 20;

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 15] = [
        Self {
            name: "stall",
            title: "5 s stall at 80 % load, 3 retries",
            judged: Seconds(25, 58),
            possible: Some(800.0),
            world: |random| {
                queue(random, 800.0, 60, |t| {
                    if (20.0..25.0).contains(&t) {
                        0.0
                    } else {
                        1_000.0
                    }
                })
            },
        },
        Self {
            name: "overload",
            title: "1.2x overload, 3 retries",
            judged: Seconds(10, 48),
            possible: Some(1_000.0),
            world: |random| queue(random, 1_200.0, 50, |_| 1_000.0),
        },
        Self {
            name: "degraded",
            title: "60 % capacity at 80 % load, 3 retries",
            judged: Seconds(26, 78),
            possible: Some(600.0),
            world: |random| {
                queue(random, 800.0, 80, |t| {
                    if (20.0..80.0).contains(&t) {
                        600.0
                    } else {
                        1_000.0
                    }
                })
            },
        },
        Self {
            name: "one-hangs",
            title: "1 of 3 backends hangs, 300/s, no retries",
            judged: Seconds(25, 78),
            possible: None,
            world: |random| {
                let backends = vec![
                    Backend::quick(),
                    Backend::quick(),
                    Backend::quick().that(from(20.0, Mode::Hang)),
                ];
                World::single(
                    80,
                    poisson(random, 300.0, 0.0, 80.0),
                    backends,
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "slower",
            title: "latency 6 -> 60 ms, nothing fails, 300/s",
            judged: Seconds(25, 78),
            possible: None,
            world: |random| {
                let latency = |t: f64, _, random: &mut Random| {
                    (if t >= 20.0 { 0.06 } else { 0.006 }) * random.between(0.8, 1.2)
                };
                World::single(
                    80,
                    poisson(random, 300.0, 0.0, 80.0),
                    vec![Backend::parallel(latency)],
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "long-polls",
            title: "200 long polls + 400/s short calls, which hang for 1.5 s",
            judged: Seconds(32, 60),
            possible: None,
            world: long_polls,
        },
        Self {
            name: "half-refused",
            title: "1 of 2 backends refuses, 20/s, no retries",
            judged: Seconds(0, 148),
            possible: None,
            world: |random| {
                let backends = vec![
                    Backend::quick(),
                    Backend::quick().that(from(0.0, Mode::Refuse)),
                ];
                World::single(
                    150,
                    poisson(random, 20.0, 0.0, 150.0),
                    backends,
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "two-thirds-refused",
            title: "2 of 3 backends refuse, 300/s, no retries",
            judged: Seconds(0, 78),
            possible: None,
            world: |random| {
                let refuses = || Backend::quick().that(from(0.0, Mode::Refuse));
                World::single(
                    80,
                    poisson(random, 300.0, 0.0, 80.0),
                    vec![Backend::quick(), refuses(), refuses()],
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "many-nodes",
            title: "250 nodes call one service, 5 s stall at 80 % load",
            judged: Seconds(25, 68),
            possible: Some(800.0),
            world: |random| {
                let workloads = (0..250).map(|node| Workload {
                    node,
                    arrivals: poisson(random, 800.0 / 250.0, 0.0, 70.0),
                    backends: vec![0],
                    caller: Caller::retrying(Jitter::None),
                });
                World {
                    seconds: 70,
                    workloads: workloads.collect(),
                    backends: vec![Backend::fifo(|t| {
                        if (20.0..25.0).contains(&t) {
                            0.0
                        } else {
                            1_000.0
                        }
                    })],
                }
            },
        },
        Self {
            name: "outage",
            title: "everything is refused for 90 s, 60/s, no retries",
            judged: Seconds(110, 200),
            possible: None,
            world: |random| {
                let backend = Backend::quick().that(during(20.0, 110.0, Mode::Refuse));
                World::single(
                    240,
                    poisson(random, 60.0, 0.0, 240.0),
                    vec![backend],
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "broken-neighbour",
            title: "one workload is refused for ever (100/s), another for 10 s (50/s)",
            judged: Seconds(30, 118),
            possible: None,
            world: |random| World {
                seconds: 120,
                workloads: vec![
                    Workload {
                        node: 0,
                        arrivals: poisson(random, 50.0, 0.0, 120.0),
                        backends: vec![0],
                        caller: Caller::PATIENT,
                    },
                    Workload {
                        node: 0,
                        arrivals: poisson(random, 100.0, 0.0, 120.0),
                        backends: vec![1],
                        caller: Caller::PATIENT,
                    },
                ],
                backends: vec![
                    Backend::quick().that(during(20.0, 30.0, Mode::Refuse)),
                    Backend::quick().that(from(0.0, Mode::Refuse)),
                ],
            },
        },
        Self {
            name: "third-refused",
            title: "1 of 3 backends refuses, 1,000/s, callers never retry",
            judged: Seconds(31, 58),
            possible: None,
            world: |random| {
                let backends = vec![
                    Backend::quick(),
                    Backend::quick(),
                    Backend::quick().that(from(20.0, Mode::Refuse)),
                ];
                World::single(
                    60,
                    poisson(random, 1_000.0, 0.0, 60.0),
                    backends,
                    Caller::PATIENT,
                )
            },
        },
        Self {
            name: "failing",
            title: "30 % fail, 1,000/s, 3 retries",
            judged: Seconds(22, 58),
            possible: None,
            world: |random| {
                let backend = Backend::quick().that(failing(20.0, 0.3));
                World::single(
                    60,
                    poisson(random, 1_000.0, 0.0, 60.0),
                    vec![backend],
                    Caller::retrying(Jitter::Full),
                )
            },
        },
        Self {
            name: "node-herd",
            title: "50 nodes x 20/s, 60 % fail, 3 retries",
            judged: Seconds(20, 58),
            possible: None,
            world: |random| {
                let workloads = (0..50).map(|node| Workload {
                    node,
                    arrivals: poisson(random, 20.0, 0.0, 60.0),
                    backends: vec![0],
                    caller: Caller::retrying(Jitter::Full),
                });
                World {
                    seconds: 60,
                    workloads: workloads.collect(),
                    backends: vec![Backend::quick().that(failing(20.0, 0.6))],
                }
            },
        },
        Self {
            name: "greedy",
            title: "2 workloads always fail (50/s, 3 retries), 20 healthy ones (10/s, 1) have 5 % blips",
            judged: Seconds(30, 118),
            possible: None,
            world: |random| {
                let workloads = (0..22).map(|which| {
                    let (rate, backend, retries) = if which < HEALTHY {
                        (10.0, 0, 1)
                    } else {
                        (50.0, 1, 3)
                    };
                    Workload {
                        node: 0,
                        arrivals: poisson(random, rate, 0.0, 120.0),
                        backends: vec![backend],
                        caller: Caller {
                            retries,
                            ..Caller::retrying(Jitter::Full)
                        },
                    }
                });
                World {
                    seconds: 120,
                    workloads: workloads.collect(),
                    backends: vec![
                        Backend::quick().that(failing(0.0, 0.05)),
                        Backend::quick().that(from(0.0, Mode::Fail)),
                    ],
                }
            },
        },
    ];

    /// The scenario of a name.
    pub fn named(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().chain(Self::BUSY);
        all.chain(Self::LIMITED)
            .find(|scenario| scenario.name == name)
    }

    /// The goodput relative to what is possible, in a report of this scenario.
    pub fn goodput(&self, report: &Report) -> f64 {
        match self.possible {
            Some(per_second) => report.all.goodput_of(self.judged.range(), per_second),
            None => report.all.goodput(self.judged.range()),
        }
    }

    /// Runs it under a law.
    pub fn run(&self, law: Law, seed: u64) -> Report {
        let world = (self.world)(&mut Random::new(seed));
        simulate(&world, law, seed)
    }
}

fn queue(random: &mut Random, rate: f64, seconds: u32, capacity: fn(f64) -> f64) -> World {
    World::single(
        seconds as usize,
        poisson(random, rate, 0.0, f64::from(seconds)),
        vec![Backend::fifo(capacity)],
        Caller::retrying(Jitter::None),
    )
}

fn from(start: f64, mode: Mode) -> impl Fn(f64, Class, &mut Random) -> Mode {
    during(start, f64::INFINITY, mode)
}

fn during(start: f64, end: f64, mode: Mode) -> impl Fn(f64, Class, &mut Random) -> Mode {
    move |time, _, _| {
        if (start..end).contains(&time) {
            mode
        } else {
            Mode::Serve
        }
    }
}

fn failing(start: f64, share: f64) -> impl Fn(f64, Class, &mut Random) -> Mode {
    move |time, _, random| {
        if time >= start && random.chance(share) {
            Mode::Fail
        } else {
            Mode::Serve
        }
    }
}

fn long_polls(random: &mut Random) -> World {
    const POLL: Class = 1;
    let mut arrivals = poisson(random, 400.0, 0.0, 90.0);
    for _ in 0..200 {
        let mut time = random.between(0.0, 30.0);
        while time < 90.0 {
            arrivals.push((time, POLL));
            time += 30.2;
        }
    }
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let backend = Backend::parallel(|_, class, random| {
        if class == POLL {
            30.0
        } else {
            0.001 + random.exponential(0.005)
        }
    })
    .that(|time, class, _| {
        if class != POLL && (30.0..31.5).contains(&time) {
            Mode::Hang
        } else {
            Mode::Serve
        }
    });
    let caller = Caller {
        timeout: [1.0, 60.0],
        ..Caller::PATIENT
    };
    World::single(90, arrivals, vec![backend], caller)
}
