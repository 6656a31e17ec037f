//! Adaptive concurrency of one workload towards one destination.
//!
//! Dormant until distress. It wakes only when callers give up *and* either
//! nothing succeeds or the latency of what succeeds has left its baseline far behind
//! for three ticks in a row: a limiter that wakes on latency alone, or on any
//! give-up, becomes the outage (simulated: 6 -> 60 ms and nothing fails,
//! goodput 0.21 for ever; 1 of 3 backends hangs, 0.03 against a possible 0.67, and
//! 0.31 where it wakes on twice the usual latency and the others take 100 or 250 ms).
//!
//! Who waits in a queue waits nearly as long as who gives up: latency is only
//! high where it is an eighth of what callers wait, and always where it is half
//! of it. On a machine short of processors a few milliseconds become thirty, and
//! beside one hanging backend of three that looked like a queue (simulated: 0.11
//! against 0.67; in the lab 19 % of first tries at good backends refused).
//!
//! Awake it is AIMD on the latency signal, as in Netflix concurrency-limits
//! and TCP Vegas: x0.8 on a bad tick, +10 % on a good one where the limit is
//! used, from the healthy peak in flight. Where a sixth of the limit does not help,
//! it is no queue: what answers take then is the new baseline.
//!
//! In flight is a [`Window`] of two seconds: an exchange older than that is
//! parked (a long poll must not fill the limit), and one that never reports
//! frees itself.

use crate::cell::Cell;
use crate::params::{Params, concurrency};
use crate::units::Nanos;
use crate::window::{Cap, Window};

/// Length of a tick.
pub const TICK: Nanos = Nanos::from_millis(100);
/// Length of an epoch of the in-flight window: ten make the parking time, 2 s.
pub const IN_FLIGHT_EPOCH: Nanos = Nanos::from_millis(200);

/// Octaves of latency that are told apart, from 32 us to 33 s.
pub const OCTAVES: usize = 20;
const LOWEST_OCTAVE: u32 = 5;
/// Ticks that make "the last second".
const RECENT: u64 = 10;
/// Give-ups in the last second below which it never wakes.
const WAKE_COUNT: u64 = 3;
/// Share of the last second's outcomes below which it never wakes, percent.
const WAKE_PERCENT: u64 = 10;
/// Ticks of high latency in a row that wake it.
const WAKE_TICKS: u64 = 3;
/// Latency that wakes it is so many times the one that is high when it is awake.
const WAKE_TOLERANCES: u64 = 4;
/// Ticks in a row in which it was not needed after which it sleeps again.
const SLEEP_TICKS: u64 = 50;
/// Where latency is high although the limit is down to so small a part of what it was,
/// and nobody has given up meanwhile, that latency is what is usual now.
/// (Simulated: a service that has recovered and takes 100 or 300 ms by turns, goodput 0.44
/// for ever without it, 0.96 with it. By a quarter 0.98, but then 50 nodes in an overload
/// take a queue for it: 0.947 of capacity, with a sixth 0.954. That it must last three
/// ticks helps them too, and hinders where a thousand a second sway: for ever again.)
const IN_VAIN: u64 = 6;
/// After an outage more come at once than before it: so many times the healthy peak are let in.
/// (Simulated, with one: what sways after a stall 0.94, with two 0.99; a cold service is as well.)
const RETURNING: u64 = 2;
/// What it lets in at least where it wakes because a breaker closes, x 256.
const GUARD: u64 = 16 * ONE;
/// Latencies that make a median: of fewer it is noise, and they are added to those
/// of the next tick, for a second. (Simulated: 200 long polls beside short calls
/// that hang for 1.5 s, goodput 0.96 with fewer.)
const SAMPLES: u64 = 8;
/// A limit that is so many times what was in flight is not used. (Simulated: a
/// stall of 1.5 s every 5 s, goodput 0.51 where it grows all the same, 0.68.)
const MOST_UNUSED: u64 = 16;
/// How long callers wait where none was seen to give up, us.
const PATIENCE: u64 = 1_000_000;
/// The longest that is believed, us.
const LONGEST: u64 = 10_000_000;
/// What latency may always grow by without being high, us.
const SLACK: u64 = 2_000;
/// Fixed point of the limit and of the healthy peak.
const ONE: u64 = 1 << 8;

