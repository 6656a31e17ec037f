//! The breaker of one endpoint: a workload's view of one ip:port.
//!
//! It trips on silence, not on a rate. With one or two of three backends dead
//! behind one address a rate breaker turns a partial failure into a total one
//! (simulated: 2 of 3 refuse at 300/s, goodput 0.002 against a possible 0.33;
//! Brooker, "Will circuit breakers solve my problems?", 2022). Twenty failures
//! in a row with no success for two seconds do not happen to a destination
//! that is partly alive.
//!
//! The states are those of Nygard's "Release It!" and of linkerd2-proxy's
//! `consecutive_failures`, with what that lacks: a deadline on the probe.
//!
//! ```text
//! Closed --silence--> Open --openDuration over, lease won--> HalfOpen
//!   ^                  ^ ^------- probe failed, open time grows ----|
//!   |                  |--------- probe got an error: it is short --|
//!   |                  |--------- probe cancelled: next at once ----|
//!   |--------------------------- probe succeeded, ramp -------------|
//! ```
//!
//! A probe that is lost leaves it half-open: past its deadline another may go.

use crate::cell::Cell;
use crate::params::{Params, mode};
use crate::units::{BasisPoints, Millis};

const DEADLINE_BITS: u32 = 40;
const GENERATION_BITS: u32 = 16;
const BACKOFF_BITS: u32 = 4;
/// Bits of a generation that the breaker keeps.
pub const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Where the breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Attempts pass.
    Closed = 0,
    /// One probe is on its way.
    HalfOpen = 1,
    /// Attempts are refused.
    Open = 2,
}

/// What must succeed before the breaker closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// A connect.
    Connect = 0,
    /// An exchange: a stalled application still accepts connects.
    Exchange = 1,
}

impl Level {
    /// From its number.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Connect,
            _ => Self::Exchange,
        }
    }
}

/// Whether what an open breaker refuses is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Force {
    /// It is.
    Real = 0,
    /// It opened in audit, which let everything go.
    Rehearsed = 1,
}

/// The breaker's word, unpacked:
/// state 2 | level 1 | force 1 | backoff 4 | generation 16 | deadline 40 (ms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Where it stands.
    pub state: State,
    /// What must succeed before it closes.
    pub level: Level,
    /// What it was when it opened last.
    pub force: Force,
    /// How many probes have failed.
    pub backoff: u32,
    /// Counts the transitions; a probe carries the one it was sent under.
    pub generation: u32,
    /// Open: when a probe may go. Half-open: when the probe counts as lost.
    pub deadline: Millis,
}

impl View {
    /// From the word as stored.
    #[inline(always)]
    pub const fn unpack(word: u64) -> Self {
        Self {
            state: match word >> 62 {
                0 => State::Closed,
                1 => State::HalfOpen,
                _ => State::Open,
            },
            level: if word >> 61 & 1 == 0 {
                Level::Connect
            } else {
                Level::Exchange
            },
            force: if word >> 60 & 1 == 0 {
                Force::Real
            } else {
                Force::Rehearsed
            },
            backoff: (word >> (DEADLINE_BITS + GENERATION_BITS)) as u32 & ((1 << BACKOFF_BITS) - 1),
            generation: (word >> DEADLINE_BITS) as u32 & GENERATION_MASK,
            deadline: Millis(word & ((1 << DEADLINE_BITS) - 1)),
        }
    }

    #[inline(always)]
    const fn pack(self) -> u64 {
        (self.state as u64) << 62
            | (self.level as u64) << 61
            | (self.force as u64) << 60
            | (self.backoff as u64 & ((1 << BACKOFF_BITS) - 1)) << (DEADLINE_BITS + GENERATION_BITS)
            | (self.generation as u64 & GENERATION_MASK as u64) << DEADLINE_BITS
            | self.deadline.0 & ((1 << DEADLINE_BITS) - 1)
    }

    #[inline(always)]
    const fn next(self, state: State, deadline: Millis) -> Self {
        Self {
            state,
            deadline,
            generation: self.generation.wrapping_add(1) & GENERATION_MASK,
            ..self
        }
    }
}

/// The generation of an attempt that is no probe.
pub const NO_PROBE: u32 = u32::MAX;

/// An attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub now: Millis,
    /// How long it took.
    pub took: Millis,
    /// What it was.
    pub level: Level,
    /// What it met.
    pub met: Met,
    /// The generation it carried if it was a probe, else [`NO_PROBE`].
    pub probe: u32,
    /// A uniform random number.
    pub random: u32,
    /// Whether the share of failures trips the breaker.
    pub rate_trips: bool,
}

