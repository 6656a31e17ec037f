//! The sweeps that choose the defaults of the policy: each default is tried with smaller and larger
//! values in the storms in which it matters. Played in the simulator with the real law.
//!
//! | file | holds |
//! |---|---|
//! | [`trial`] | what is tried and measured |
//! | [`stand`] | what the figures say of a default |
//! | [`cpus`] | many runs on all CPUs |
//! | [`scenes`] | what storms are made of, and those that several controls share |
//! | [`budget`], [`retry`], [`breaker`], [`limiter`], [`waits`] | the defaults, by control, and their storms |

pub mod breaker;
pub mod budget;
pub mod cpus;
pub mod limiter;
pub mod retry;
pub mod scenes;
pub mod stand;
pub mod trial;
pub mod waits;

pub use trial::Trial;

/// All of them, in the order of the policy.
pub fn all() -> impl Iterator<Item = &'static Trial> {
    [
        budget::ALL,
        retry::ALL,
        breaker::ALL,
        limiter::ALL,
        waits::ALL,
    ]
    .into_iter()
    .flatten()
}