const COUNT_BITS: u32 = 21;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Its caller waited so long, us, and gave up.
    GaveUp {
        /// How long.
        after: u64,
    },
    /// It was told that there is no room.
    NoRoom,
    /// Neither: it says nothing about load.
    Otherwise,
}

/// The limiter of one workload and destination.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Limiter<C = u64> {
    /// Attempts in flight, younger than two seconds.
    in_flight: Window<C>,
    /// Outcomes of the last 16 ticks, packed as in `now`.
    recent: [C; 16],
    /// Latencies of this tick: one cell per octave, four counts of 16 bits.
    latency: [C; OCTAVES],
    /// Outcomes of this tick: other failures | give-ups | successes, 21 bits each.
    now: C,
    /// Number of the last finished tick; claimed by compare-and-swap.
    tick: C,
    /// Limit x 256; 0 is asleep.
    limit: C,
    /// Median latency when healthy, us.
    baseline: C,
    /// Most in flight when healthy, x 256; fades over about a minute.
    healthy_peak: C,
    /// Most in flight in this tick.
    peak: C,
    /// Attempts refused in this tick.
    refused: C,
    /// Ticks of high latency in a row.
    high: C,
    /// Ticks in a row in which it was not needed.
    unneeded: C,
    /// How long callers wait in vain, us: a mean that follows the last few.
    patience: C,
    /// The highest limit, x 256, that refused since somebody gave up.
    highest: C,
    /// The tick after which the latencies in the histogram begin.
    measured: C,
}

impl<C: Default> Default for Limiter<C> {
    fn default() -> Self {
        Self {
            in_flight: Window::default(),
            recent: core::array::from_fn(|_| C::default()),
            latency: core::array::from_fn(|_| C::default()),
            now: C::default(),
            tick: C::default(),
            limit: C::default(),
            baseline: C::default(),
            healthy_peak: C::default(),
            peak: C::default(),
            refused: C::default(),
            high: C::default(),
            unneeded: C::default(),
            patience: C::default(),
            highest: C::default(),
            measured: C::default(),
        }
    }
}

/// The in-flight epoch of a time.
#[inline(always)]
const fn epoch(now: Nanos) -> u64 {
    now.0 / IN_FLIGHT_EPOCH.0
}

/// Where a latency is counted: octave and quarter of it.
#[inline(always)]
pub const fn bucket(micros: u64) -> (usize, u32) {
    let micros = if micros < 1 << LOWEST_OCTAVE {
        1 << LOWEST_OCTAVE
    } else {
        micros
    };
    let octave = 63 - micros.leading_zeros();
    let quarter = (micros >> (octave - 2)) as u32 & 3;
    let octave = octave - LOWEST_OCTAVE;
    if octave >= OCTAVES as u32 {
        (OCTAVES - 1, 3)
    } else {
        (octave as usize, quarter)
    }
}

/// The four counts of an octave together.
#[inline(always)]
const fn all(counts: u64) -> u64 {
    (counts & 0xffff) + (counts >> 16 & 0xffff) + (counts >> 32 & 0xffff) + (counts >> 48)
}

/// The middle of a bucket, us.
#[inline(always)]
pub const fn middle(octave: usize, quarter: u32) -> u64 {
    let low = 1u64 << (octave as u32 + LOWEST_OCTAVE);
    low + low * (2 * quarter as u64 + 1) / 8
}

impl<C: Cell> Limiter<C> {
    /// Attempts in flight now.
    pub fn in_flight(&self, now: Nanos) -> u64 {
        self.in_flight.count(epoch(now))
    }

    /// The limit, where one is in force.
    #[inline(always)]
    pub fn limit(&self, p: &Params) -> Option<u64> {
        match p.concurrency {
            concurrency::FIXED => Some(p.limit_fixed as u64),
            concurrency::ADAPTIVE => match self.limit.load() / ONE {
                0 => None,
                limit => Some(limit),
            },
            _ => None,
        }
    }

