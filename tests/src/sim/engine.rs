//! The events: attempts, service, time-outs, retries.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use governor_core::order::Kind;
use governor_core::units::Nanos;
use governor_core::verdict::Outcome;

use super::series::{Report, Series};
use super::world::{Class, Jitter, Mode, Random, Service, World, as_seconds, seconds};

/// How fast a refusal or an error comes back.
const PROMPT: Nanos = Nanos::from_millis(1);
/// How often a stalled queue looks whether it is served again.
const STALLED: Nanos = Nanos::from_millis(50);
/// Longest queue: what a listen backlog or a load balancer would hold.
const LONGEST_QUEUE: usize = 50_000;
/// Events end so long after the last arrival.
const AFTERMATH: usize = 30;

/// What stands between callers and services.
pub trait Governor {
    /// What an admitted attempt carries to its end.
    type Pass: Copy;

    /// Whether an attempt of a workload may go.
    fn admit(&mut self, workload: usize, now: Nanos, kind: Kind) -> Option<Self::Pass>;

    /// An admitted attempt ended.
    fn settle(&mut self, workload: usize, pass: Self::Pass, end: End);
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// When.
    pub now: Nanos,
    /// After how long.
    pub latency: Nanos,
    /// How.
    pub outcome: Outcome,
}

/// Lets everything pass.
#[derive(Clone, Copy, Debug)]
pub struct Ungoverned;

impl Governor for Ungoverned {
    type Pass = ();
    fn admit(&mut self, _workload: usize, _now: Nanos, _kind: Kind) -> Option<()> {
        Some(())
    }
    fn settle(&mut self, _workload: usize, _pass: (), _end: End) {}
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next arrival of a workload.
    Arrive { workload: usize, index: usize },
    /// A retry.
    Retry {
        workload: usize,
        class: Class,
        number: u32,
    },
    /// An attempt ends, unless it has.
    End { attempt: usize, outcome: u32 },
    /// A queue takes the next.
    Serve { backend: usize },
    /// A queue has served one.
    Served { backend: usize, attempt: usize },
}

struct Attempt<P> {
    workload: usize,
    class: Class,
    number: u32,
    started: Nanos,
    pass: P,
    over: bool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<usize>,
    busy: bool,
}

struct Engine<'a, G: Governor> {
    world: &'a World,
    governor: &'a mut G,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    attempts: Vec<Attempt<G::Pass>>,
    queues: Vec<Queue>,
    report: Report,
}

/// Runs a world under a governor.
pub fn run<G: Governor>(world: &World, governor: &mut G, seed: u64) -> Report {
    let length = world.seconds + AFTERMATH + 1;
    let mut engine = Engine {
        world,
        governor,
        random: Random::new(seed),
        events: BinaryHeap::new(),
        count: 0,
        attempts: Vec::new(),
        queues: world.backends.iter().map(|_| Queue::default()).collect(),
        report: Report {
            all: Series::new(length),
            workloads: world
                .workloads
                .iter()
                .map(|_| Series::new(length))
                .collect(),
        },
    };
    for workload in 0..world.workloads.len() {
        engine.arrival(workload, 0);
    }
    let end = Nanos::from_secs((world.seconds + AFTERMATH) as u64);
    while let Some(Reverse((time, _, event))) = engine.events.pop() {
        if time > end.0 {
            break;
        }
        engine.handle(Nanos(time), event);
    }
    engine.report
}

