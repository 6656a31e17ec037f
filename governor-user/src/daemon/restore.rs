//! The staged return of retries. The kernel computes the percent from the start
//! and the stages, and goes on alone when nobody watches. Who watches can only
//! move the start: forward by what has passed (the stage is held), or to the
//! stage before (it falls back). Pure: time and outcomes are given.
//!
//! A stage is too bad while its failure rate is more than `hold_above` over that
//! at its beginning. Then its clock stands. When that lasts for a whole `every`,
//! or is [`FAR`] times as much over for [`SPAN`], it falls back one stage; the
//! first begins anew. A stage that is fallen back to keeps the rate it is
//! compared with: a service that got worse is not the new normal.
//!
//! Its clock stands as well while [`MOST`] attempts fail, however many did
//! before: more retries help nobody then. That is no reason to fall back.

mod failing;

use governor_core::order::{Order, Told};
use governor_core::units::{BasisPoints, Nanos};

pub use failing::{Asked, Ended, Failing, OfOne};

/// What ended so long ago is recent.
pub const SPAN: Nanos = Nanos::from_secs(5);
/// How many times `hold_above` is far above; at least 20 points, because 20
/// outcomes can't tell less from chance.
const FAR: u32 = 4;
const FAR_AT_LEAST: u32 = 2_000;
/// A stage is held while more fail than these.
const MOST: BasisPoints = BasisPoints(5_000);
/// How much of a held stage is left at least: the kernel must not go on between
/// two looks, also when one is late; if no more come, it does.
const LEFT: u64 = SPAN.0;
/// A stage that began so long ago began unseen: what it began with is not known.
const UNSEEN: Nanos = Nanos::from_secs(2);
/// No order is held up for longer, counted from when it was given.
const HELD_UP: Nanos = Nanos::from_secs(48 * 3_600);
/// Held above so much, unless ordered otherwise.
pub const USUAL_ABOVE: BasisPoints = BasisPoints(500);

/// What is known of the stage that a restore is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    stage: usize,
    /// When it began, however long its clock stood since.
    entered: Nanos,
    looked: Nanos,
    held: Option<Held>,
    /// Since when it is too bad, or last began anew.
    bad: Option<Nanos>,
    far: Option<Nanos>,
    failing: Option<Failing>,
}

/// A stage whose clock stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Since when.
    pub since: Nanos,
    /// Why, now.
    pub why: Why,
}

/// Why a stage is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// More fail than when it began; it falls back.
    Worse,
    /// Most fail, as they did when it began.
    Most,
}

impl Watch {
    const fn new(stage: usize, entered: Nanos, looked: Nanos) -> Self {
        Self {
            stage,
            entered,
            looked,
            held: None,
            bad: None,
            far: None,
            failing: None,
        }
    }

    /// Since when the stage is held, and why.
    pub const fn held(&self) -> Option<Held> {
        self.held
    }

    /// When it falls back, or begins anew, if it stays as it is.
    pub fn falls_back(&self, order: &Order) -> Option<Nanos> {
        self.bad.map(|since| Nanos(since.0 + order.stage_every))
    }

    /// The share of attempts that fail in this stage.
    pub const fn failing(&self) -> Option<Failing> {
        self.failing
    }
}

/// A move of a restore, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What happened.
    pub what: What,
    /// Percent of retries admitted from now on.
    pub percent: u8,
    /// The share of attempts that fail.
    pub failing: Option<Failing>,
    /// The share when the stage began.
    pub began_with: Option<BasisPoints>,
}

/// See [`Step::what`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A stage has begun.
    Begun,
    /// Its clock stands.
    Held(Why),
    /// Its clock goes on.
    Released,
    /// Its clock goes on, because it was held up long enough.
    HeldUpTooLong,
    /// From this percent to a lower one.
    FellBack(u8),
    /// The first stage begins anew.
    Again,
}

/// Looks at a restore: the order as it is to be from now on, and what is to be
/// told. `failing` is asked what share of the attempts that ended since a time failed.
pub fn look(
    order: &Order,
    watch: &mut Option<Watch>,
    failing: impl Fn(Nanos) -> Option<Failing>,
    now: Nanos,
) -> (Order, Option<Step>) {
    let Some((stage, percent)) = order.restoring(now) else {
        *watch = None;
        return (*order, None);
    };
    let began = Nanos(order.off_until + stage as u64 * order.stage_every);
    match watch {
        Some(watch) if watch.stage == stage => {
            let mut order = *order;
            let (of_stage, of_all) = (failing(watch.entered), failing(Nanos(0)));
            // Whoever calls most is heard first: it does not decide before the others are heard.
            let others = of_all.is_some_and(|all| all.asked == Asked::Several);
            let of_stage = of_stage.filter(|of| of.asked == Asked::Several || !others);
            let most = of_all.filter(|failing| failing.share > MOST);
            watch.failing = most.or(of_stage).or(of_all);
            let look = Look {
                over: over(&mut order, of_stage),
                most: most.is_some(),
                began,
                now,
            };
            let what = watch.judge(&mut order, look);
            let step = what.map(|what| watch.step(what, &order));
            (order, step)
        }
        _ => {
            let failing = failing(Nanos(0));
            let share = failing.map(|failing| failing.share);
            let seen = now.since(began) <= UNSEEN;
            let known = order.began_with.get();
            let began_with = if seen { share.or(known) } else { known };
            let order = Order {
                began_with: began_with.map_or(Told::NOTHING, Told::share),
                ..*order
            };
            *watch = Some(Watch::new(stage, began, now));
            // Who ordered the restore just now was told of its first stage.
            let news = seen && order.off_from != began.0;
            let step = news.then_some(Step {
                what: What::Begun,
                percent,
                failing,
                began_with,
            });
            (order, step)
        }
    }
}

