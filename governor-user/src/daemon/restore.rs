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

use governor_core::order::{Order, Told};
use governor_core::units::{BasisPoints, Nanos};

/// Outcomes so long ago still count.
pub const SPAN: Nanos = Nanos::from_secs(5);
/// With fewer outcomes there is no judgement.
const ENOUGH: u64 = 20;
/// How many times `hold_above` is far above; at least 20 points, because 20
/// outcomes can't tell less from chance.
const FAR: u32 = 4;
const FAR_AT_LEAST: u32 = 2_000;
/// How much of a held stage is left at least: the kernel must not go on between
/// two looks, also when one is late; if no more come, it does.
const LEFT: u64 = SPAN.0;
/// A stage that began so long ago began unseen: what it began with is not known.
const UNSEEN: Nanos = Nanos::from_secs(2);
/// No order is held up for longer, counted from when it was given.
const HELD_UP: Nanos = Nanos::from_secs(48 * 3_600);
/// Held above so much, unless ordered otherwise.
pub const USUAL_ABOVE: BasisPoints = BasisPoints(500);

/// How attempts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Successes.
    pub well: u64,
    /// Failures; denials are none.
    pub badly: u64,
}

impl Ended {
    /// The share of failures, where there are enough outcomes to tell.
    pub fn failing(self) -> Option<BasisPoints> {
        let all = self.well.saturating_add(self.badly);
        let share = (u128::from(self.badly) * 10_000).checked_div(u128::from(all));
        let share = share.and_then(|share| u32::try_from(share).ok());
        share.filter(|_| all >= ENOUGH).map(BasisPoints)
    }
}

/// What is known of the stage that a restore is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    stage: usize,
    /// When it began, however long its clock stood since.
    entered: Nanos,
    looked: Nanos,
    held: Option<Nanos>,
    far: Option<Nanos>,
    failing: Option<BasisPoints>,
}

impl Watch {
    fn new(stage: usize, entered: Nanos, looked: Nanos) -> Self {
        Self {
            stage,
            entered,
            looked,
            held: None,
            far: None,
            failing: None,
        }
    }

    /// Since when the stage is held.
    pub const fn held(&self) -> Option<Nanos> {
        self.held
    }

    /// The share of attempts that fail in this stage.
    pub const fn failing(&self) -> Option<BasisPoints> {
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
    pub failing: Option<BasisPoints>,
    /// The share when the stage began.
    pub began_with: Option<BasisPoints>,
}

/// See [`Step::what`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A stage has begun.
    Begun,
    /// Its clock stands.
    Held,
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
/// told. `ended` is asked how attempts ended since a time; of the last [`SPAN`] at most.
pub fn look(
    order: &Order,
    watch: &mut Option<Watch>,
    ended: impl Fn(Nanos) -> Ended,
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
            watch.failing = ended(watch.entered).failing();
            let what = watch.judge(&mut order, began, now);
            let step = what.map(|what| watch.step(what, &order));
            (order, step)
        }
        _ => {
            let failing = ended(Nanos(0)).failing();
            let seen = now.since(began) <= UNSEEN;
            let known = order.began_with.get();
            let began_with = if seen { failing.or(known) } else { known };
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
    fn judge(&mut self, order: &mut Order, began: Nanos, now: Nanos) -> Option<What> {
        let passed = now.since(self.looked);
        self.looked = now;
        let over = self.over(order);
        let above = order.hold_above.get().unwrap_or(USUAL_ABOVE).0;
        let too_long = now.0 >= order.off_from.saturating_add(HELD_UP.0);
        if over <= above || too_long {
            self.far = None;
            let released = self.held.take();
            let why = if over <= above {
                What::Released
            } else {
                What::HeldUpTooLong
            };
            return released.map(|_| why);
        }
        let news = self.held.is_none();
        let held = now.since(*self.held.get_or_insert(now)).0;
        self.far = (over > (above * FAR).max(FAR_AT_LEAST)).then(|| self.far.unwrap_or(now));
        let far = self.far.is_some_and(|since| now.since(since) >= SPAN);
        if self.stage == 0 && held >= order.stage_every {
            self.held = Some(now);
            order.off_until = now.0;
            return Some(What::Again);
        }
        if self.stage > 0 && (held >= order.stage_every || far) {
            return Some(self.fall_back(order, now));
        }
        let every = order.stage_every;
        let ran = now.since(began);
        let stands_at = ran.since(passed).0.min(every.saturating_sub(LEFT));
        order.off_until += ran.0 - stands_at;
        news.then_some(What::Held)
    }

    /// By how much more than at its beginning fails; 0 where there is no judgement.
    fn over(&self, order: &mut Order) -> u32 {
        let Some(failing) = self.failing else {
            return 0;
        };
        let Some(began_with) = order.began_with.get() else {
            // The first that is known of it.
            order.began_with = Told::share(failing);
            return 0;
        };
        failing.0.saturating_sub(began_with.0)
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
    /// In plain words.
    pub fn in_words(&self, scope: &str) -> String {
        let percent = self.percent;
        let moved = match self.what {
            What::Begun => format!("{percent} % of retries to {scope} are admitted"),
            What::Held => format!("retries to {scope} are held at {percent} %"),
            What::Released => format!("retries to {scope} go on from {percent} %"),
            What::HeldUpTooLong => {
                format!("retries to {scope} go on from {percent} % after two days")
            }
            What::FellBack(from) => {
                format!("retries to {scope} fall back from {from} % to {percent} %")
            }
            What::Again => format!("retries to {scope} begin anew at {percent} %"),
        };
        format!("{moved}: {}", self.why())
    }

    fn why(&self) -> String {
        match (self.failing, self.began_with) {
            (None, _) => "too few attempts end to tell how many fail".to_owned(),
            (Some(now), None) => format!("{} of attempts fail", share(now)),
            (Some(now), Some(_)) if self.what == What::Begun => {
                format!("{} of attempts fail", share(now))
            }
            (Some(now), Some(before)) => format!(
                "{} of attempts fail, {} when the stage began",
                share(now),
                share(before)
            ),
        }
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
