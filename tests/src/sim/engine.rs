//! The events: attempts, service, time-outs, retries.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use governor_core::order::Kind;
use governor_core::units::Nanos;
use governor_core::verdict::Outcome;

use super::series::{Report, SLOT, Series};
use super::world::{
    Class, Heeds, Jitter, Mode, Random, Reached, Service, World, as_seconds, seconds,
};

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
    fn admit(&mut self, workload: usize, attempt: &Try) -> Option<Self::Pass>;

    /// How long a caller is told to wait whose attempt was not admitted; 0: it is not told.
    fn asks(&self) -> Nanos {
        Nanos(0)
    }

    /// How long an admitted attempt is held back before it is sent.
    fn delay(&mut self, _attempt: &Try) -> Nanos {
        Nanos(0)
    }

    /// An admitted attempt ended.
    fn settle(&mut self, workload: usize, pass: Self::Pass, end: End);
}

/// One try of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Try {
    /// When.
    pub now: Nanos,
    /// Which one, from 0.
    pub number: u32,
    /// When the first was.
    pub since: Nanos,
    /// Number of the ip:port it goes to.
    pub address: usize,
}

impl Try {
    /// A first try or a retry.
    pub const fn kind(&self) -> Kind {
        match self.number {
            0 => Kind::First,
            _ => Kind::Retry,
        }
    }
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
    /// How long the answer tells its caller to wait; 0: it does not.
    pub asks: Nanos,
}

/// Lets everything pass.
#[derive(Clone, Copy, Debug)]
pub struct Ungoverned;

impl Governor for Ungoverned {
    type Pass = ();
    fn admit(&mut self, _workload: usize, _attempt: &Try) -> Option<()> {
        Some(())
    }
    fn settle(&mut self, _workload: usize, _pass: (), _end: End) {}
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next arrival of a workload.
    Arrive { workload: usize, index: usize },
    /// A retry.
    Retry(Operation),
    /// An attempt that was held back goes.
    Send { attempt: usize },
    /// An attempt ends, unless it has.
    End { attempt: usize, outcome: u32 },
    /// A queue takes the next.
    Serve { backend: usize },
    /// A queue has served one.
    Served { backend: usize, attempt: usize },
}

/// What a caller wants, and how often it has tried before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Operation {
    workload: usize,
    class: Class,
    number: u32,
    /// When it was tried first.
    since: Nanos,
}

struct Attempt<P> {
    operation: Operation,
    started: Nanos,
    /// `None`: behind the one address of all, and not chosen yet.
    backend: Option<usize>,
    pass: P,
    /// What its answer will tell its caller.
    asks: Nanos,
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
            slots: vec![0; (length as f64 / SLOT) as usize],
            ..Report::default()
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
                self.attempt(
                    now,
                    Operation {
                        workload,
                        class,
                        number: 0,
                        since: now,
                    },
                );
            }
            Event::Retry(operation) => self.attempt(now, operation),
            Event::Send { attempt } => self.send(now, attempt),
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

    fn attempt(&mut self, now: Nanos, operation: Operation) {
        let workload = operation.workload;
        let backends = &self.world.workloads[workload].backends;
        let backend = match self.world.backends[backends[0]].reached {
            Reached::Alone => Some(backends[self.random.index(backends.len())]),
            Reached::Together => None,
        };
        let attempt = Try {
            now,
            number: operation.number,
            since: operation.since,
            address: backend.unwrap_or(0),
        };
        let Some(pass) = self.governor.admit(workload, &attempt) else {
            self.note(workload, now, |series| &mut series.denied);
            if operation.number == 0 {
                self.note(workload, now, |series| &mut series.denied_first);
            }
            self.retry(now, operation, self.governor.asks());
            return;
        };
        let id = self.attempts.len();
        self.attempts.push(Attempt {
            operation,
            started: now,
            backend,
            pass,
            asks: Nanos(0),
            over: false,
        });
        match self.governor.delay(&attempt) {
            Nanos(0) => self.send(now, id),
            delay => self.push(Nanos(now.0 + delay.0), Event::Send { attempt: id }),
        }
    }

    fn send(&mut self, now: Nanos, id: usize) {
        let world = self.world;
        let attempt = &self.attempts[id];
        let operation = attempt.operation;
        let (class, started) = (operation.class, attempt.started);
        let chosen = attempt.backend;
        self.note(operation.workload, now, |series| &mut series.load);
        let slot = (as_seconds(now) / SLOT) as usize;
        if let Some(count) = self.report.slots.get_mut(slot) {
            *count += 1;
        }
        let workload = &world.workloads[operation.workload];
        if now.since(operation.since) > seconds(workload.caller.user_leaves) {
            self.note(operation.workload, now, |series| &mut series.late);
        }
        let backend = match chosen {
            Some(backend) => backend,
            None => workload.backends[self.random.index(workload.backends.len())],
        };
        // The caller has waited since it was let go, held back or not.
        let patience = seconds(workload.caller.timeout[usize::from(class)]);
        let timeout = Nanos((started.0 + patience.0).max(now.0));
        let behind = &world.backends[backend];
        let end = |outcome: Outcome| Event::End {
            attempt: id,
            outcome: outcome as u32,
        };
        match (behind.mode)(as_seconds(now), class, &mut self.random) {
            Mode::Refuse => self.push(Nanos(now.0 + PROMPT.0), end(Outcome::Refused)),
            Mode::Fail => self.push(Nanos(now.0 + PROMPT.0), end(Outcome::NoAnswer)),
            Mode::Full => self.push(Nanos(now.0 + PROMPT.0), end(Outcome::Status)),
            Mode::Asks(wait) => {
                self.attempts[id].asks = Nanos::from_secs(wait.into());
                self.push(Nanos(now.0 + PROMPT.0), end(Outcome::Status));
            }
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
        let operation = attempt.operation;
        let workload = operation.workload;
        let end = End {
            now,
            latency: now.since(attempt.started),
            outcome,
            asks: attempt.asks,
        };
        self.governor.settle(workload, attempt.pass, end);
        let patience = self.world.workloads[workload].caller.user_leaves;
        if outcome != Outcome::Success {
            self.retry(now, operation, end.asks);
        } else if now.since(operation.since) <= seconds(patience) {
            self.note(workload, now, |series| &mut series.good);
            if operation.number > 0 {
                let waited = as_seconds(now.since(operation.since));
                self.report.rescued.push(waited as f32);
            }
        }
    }

    fn retry(&mut self, now: Nanos, operation: Operation, asked: Nanos) {
        let caller = &self.world.workloads[operation.workload].caller;
        if operation.number >= caller.retries {
            let took = as_seconds(now.since(operation.since));
            self.report.given_up.push(took as f32);
            return;
        }
        let delay = caller.delay * f64::from(1 << operation.number);
        let delay = match (caller.heeds, asked, caller.jitter) {
            (Heeds::RetryAfter, Nanos(1..), _) => asked,
            (_, _, Jitter::None) => seconds(delay),
            (_, _, Jitter::Full) => seconds(self.random.between(0.0, delay)),
        };
        let next = Operation {
            number: operation.number + 1,
            ..operation
        };
        self.push(Nanos(now.0 + delay.0), Event::Retry(next));
    }
}
