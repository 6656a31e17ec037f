//! How many tries of one operation a policy in force lets through.

use governor_core::params::{Params, mode};

use super::ordered::Share;

/// The tries that were seen of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Known to belong together: what rules may refuse.
    pub known: u64,
    /// Guessed: connects of threads without a history.
    pub guessed: u64,
}

impl Tries {
    /// The most.
    pub fn most(self) -> u64 {
        self.known.max(self.guessed).max(1)
    }

    /// Whether that is a guess.
    pub fn is_guess(self) -> bool {
        self.guessed > self.known.max(1)
    }

    /// How many of them pass, at this rate of first tries a second. What is
    /// guessed is never refused (I2). Of an idle destination the reserve's
    /// share is not known: only the count of tries is bounded.
    pub fn allowed(self, p: Option<&Params>, ordered: Share, first: f64) -> f64 {
        let guessed = self.guessed.max(1) as f64;
        let known = self.known.max(1) as f64;
        let Some(p) = p.filter(|p| p.mode == mode::ENFORCE) else {
            return known.max(guessed);
        };
        let retries = (known - 1.0).min(f64::from(p.attempts));
        let budget = match p.budget_enabled != 0 && first > 0.0 {
            true => retries_each(p, first),
            false => f64::INFINITY,
        };
        let admitted = (retries * ordered.0).min(budget);
        (1.0 + admitted).max(guessed)
    }
}

/// Retries that the budget grants to each first try, at most: the percentage
/// while all goes well, and the reserve (`governor_core::budget`).
fn retries_each(p: &Params, first: f64) -> f64 {
    let interval = p.budget_epoch as f64 * 10.0 / 1e9;
    let per_second = |count: u32| f64::from(count) / interval.max(1e-9);
    let tenth = (first / 10.0).max(per_second(p.reserve_floor));
    let reserve = per_second(p.reserve_ceiling).min(tenth);
    f64::from(p.budget_percent) / 10_000.0 + reserve / first
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Tries = Tries {
        known: 3,
        guessed: 0,
    };

    #[test]
    fn without_a_policy_that_enforces_everything_passes() {
        assert_eq!(THREE.allowed(None, Share::ALL, 10.0), 3.0);
        let audit = Params {
            mode: mode::AUDIT,
            ..Params::DEFAULT
        };
        assert_eq!(THREE.allowed(Some(&audit), Share::ALL, 10.0), 3.0);
    }

    #[test]
    fn a_layer_that_may_not_retry_multiplies_by_one() {
        let p = Params {
            attempts: 0,
            ..Params::DEFAULT
        };
        assert_eq!(THREE.allowed(Some(&p), Share::ALL, 0.0), 1.0);
    }

    #[test]
    fn the_budget_grants_a_tenth_and_its_reserve() {
        // 100/s: a tenth of the successes, and a reserve of a tenth.
        let busy = THREE.allowed(Some(&Params::DEFAULT), Share::ALL, 100.0);
        assert!((busy - 1.2).abs() < 1e-9, "{busy}");
        // 1/s: a tenth, and the reserve's floor of one a second.
        let quiet = THREE.allowed(Some(&Params::DEFAULT), Share::ALL, 1.0);
        assert!((quiet - 2.1).abs() < 1e-9, "{quiet}");
        // Idle, or without a budget: as often as callers do.
        assert_eq!(THREE.allowed(Some(&Params::DEFAULT), Share::ALL, 0.0), 3.0);
        let unbounded = Params {
            budget_enabled: 0,
            ..Params::DEFAULT
        };
        assert_eq!(THREE.allowed(Some(&unbounded), Share::ALL, 100.0), 3.0);
    }

    #[test]
    fn of_any_number_of_tries_those_pass_that_the_policy_and_orders_let_through() {
        let many = Tries {
            known: 255,
            guessed: 0,
        };
        let p = Params {
            attempts: 10,
            budget_enabled: 0,
            ..Params::DEFAULT
        };
        assert_eq!(many.allowed(Some(&p), Share::ALL, 10.0), 11.0);
        assert_eq!(many.allowed(Some(&p), Share(0.1), 10.0), 2.0);
        assert_eq!(many.allowed(Some(&p), Share(0.0), 10.0), 1.0);
        // Nobody carries out an order where no policy enforces.
        assert_eq!(many.allowed(None, Share(0.0), 10.0), 255.0);
    }

    #[test]
    fn what_is_guessed_is_never_refused() {
        let tries = Tries {
            known: 1,
            guessed: 5,
        };
        assert!(tries.is_guess());
        assert_eq!(
            tries.allowed(Some(&Params::DEFAULT), Share::ALL, 100.0),
            5.0
        );
        assert!(!THREE.is_guess());
    }
}