    /// Takes a place in flight, if there is one.
    #[inline(always)]
    pub fn enter(&self, p: &Params, now: Nanos) -> bool {
        let cap = match self.limit(p) {
            Some(limit) => Cap::total(limit),
            None => Cap::ANY,
        };
        match self.in_flight.reserve(epoch(now), cap) {
            Some(count) => {
                self.peak.raise(count);
                true
            }
            // Asleep nothing is refused: the count lost a race, no more.
            None if cap == Cap::ANY => true,
            None => {
                self.refused.add(1);
                false
            }
        }
    }

    /// Takes a place without asking: probes, and exchanges that are only seen.
    #[inline(always)]
    pub fn enter_unasked(&self, now: Nanos) {
        self.in_flight.add(epoch(now), 1);
    }

    /// Leaves the place taken at `entered`, unless it was parked meanwhile.
    #[inline(always)]
    pub fn leave(&self, now: Nanos, entered: Nanos) {
        self.in_flight.remove(epoch(now), epoch(entered));
    }

    /// The breaker has closed. What comes back may be cold, and until the first callers have
    /// waited in vain for it nothing would tell: it wakes, and sleeps where nothing healthy was
    /// ever seen. Where the silence had brought the limit to its floor it begins anew: growing
    /// from there may take longer than the ramp (I4).
    #[inline(always)]
    pub fn restore(&self, p: &Params) {
        let peak = self.healthy_peak.load();
        let limit = peak * RETURNING;
        if self.limit.load() != 0 {
            self.begin(p, limit);
        } else if peak != 0 {
            // Nobody was in distress here: who seldom calls is not held to one or two at once.
            self.begin(p, if limit > GUARD { limit } else { GUARD });
        }
    }

    /// Awake, from that limit on.
    #[inline(always)]
    fn begin(&self, p: &Params, limit: u64) {
        let floor = p.limit_floor as u64 * ONE;
        self.limit.store(if limit > floor { limit } else { floor });
        self.unneeded.store(0);
        self.highest.store(0);
    }

    /// Counts a success and its latency in microseconds.
    #[inline(always)]
    pub fn success(&self, micros: u64) {
        let (octave, quarter) = bucket(micros);
        self.successes(1, octave, quarter);
    }

    /// Counts successes whose latency is in one [`bucket`]: [`crate::calm::MOST`] at most.
    #[inline(always)]
    pub fn successes(&self, number: u64, octave: usize, quarter: u32) {
        self.now.add(number);
        if let Some(cell) = self.latency.get(C::opaque(octave)) {
            let shift = quarter * 16;
            // A full count stays full: its neighbour must not be touched.
            if cell.load() >> shift & 0xffff < 0xff00 {
                cell.add(number << shift);
            }
        }
    }

    /// Counts a failure.
    #[inline(always)]
    pub fn failure(&self, failed: Failed) {
        self.now.add(match failed {
            Failed::GaveUp { .. } | Failed::NoRoom => 1 << COUNT_BITS,
            Failed::Otherwise => 1 << (2 * COUNT_BITS),
        });
        if let Failed::GaveUp { after } = failed {
            // Who is killed beside a long poll waited for minutes.
            let after = if after < LONGEST { after } else { LONGEST };
            let old = self.patience.load();
            self.patience.store(if old == 0 {
                after
            } else {
                old - old / 8 + after / 8
            });
        }
    }

    /// Finishes the tick, if one is due and no other CPU does it.
    #[inline(always)]
    pub fn tick(&self, p: &Params, now: Nanos) {
        let tick = now.0 / TICK.0;
        let last = self.tick.load();
        if tick <= last || p.concurrency != concurrency::ADAPTIVE {
            return;
        }
        if self.tick.compare_exchange(last, tick).is_ok() {
            C::finish_tick(self, p, last, tick);
        }
    }

