//! Which requests a faulty server fails, and how.
//!
//! A plan knows operations by their target, `/op/N`: a client that asks for them in order is led
//! through health and each kind of failure in one run, on the connections it keeps.

use std::ops::Range;

use super::Percent;

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An answer with this status.
    Status(u16),
    /// 429 with `Retry-After` of so many seconds.
    Throttle(u16),
    /// The request is read, the connection reset.
    Reset,
    /// The request is read and never answered.
    Hang,
    /// The request is read, the connection closed without an answer.
    Close,
}

/// What a plan goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// N, where the target is `/op/N`.
    pub operation: Option<u32>,
    /// How often this target was asked for, this time included.
    pub attempt: u32,
    /// How many requests the server had read before.
    pub number: u32,
}

/// Which requests fail. The first part that fits decides; where none fits the answer is 200.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    which: Which,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Operations { numbers: Range<u32>, tries: u32 },
    After(u32),
    Share(Percent),
}

impl Plan {
    /// Nothing fails.
    pub fn healthy() -> Self {
        Self::default()
    }

    /// The first `tries` tries of each of these operations fail.
    pub fn failing_first(self, numbers: Range<u32>, tries: u32, fault: Fault) -> Self {
        self.and(Which::Operations { numbers, tries }, fault)
    }

    /// Every try of these operations fails.
    pub fn failing(self, numbers: Range<u32>, fault: Fault) -> Self {
        self.failing_first(numbers, u32::MAX, fault)
    }

    /// Every request fails once the server has read so many.
    pub fn failing_after(self, requests: u32, fault: Fault) -> Self {
        self.and(Which::After(requests), fault)
    }

    /// This share of requests fails, evenly scattered, whatever they ask for. Of two shares the second
    /// holds the first: 15 and 30 are 15 of each.
    pub fn scattered(self, share: Percent, fault: Fault) -> Self {
        self.and(Which::Share(share), fault)
    }

    fn and(mut self, which: Which, fault: Fault) -> Self {
        self.0.push(Part { which, fault });
        self
    }

    /// How this request fails, if it does.
    pub fn fault(&self, asked: Asked) -> Option<Fault> {
        let part = self.0.iter().find(|part| part.which.holds(asked));
        part.map(|part| part.fault)
    }
}

impl Which {
    fn holds(&self, asked: Asked) -> bool {
        match self {
            Self::Operations { numbers, tries } => {
                let named = asked.operation.is_some_and(|one| numbers.contains(&one));
                named && asked.attempt <= *tries
            }
            Self::After(requests) => asked.number >= *requests,
            Self::Share(share) => share.draws(asked.number as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(operation: u32, attempt: u32) -> Asked {
        Asked {
            operation: Some(operation),
            attempt,
            number: 0,
        }
    }

    #[test]
    fn only_the_planned_tries_of_the_planned_operations_fail() {
        let plan = Plan::healthy()
            .failing_first(10..20, 2, Fault::Reset)
            .failing(20..30, Fault::Hang);
        assert_eq!(plan.fault(asked(9, 1)), None);
        assert_eq!(plan.fault(asked(10, 2)), Some(Fault::Reset));
        assert_eq!(plan.fault(asked(10, 3)), None);
        assert_eq!(plan.fault(asked(29, 100)), Some(Fault::Hang));
        let hot = Asked {
            operation: None,
            ..asked(0, 1)
        };
        assert_eq!(plan.fault(hot), None);
    }
}
