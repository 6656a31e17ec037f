//! Who calls whom: arrivals, callers, backends.

use governor_core::units::Nanos;

/// Random numbers of one run.
#[derive(Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed.wrapping_add(0x5eed)))
    }
    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }
    /// Uniform in a range.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    /// Exponential with a mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }
    /// Normal, with a mean of 0 and a deviation of 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential(1.0)).sqrt();
        radius * (self.unit() * std::f64::consts::TAU).cos()
    }
    /// True with a probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
    /// One of so many.
    pub fn index(&mut self, count: usize) -> usize {
        self.0.usize(0..count)
    }
    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.0.u32(..)
    }
}

/// Seconds as [`Nanos`].
pub fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// [`Nanos`] as seconds.
pub fn as_seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// A kind of call: what the caller waits for and the backend does.
pub type Class = u8;

/// What a backend does with an attempt, by time and class.
pub type Behaviour = Box<dyn Fn(f64, Class, &mut Random) -> Mode>;

/// How long an attempt takes, in seconds, by time and class.
pub type Latency = Box<dyn Fn(f64, Class, &mut Random) -> f64>;

/// How a backend treats an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Serves it.
    Serve,
    /// Refuses it at once.
    Refuse,
    /// Answers at once that it failed.
    Fail,
    /// Answers at once that it has no room: 503.
    Full,
    /// The same, with `Retry-After`: so many seconds.
    Asks(u32),
    /// Never answers.
    Hang,
}

/// How long a backend takes.
pub enum Service {
    /// One queue, served in order, so many per second (by time).
    Fifo(Box<dyn Fn(f64) -> f64>),
    /// No queue: each attempt takes its own time.
    Parallel(Latency),
}

/// Under which ip:port callers reach a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// One, with others behind it: which of them serves, nobody sees.
    Together,
    /// Its own: the destination is a group of addresses, and callers choose.
    Alone,
}

/// A backend.
pub struct Backend {
    /// What it does.
    pub mode: Behaviour,
    /// How fast.
    pub service: Service,
    /// Where.
    pub reached: Reached,
}

impl Backend {
    /// A queue with a capacity over time.
    pub fn fifo(capacity: impl Fn(f64) -> f64 + 'static) -> Self {
        Self {
            mode: Box::new(|_, _, _| Mode::Serve),
            service: Service::Fifo(Box::new(capacity)),
            reached: Reached::Together,
        }
    }
    /// No queue, with a latency.
    pub fn parallel(latency: impl Fn(f64, Class, &mut Random) -> f64 + 'static) -> Self {
        Self {
            mode: Box::new(|_, _, _| Mode::Serve),
            service: Service::Parallel(Box::new(latency)),
            reached: Reached::Together,
        }
    }
    /// No queue, 1 ms and an exponential 5 ms.
    pub fn quick() -> Self {
        Self::parallel(|_, _, random| 0.001 + random.exponential(0.005))
    }
    /// With a behaviour.
    pub fn that(self, mode: impl Fn(f64, Class, &mut Random) -> Mode + 'static) -> Self {
        Self {
            mode: Box::new(mode),
            ..self
        }
    }
    /// With an ip:port of its own.
    pub fn alone(self) -> Self {
        Self {
            reached: Reached::Alone,
            ..self
        }
    }
}

/// How long a caller waits before it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// The full delay: retries arrive in waves.
    None,
    /// Uniform up to the delay.
    Full,
}

/// Whether a caller waits as long as `Retry-After` says, instead of its own delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heeds {
    /// It does not read it.
    Nothing,
    /// It does, as urllib3, got and curl do.
    RetryAfter,
}

/// What callers do.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// How long they wait for an answer, by class.
    pub timeout: [f64; 2],
    /// Tries after the first.
    pub retries: u32,
    /// Delay before the first retry, in seconds; doubles each time.
    pub delay: f64,
    /// Spread of the delay.
    pub jitter: Jitter,
    /// What it makes of being told to wait.
    pub heeds: Heeds,
    /// The user behind it leaves so many seconds after the first try, which it does not know.
    pub user_leaves: f64,
}

impl Caller {
    /// Waits a second and tries once.
    pub const PATIENT: Self = Self {
        timeout: [1.0, 1.0],
        retries: 0,
        delay: 0.1,
        jitter: Jitter::Full,
        heeds: Heeds::Nothing,
        user_leaves: f64::INFINITY,
    };

    /// Waits a second and tries four times.
    pub const fn retrying(jitter: Jitter) -> Self {
        Self {
            retries: 3,
            jitter,
            ..Self::PATIENT
        }
    }
}

/// One workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The node it runs on.
    pub node: usize,
    /// When it calls, and what, in order.
    pub arrivals: Vec<(f64, Class)>,
    /// The backends behind the address it calls.
    pub backends: Vec<usize>,
    /// What its callers do.
    pub caller: Caller,
}

/// All that is simulated.
pub struct World {
    /// Length in seconds.
    pub seconds: usize,
    /// Workloads; nodes are numbered from 0 without gaps.
    pub workloads: Vec<Workload>,
    /// Backends.
    pub backends: Vec<Backend>,
}

impl World {
    /// One workload, all backends behind one address.
    pub fn single(
        seconds: usize,
        arrivals: Vec<(f64, Class)>,
        backends: Vec<Backend>,
        caller: Caller,
    ) -> Self {
        let workload = Workload {
            node: 0,
            arrivals,
            backends: (0..backends.len()).collect(),
            caller,
        };
        Self {
            seconds,
            workloads: vec![workload],
            backends,
        }
    }

    /// The node of each workload.
    pub fn nodes(&self) -> Vec<usize> {
        self.workloads
            .iter()
            .map(|workload| workload.node)
            .collect()
    }
}

/// Independent arrivals at a mean rate per second, from one time to another.
pub fn poisson(random: &mut Random, rate: f64, from: f64, until: f64) -> Vec<(f64, Class)> {
    let mut arrivals = Vec::new();
    let mut time = from;
    loop {
        time += random.exponential(1.0 / rate);
        if time >= until {
            return arrivals;
        }
        arrivals.push((time, 0));
    }
}