/// What an attempt met that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Met {
    /// Nobody. The next probe waits longer.
    Silence = 0,
    /// One who answers that there is no room. The next probe waits longer.
    NoRoom = 1,
    /// One who answers, if with an error: the endpoint lives, and what is wrong is
    /// often behind it. The next probe goes after the shortest open time.
    ///
    /// Of layers that call each other the inner one refuses the outer one's probe
    /// while its own breaker is open, and is asked again only by the next one. With
    /// all of them waiting 5 s each time, three were back 4.6 s after a stall of 90 s
    /// (p90 9.7, worst 18.7); now after 3.4 s (6.4, 9.8); one alone 2.6 (5.3, 7.5)
    /// (simulated, 3,000 stalls each).
    Error = 2,
}

/// What the breaker says to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Go.
    Pass,
    /// Refused.
    Refuse,
    /// The open time is over: go, if you win the lease.
    Candidate,
    /// It was open, but only in audit: go, as if it had never been.
    Rehearsed,
}

/// A change of state, for the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Move {
    /// Nothing changed.
    None = 0,
    /// Closed to open: silence.
    Tripped = 1,
    /// Half-open to open: the probe failed.
    Reopened = 2,
    /// Half-open to closed: the probe succeeded.
    Closed = 3,
}

impl Move {
    /// From its number.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Tripped,
            2 => Self::Reopened,
            3 => Self::Closed,
            _ => Self::None,
        }
    }
}

/// The breaker of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Breaker<C = u64> {
    word: C,
    /// Failures in a row.
    run: C,
    /// When the first of them came, ms.
    began: C,
    /// When an attempt last succeeded, ms.
    last_success: C,
    /// When it last opened, ms.
    opened: C,
    /// When it last closed after having been open, ms: start of the ramp.
    closed: C,
    /// A peak of healthy latency that fades, us: stands in for the p99.
    peak_latency: C,
    /// How long the last probe took that did not succeed, ms.
    held: C,
}

impl<C: Cell> Breaker<C> {
    /// The state now.
    #[inline(always)]
    pub fn view(&self) -> View {
        View::unpack(self.word.load())
    }

    /// When it last opened; [`Millis::NEVER`] if it never did.
    #[inline(always)]
    pub fn opened(&self) -> Millis {
        Millis(self.opened.load())
    }

    /// When an attempt last succeeded.
    #[inline(always)]
    pub fn last_success(&self) -> Millis {
        Millis(self.last_success.load())
    }

    /// Failures in a row.
    #[inline(always)]
    pub fn run(&self) -> u64 {
        self.run.load()
    }

    /// Whether an attempt may pass. `proven` is when a probe of any workload
    /// last found this ip:port alive: whoever opened before that may probe now.
    #[inline(always)]
    pub fn gate(&self, p: &Params, now: Millis, proven: Millis, random: u32) -> Gate {
        let seen = self.word.load();
        let view = View::unpack(seen);
        if matches!(view.force, Force::Rehearsed) && p.mode == mode::ENFORCE {
            return self.put_in_force(seen, view);
        }
        match view.state {
            State::Closed => self.ramp(p, now, random),
            State::HalfOpen if now.0 < view.deadline.0 => Gate::Refuse,
            State::Open if now.0 < view.deadline.0 && proven.0 <= self.opened.load() => {
                Gate::Refuse
            }
            _ => Gate::Candidate,
        }
    }

    /// What opened in audit has refused nothing, and a policy that is put in force
    /// while it is still open must not begin with an outage: it is closed, without
    /// a ramp. (A service that was back for a second was refused for 5-8 s in the
    /// lab.) Where it is still silent the run of failures stands, and the next one
    /// opens it.
    #[inline(always)]
    fn put_in_force(&self, seen: u64, view: View) -> Gate {
        if matches!(view.state, State::Closed) {
            return Gate::Pass;
        }
        // Lost race: another CPU has done it, or the probe has come back.
        let _ = self
            .word
            .compare_exchange(seen, view.next(State::Closed, Millis(0)).pack());
        Gate::Rehearsed
    }