    /// Finishes the tick `tick`, the one before being `last`. For whoever has
    /// claimed it.
    #[inline(always)]
    pub fn finish_tick(&self, p: &Params, last: u64, tick: u64) {
        let outcomes = self.now.load();
        self.now.sub(outcomes);
        let successes = outcomes & COUNT_MASK;
        let gave_up = outcomes >> COUNT_BITS & COUNT_MASK;
        C::remember(self, last, tick, outcomes);
        let limit = self.limit.load();
        let at_floor = limit > 0 && limit < (p.limit_floor as u64 + 1) * ONE;
        // One at a time is little: there a second decides.
        let median = C::take_median(self, tick, if at_floor { u64::MAX } else { SAMPLES });
        let refused = self.refused.load();
        self.refused.sub(refused);
        let peak = self.peak.load();
        self.peak.store(0);

        let baseline = self.baseline.load();
        let tolerance = p.latency_tolerance as u64;
        let high = baseline > 0 && median > self.high_from(tolerance, baseline);
        // Beside a backend that hangs somebody always gives up, and latency sways.
        let wakes = high && median > self.high_from(tolerance * WAKE_TOLERANCES, baseline);
        if wakes || high && limit > 0 {
            self.high.add(1);
        } else if median > 0 {
            self.high.store(0);
        }

        if limit == 0 {
            if !self.wake(p, successes + gave_up > 0) && successes > 0 {
                self.learn(median, high, gave_up, peak);
            }
            return;
        }
        if gave_up > 0 {
            self.highest.store(0);
        } else if refused > 0 {
            self.highest.raise(limit);
        }
        let in_vain = limit * IN_VAIN <= self.highest.load();
        if (at_floor || in_vain) && high && median < self.patience() * 3 / 8 {
            // The service is as fast as it gets: that, and not the past, is its baseline.
            // At worst that lets a queue grow to half of what callers wait.
            self.baseline.store(median);
            self.high.store(0);
            self.highest.store(0);
        }
        let slow = self.high.load() > 0;
        let bad = if successes > 0 { slow } else { gave_up > 0 };
        // A slow tick in which nobody was refused and nobody gave up does not need a limit:
        // else a service that is slow for a moment every few seconds keeps it awake for ever,
        // and a burst is refused long after the storm (seen in the lab, 10 s after it). Nor
        // does one at the floor in which nobody gave up: it refuses, and that does not help.
        if bad && gave_up > 0 || refused > 0 && !(at_floor && slow) {
            self.unneeded.store(0);
        } else if self.unneeded.add(1) + 1 >= SLEEP_TICKS || tick - last > SLEEP_TICKS {
            self.limit.store(0);
            self.high.store(0);
            return;
        }
        self.adapt(
            p,
            limit,
            bad,
            successes,
            refused > 0 || peak * MOST_UNUSED * ONE >= limit,
        );
    }

    /// Writes this tick's outcomes into the ring, and zeroes what was skipped.
    #[inline(always)]
    pub fn remember(&self, last: u64, tick: u64, outcomes: u64) {
        let skipped = tick - last;
        let mut i = 1;
        while i < 16 {
            if i >= skipped {
                break;
            }
            if let Some(cell) = self.recent.get((last + i) as usize & 15) {
                cell.store(0);
            }
            i += 1;
        }
        if let Some(cell) = self.recent.get(tick as usize & 15) {
            cell.store(outcomes);
        }
    }