/// What a stage is judged by.
struct Look {
    /// By how much more than at its beginning fails, basis points.
    over: u32,
    /// Whether most fail.
    most: bool,
    /// When the kernel says that the stage began.
    began: Nanos,
    now: Nanos,
}

/// By how much more than at the beginning of its stage fails; 0 where there is no judgement.
fn over(order: &mut Order, failing: Option<Failing>) -> u32 {
    let Some(Failing { share, .. }) = failing else {
        return 0;
    };
    let Some(began_with) = order.began_with.get() else {
        // The first that is known of it.
        order.began_with = Told::share(share);
        return 0;
    };
    share.0.saturating_sub(began_with.0)
}

impl Watch {
    fn step(&self, what: What, order: &Order) -> Step {
        Step {
            what,
            percent: order.stages.get(self.stage).copied().unwrap_or(100),
            failing: self.failing,
            began_with: order.began_with.get(),
        }
    }

    /// Holds the stage, lets it go on, or falls back.
    fn judge(&mut self, order: &mut Order, looked: Look) -> Option<What> {
        let Look { now, began, .. } = looked;
        let passed = now.since(self.looked);
        self.looked = now;
        let above = order.hold_above.get().unwrap_or(USUAL_ABOVE).0;
        let why = match looked.over > above {
            true => Some(Why::Worse),
            false => looked.most.then_some(Why::Most),
        };
        let too_long = now.0 >= order.off_from.saturating_add(HELD_UP.0);
        let Some(why) = why.filter(|_| !too_long) else {
            (self.bad, self.far) = (None, None);
            let released = match why {
                None => What::Released,
                Some(_) => What::HeldUpTooLong,
            };
            return self.held.take().map(|_| released);
        };
        let since = self.held.map_or(now, |held| held.since);
        let news = self.held.replace(Held { since, why }).is_none();
        let worse = why == Why::Worse;
        self.bad = worse.then(|| self.bad.unwrap_or(now));
        let far = looked.over > (above * FAR).max(FAR_AT_LEAST);
        self.far = (worse && far).then(|| self.far.unwrap_or(now));
        let lasted =
            |since: Option<Nanos>, long: Nanos| since.is_some_and(|s| now.since(s) >= long);
        let for_long = lasted(self.bad, Nanos(order.stage_every));
        if self.stage == 0 && for_long {
            self.bad = Some(now);
            order.off_until = now.0;
            return Some(What::Again);
        }
        if self.stage > 0 && (for_long || lasted(self.far, SPAN)) {
            return Some(self.fall_back(order, now));
        }
        let every = order.stage_every;
        let ran = now.since(began);
        let stands_at = ran.since(passed).0.min(every.saturating_sub(LEFT));
        order.off_until += ran.0 - stands_at;
        news.then_some(What::Held(why))
    }

    fn fall_back(&mut self, order: &mut Order, now: Nanos) -> What {
        let from = order.stages.get(self.stage).copied().unwrap_or(100);
        let failing = self.failing;
        *self = Self::new(self.stage - 1, now, now);
        // Told with the step; the stage itself is judged by what is yet to come.
        self.failing = failing;
        order.off_until = now.0 - self.stage as u64 * order.stage_every;
        What::FellBack(from)
    }
}

impl Step {
    /// In plain words. `workload` names one.
    pub fn in_words(&self, scope: &str, workload: impl Fn(u64) -> String) -> String {
        let percent = self.percent;
        let moved = match self.what {
            What::Begun => format!("{percent} % of retries to {scope} are admitted"),
            What::Held(_) => format!("retries to {scope} are held at {percent} %"),
            What::Released => format!("retries to {scope} go on from {percent} %"),
            What::HeldUpTooLong => {
                format!("retries to {scope} go on from {percent} % after two days")
            }
            What::FellBack(from) => {
                format!("retries to {scope} fall back from {from} % to {percent} %")
            }
            What::Again => format!("retries to {scope} begin anew at {percent} %"),
        };
        let Some(failing) = self.failing else {
            return format!("{moved}: too few attempts end to tell how many fail");
        };
        let mut text = format!("{moved}: {} of attempts fail", share(failing.share));
        match (self.what, self.began_with) {
            (What::Held(Why::Most), _) => {
                text.push_str(", more than half (`retry-governor retries on` ends it)");
            }
            (What::Begun, _) | (_, None) => {}
            (_, Some(before)) => {
                text.push_str(&format!(", {} when the stage began", share(before)));
            }
        }
        let bad = matches!(self.what, What::Held(_) | What::FellBack(_) | What::Again);
        if let Some((worst, of_it)) = failing.worst.filter(|_| bad) {
            text.push_str(&format!("; worst: {}, {}", workload(worst), share(of_it)));
        }
        text
    }
}

/// `31 %`, `0.4 %`.
pub fn share(share: BasisPoints) -> String {
    let percent = f64::from(share.0) / 100.0;
    if percent > 0.0 && percent < 1.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

#[cfg(test)]
mod tests;
