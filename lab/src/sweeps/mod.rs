//! The sweeps that choose the defaults of the policy: each default is tried with smaller and larger
//! values in the storms in which it matters. Played in the simulator with the real law.
//!
//! | file | holds |
//! |---|---|
//! | [`trial`] | what is tried and measured, and whether the default is on the plateau |
//! | [`cpus`] | many runs on all CPUs |
//! | [`scenes`] | what storms are made of, and those that several controls share |
//! | [`budget`], [`breaker`], [`rest`] | the defaults, by control, and their storms |

pub mod breaker;
pub mod budget;
pub mod cpus;
pub mod rest;
pub mod scenes;
pub mod trial;

pub use trial::Trial;

/// All of them, in the order of CONTRACT.md.
pub fn all() -> impl Iterator<Item = &'static Trial> {
    [
        budget::ALL,
        rest::RETRY,
        breaker::ALL,
        rest::LIMITER_AND_PACING,
    ]
    .into_iter()
    .flatten()
}