    /// The median latency since the last one, us, where it is one of `enough` or of
    /// a second: empties the histogram. Else 0.
    #[inline(always)]
    pub fn take_median(&self, tick: u64, enough: u64) -> u64 {
        let mut total = 0;
        let mut i = 0;
        while i < OCTAVES {
            if let Some(cell) = self.latency.get(C::opaque(i)) {
                total += all(cell.load());
            }
            i += 1;
        }
        if total > 0 && total < enough && tick - self.measured.load() < RECENT {
            return 0;
        }
        self.measured.store(tick);
        if total == 0 {
            return 0;
        }
        // How many lie before the median, and the octave it falls into.
        let mut before = total.div_ceil(2);
        let (mut octave, mut counts) = (OCTAVES, 0);
        let mut i = 0;
        while i < OCTAVES {
            if let Some(cell) = self.latency.get(C::opaque(i)) {
                let v = cell.load();
                cell.sub(v);
                if octave == OCTAVES {
                    if before <= all(v) {
                        octave = i;
                        counts = v;
                    } else {
                        before -= all(v);
                    }
                }
            }
            i += 1;
        }
        if octave == OCTAVES {
            return 0;
        }
        let first = counts & 0xffff;
        let second = first + (counts >> 16 & 0xffff);
        let third = second + (counts >> 32 & 0xffff);
        let quarter = (before > first) as u32 + (before > second) as u32 + (before > third) as u32;
        middle(octave, quarter)
    }

    /// Wakes on distress: true if it did.
    #[inline(always)]
    fn wake(&self, p: &Params, traffic: bool) -> bool {
        if !traffic {
            return false;
        }
        let recent = C::recent(self);
        let successes = recent & COUNT_MASK;
        let gave_up = recent >> COUNT_BITS & COUNT_MASK;
        let all = successes + gave_up + (recent >> (2 * COUNT_BITS));
        let distress = gave_up >= WAKE_COUNT && gave_up * 100 >= WAKE_PERCENT * all;
        if !distress || (successes > 0 && self.high.load() < WAKE_TICKS) {
            return false;
        }
        self.begin(p, self.healthy_peak.load());
        true
    }

    /// Outcomes of the last second, packed as in `now`: two million of a kind fit.
    #[inline(always)]
    pub fn recent(&self) -> u64 {
        let tick = self.tick.load();
        let mut all = 0;
        let mut i = 0;
        while i < RECENT {
            if let Some(cell) = self.recent.get((tick.wrapping_sub(i)) as usize & 15) {
                all += cell.load();
            }
            i += 1;
        }
        all
    }

    /// Learns what healthy looks like. The baseline follows quickly downwards
    /// and at most 2 % per second upwards.
    #[inline(never)]
    fn learn(&self, median: u64, high: bool, gave_up: u64, peak: u64) {
        let baseline = self.baseline.load();
        let next = if median == 0 {
            baseline
        } else if baseline == 0 {
            median
        } else if median < baseline {
            baseline - (baseline - median) / 20
        } else {
            let up = median - baseline;
            let most = baseline / 500 + 1;
            baseline + if up < most { up } else { most }
        };
        self.baseline.store(next);
        if !high && gave_up == 0 {
            let old = self.healthy_peak.load();
            let faded = old - old / 512;
            let peak = peak * ONE;
            self.healthy_peak
                .store(if peak > faded { peak } else { faded });
        }
    }

    /// One awake tick: AIMD.
    #[inline(always)]
    fn adapt(&self, p: &Params, limit: u64, bad: bool, successes: u64, used: bool) {
        if bad {
            let floor = p.limit_floor as u64 * ONE;
            let less = limit * 4 / 5;
            self.limit.store(if less > floor { less } else { floor });
        } else if successes > 0 && used {
            // A tick without any outcome says nothing: one at a time and slower
            // than a tick, every other tick is empty. And a limit that nobody
            // comes near is not known to be right.
            let tenth = limit / 10;
            self.limit
                .store(limit + if tenth > ONE { tenth } else { ONE });
        }
    }

    /// How long callers wait, us.
    #[inline(always)]
    fn patience(&self) -> u64 {
        match self.patience.load() {
            0 => PATIENCE,
            known => known,
        }
    }

    /// The latency of successes above which it is high, us: so many percent of what is usual.
    #[inline(always)]
    fn high_from(&self, tolerance: u64, baseline: u64) -> u64 {
        let patience = self.patience();
        let (least, most) = (patience / 8, patience / 2);
        let much = baseline * tolerance / 100 + SLACK;
        if much < least {
            least
        } else if much < most {
            much
        } else {
            most
        }
    }
}