impl<G: Governor> Engine<'_, G> {
    fn push(&mut self, time: Nanos, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time.0, self.count, event)));
    }

    fn arrival(&mut self, workload: usize, index: usize) {
        if let Some(&(time, _)) = self.world.workloads[workload].arrivals.get(index) {
            self.push(seconds(time), Event::Arrive { workload, index });
        }
    }

    fn note(&mut self, workload: usize, now: Nanos, which: fn(&mut Series) -> &mut Vec<u32>) {
        let second = (now.0 / 1_000_000_000) as usize;
        which(&mut self.report.all)[second] += 1;
        which(&mut self.report.workloads[workload])[second] += 1;
    }

    fn handle(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Arrive { workload, index } => {
                let class = self.world.workloads[workload].arrivals[index].1;
                self.arrival(workload, index + 1);
                self.note(workload, now, |series| &mut series.first);
                self.attempt(now, workload, class, 0);
            }
            Event::Retry {
                workload,
                class,
                number,
            } => self.attempt(now, workload, class, number),
            Event::End { attempt, outcome } => {
                self.end(now, attempt, Outcome::ALL[outcome as usize]);
            }
            Event::Serve { backend } => self.serve(now, backend),
            Event::Served { backend, attempt } => {
                // Work whose caller has gone is done all the same.
                self.end(now, attempt, Outcome::Success);
                self.serve(now, backend);
            }
        }
    }

    fn attempt(&mut self, now: Nanos, workload: usize, class: Class, number: u32) {
        let kind = if number == 0 {
            Kind::First
        } else {
            Kind::Retry
        };
        let Some(pass) = self.governor.admit(workload, now, kind) else {
            self.note(workload, now, |series| &mut series.denied);
            if number == 0 {
                self.note(workload, now, |series| &mut series.denied_first);
            }
            self.retry(now, workload, class, number);
            return;
        };
        self.note(workload, now, |series| &mut series.load);
        let id = self.attempts.len();
        self.attempts.push(Attempt {
            workload,
            class,
            number,
            started: now,
            pass,
            over: false,
        });
        self.send(now, id);
    }

    fn send(&mut self, now: Nanos, id: usize) {
        let world = self.world;
        let attempt = &self.attempts[id];
        let workload = &world.workloads[attempt.workload];
        let class = attempt.class;
        let backend = workload.backends[self.random.index(workload.backends.len())];
        let timeout = Nanos(now.0 + seconds(workload.caller.timeout[usize::from(class)]).0);
        let behind = &world.backends[backend];
        let end = |outcome: Outcome| Event::End {
            attempt: id,
            outcome: outcome as u32,
        };
        match (behind.mode)(as_seconds(now), class, &mut self.random) {
            Mode::Refuse => self.push(Nanos(now.0 + PROMPT.0), end(Outcome::Refused)),
            Mode::Fail => self.push(Nanos(now.0 + PROMPT.0), end(Outcome::NoAnswer)),
            Mode::Hang => self.push(timeout, end(Outcome::Timeout)),
            Mode::Serve => match &behind.service {
                Service::Parallel(latency) => {
                    let latency = latency(as_seconds(now), class, &mut self.random);
                    let done = Nanos(now.0 + seconds(latency).0);
                    if done < timeout {
                        self.push(done, end(Outcome::Success));
                    } else {
                        self.push(timeout, end(Outcome::Timeout));
                    }
                }
                Service::Fifo(_) => {
                    self.push(timeout, end(Outcome::Timeout));
                    let queue = &mut self.queues[backend];
                    if queue.waiting.len() >= LONGEST_QUEUE {
                        queue.waiting.clear();
                    }
                    queue.waiting.push_back(id);
                    if !queue.busy {
                        self.serve(now, backend);
                    }
                }
            },
        }
    }

    fn serve(&mut self, now: Nanos, backend: usize) {
        let Service::Fifo(capacity) = &self.world.backends[backend].service else {
            return;
        };
        let capacity = capacity(as_seconds(now));
        let queue = &mut self.queues[backend];
        queue.busy = true;
        if capacity < 1.0 {
            self.push(Nanos(now.0 + STALLED.0), Event::Serve { backend });
        } else if let Some(attempt) = queue.waiting.pop_front() {
            let done = Nanos(now.0 + seconds(1.0 / capacity).0);
            self.push(done, Event::Served { backend, attempt });
        } else {
            queue.busy = false;
        }
    }

    fn end(&mut self, now: Nanos, id: usize, outcome: Outcome) {
        let attempt = &mut self.attempts[id];
        if attempt.over {
            return;
        }
        attempt.over = true;
        let (workload, class, number) = (attempt.workload, attempt.class, attempt.number);
        let end = End {
            now,
            latency: now.since(attempt.started),
            outcome,
        };
        self.governor.settle(workload, attempt.pass, end);
        if outcome == Outcome::Success {
            self.note(workload, now, |series| &mut series.good);
        } else {
            self.retry(now, workload, class, number);
        }
    }

    fn retry(&mut self, now: Nanos, workload: usize, class: Class, number: u32) {
        let caller = &self.world.workloads[workload].caller;
        if number >= caller.retries {
            return;
        }
        let delay = caller.delay * f64::from(1 << number);
        let delay = match caller.jitter {
            Jitter::None => delay,
            Jitter::Full => self.random.between(0.0, delay),
        };
        let event = Event::Retry {
            workload,
            class,
            number: number + 1,
        };
        self.push(Nanos(now.0 + seconds(delay).0), event);
    }
}