    /// After it closed, admission grows evenly over the ramp.
    #[inline(always)]
    fn ramp(&self, p: &Params, now: Millis, random: u32) -> Gate {
        let closed = self.closed.load();
        if closed == 0 {
            return Gate::Pass;
        }
        let elapsed = now.0.saturating_sub(closed);
        if elapsed >= p.ramp {
            return Gate::Pass;
        }
        // At least 5 %, so that the ramp is never a wall.
        let share = (elapsed * 10_000).checked_div(p.ramp).unwrap_or(10_000);
        let share = if share < 500 { 500 } else { share };
        if BasisPoints(share as u32).hit(random) {
            Gate::Pass
        } else {
            Gate::Refuse
        }
    }

    /// Whether it lets everything pass, and will until something fails: no ramp is on.
    #[inline(always)]
    pub fn is_whole(&self, p: &Params, now: Millis) -> bool {
        now.quiet_for(Millis(self.closed.load()), Millis(p.ramp))
    }

    /// How long a probe may take: `probeTimeout`, or twice what healthy
    /// attempts take, whichever is longer.
    #[inline(always)]
    pub fn probe_deadline(&self, p: &Params, now: Millis) -> Millis {
        let slow = self.peak_latency.load() / 500;
        Millis(
            now.0
                + if slow > p.probe_timeout {
                    slow
                } else {
                    p.probe_timeout
                },
        )
    }

    /// Since when it could have probed, as the [`crate::lease`] sees it: later by
    /// [`HELD_WEIGHT`] times what its last probe took. Of workloads that wait for
    /// one lease those whose probes are over soon go first: six with a path that
    /// hangs, 5 s each, kept a seventh waiting for 30 s after its service was well.
    #[inline(always)]
    pub fn turn(&self, p: &Params) -> Millis {
        let view = self.view();
        let held = match view.state {
            // It never came back.
            State::HalfOpen => p.probe_timeout,
            _ => self.held.load(),
        };
        Millis(view.deadline.0 + held * HELD_WEIGHT)
    }

    /// The lease is ours: half-open until `deadline`. The generation the probe
    /// carries, or `None` if another CPU moved the breaker meanwhile: its probe
    /// may have come and gone since [`Breaker::gate`] said candidate.
    #[inline(always)]
    pub fn probe(&self, now: Millis, proven: Millis, deadline: Millis) -> Option<u32> {
        let seen = self.word.load();
        let view = View::unpack(seen);
        let due = now.0 >= view.deadline.0;
        match view.state {
            State::Closed => return None,
            State::HalfOpen if !due => return None,
            State::Open if !due && proven.0 <= self.opened.load() => return None,
            _ => {}
        }
        let next = view.next(State::HalfOpen, deadline);
        match self.word.compare_exchange(seen, next.pack()) {
            Ok(_) => Some(next.generation),
            Err(_) => None,
        }
    }

    /// An attempt succeeded after `latency` microseconds. `probe` is the
    /// generation it carried if it was one, else [`NO_PROBE`].
    #[inline(always)]
    pub fn success(&self, now: Millis, level: Level, probe: u32, latency: u64) -> Move {
        self.run.keep(0);
        self.last_success.keep(now.0);
        let peak = self.peak_latency.load();
        if latency > peak {
            self.peak_latency.store(latency);
        } else {
            self.peak_latency.keep(peak - peak / 1024);
        }
        let seen = self.word.load();
        let view = View::unpack(seen);
        match view.state {
            State::HalfOpen if probe == view.generation => {
                if matches!(view.level, Level::Exchange) && matches!(level, Level::Connect) {
                    return Move::None;
                }
                let closed = View {
                    backoff: 0,
                    ..view.next(State::Closed, Millis(0))
                };
                // The ramp starts before the state says closed, so that no CPU
                // sees the one without the other.
                self.closed.store(now.0);
                match self.word.compare_exchange(seen, closed.pack()) {
                    Ok(_) => Move::Closed,
                    Err(_) => Move::None,
                }
            }
            _ => Move::None,
        }
    }

    /// Attempts succeeded, the last one then. They say nothing of failures since.
    #[inline(always)]
    pub fn succeeded_before(&self, last: Millis, number: u32, longest: u64) {
        self.last_success.raise(last.0);
        let peak = self.peak_latency.load();
        let faded = peak - peak / 1024 * number as u64;
        self.peak_latency
            .keep(if longest > faded { longest } else { faded });
    }

    /// What succeeded before were connects only, where answers are what counts.
    #[inline(always)]
    pub fn unproven(&self) {
        self.last_success.store(0);
    }

