//! A budget as Finagle, Linkerd and the Gateway API have it: retries in ten
//! seconds <= 10 % of successes + a reserve, spent as fast as asked for.

use std::collections::VecDeque;

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Budgeting {
    /// Retries per success.
    pub share: f64,
    /// Retries per ten seconds beyond that.
    pub reserve: f64,
}

impl Budgeting {
    /// 10 % and 10/s.
    pub const AT_ONCE: Self = Self {
        share: 0.1,
        reserve: 100.0,
    };
}

#[derive(Clone, Copy, Default)]
struct Second {
    number: u64,
    retries: u32,
    successes: u32,
}

/// The counts.
#[derive(Default)]
pub(super) struct Budget {
    seconds: VecDeque<Second>,
}

impl Budget {
    fn current(&mut self, time: f64) -> &mut Second {
        let number = time as u64;
        while self
            .seconds
            .front()
            .is_some_and(|s| s.number + 10 <= number)
        {
            self.seconds.pop_front();
        }
        if self.seconds.back().is_none_or(|s| s.number != number) {
            self.seconds.push_back(Second {
                number,
                ..Second::default()
            });
        }
        let last = self.seconds.len() - 1;
        &mut self.seconds[last]
    }

    pub(super) fn earn(&mut self, time: f64) {
        self.current(time).successes += 1;
    }

    pub(super) fn charge(&mut self, budgeting: &Budgeting, time: f64) -> bool {
        self.current(time);
        let successes: u32 = self.seconds.iter().map(|s| s.successes).sum();
        let retries: u32 = self.seconds.iter().map(|s| s.retries).sum();
        let allowance = budgeting.share * f64::from(successes) + budgeting.reserve;
        let fits = f64::from(retries + 1) <= allowance;
        if fits {
            self.current(time).retries += 1;
        }
        fits
    }
}