    /// An attempt failed. May trip the breaker; a probe that failed opens it
    /// for longer, from when it was sent: one that waited in vain has waited.
    #[inline(always)]
    pub fn failure(&self, p: &Params, failure: &Failure) -> Move {
        let now = failure.now;
        let run = self.run.add(1) + 1;
        if run == 1 {
            self.began.store(now.0);
        }
        let seen = self.word.load();
        let view = View {
            force: if p.mode == mode::AUDIT {
                Force::Rehearsed
            } else {
                Force::Real
            },
            ..View::unpack(seen)
        };
        match view.state {
            State::HalfOpen if failure.probe == view.generation => {
                self.held.store(failure.took.0);
                let most = (1 << BACKOFF_BITS) - 1;
                let (backoff, wait) = match failure.met {
                    Met::Error => (view.backoff, 0),
                    _ if view.backoff < most => (view.backoff + 1, view.backoff + 1),
                    _ => (most, most),
                };
                let open = View { backoff, ..view };
                let deadline =
                    now.0.saturating_sub(failure.took.0) + open_time(p, wait, failure.random);
                let open = open.next(State::Open, Millis(deadline));
                self.open(seen, open, now, Move::Reopened)
            }
            State::Closed => {
                let last = Millis(self.last_success.load());
                let silent =
                    run >= p.silence_failures as u64 && now.quiet_for(last, Millis(p.silence_for));
                // An answer, if an error, is not the silence of an interval that was not
                // seen whole: that is so of a governor that has just begun, and of a service
                // that is called every minute. Where six of ten requests got a 503 one
                // workload in 36 began with seven of them, and 167 first tries were refused
                // (lab, governor-chaos).
                let interval = Millis(p.breaker_interval);
                let seen_whole = matches!(failure.met, Met::Silence)
                    || now.quiet_for(Millis(self.began.load()), interval);
                let never = run >= p.consecutive_failures as u64
                    && seen_whole
                    && now.quiet_for(last, interval);
                if !(silent || never || failure.rate_trips) {
                    return Move::None;
                }
                self.held.store(0);
                let open = View {
                    level: failure.level,
                    backoff: 0,
                    ..view
                };
                let deadline = now.0 + open_time(p, 0, failure.random);
                let open = open.next(State::Open, Millis(deadline));
                self.open(seen, open, now, Move::Tripped)
            }
            _ => Move::None,
        }
    }

    /// A probe ended without saying anything (cancelled by its caller): the
    /// next one may go at once, and the open time is not doubled.
    #[inline(always)]
    pub fn probe_lost(&self, now: Millis, generation: u32, took: Millis) {
        let seen = self.word.load();
        let view = View::unpack(seen);
        if matches!(view.state, State::HalfOpen) && view.generation == generation {
            self.held.store(took.0);
            // Lost race: another CPU moved it, which is as good.
            let _ = self
                .word
                .compare_exchange(seen, view.next(State::Open, now).pack());
        }
    }

    #[inline(always)]
    fn open(&self, seen: u64, open: View, now: Millis, moved: Move) -> Move {
        match self.word.compare_exchange(seen, open.pack()) {
            Ok(_) => {
                self.opened.store(now.0);
                moved
            }
            Err(_) => Move::None,
        }
    }
}

/// How many times what its last probe took a workload waits behind others for the
/// next one: six that take 5 s each are served in turn every 30 s, so all of them
/// go behind one whose probe took a second. Who has waited longer than that goes
/// first all the same: nobody starves.
const HELD_WEIGHT: u64 = 8;

/// Failed probes that do not yet lengthen the open time. Most stalls are short:
/// with the first failure doubling already, a stall of 5 s was over 2-8 s later,
/// now 2-3 s (simulated, ten seeds); what 250 nodes send into one of 20 or 90 s
/// is no more.
const PATIENCE: u32 = 2;

/// `base` doubled with each failed probe after the first two, at most `max`, jittered evenly by +-`open_jitter`
/// (linkerd2-proxy's exponential backoff has the same three parameters).
#[inline(always)]
fn open_time(p: &Params, backoff: u32, random: u32) -> u64 {
    let time = p.open_base << (backoff.saturating_sub(PATIENCE) & 15);
    let time = if time > p.open_max { p.open_max } else { time };
    let swing = BasisPoints(p.open_jitter).of(time);
    // Uniform in [time - swing, time + swing].
    time - swing + ((2 * swing * random as u64) >> 32)
}
