//! A discrete-event simulator of retry storms, so that the design of the law
//! stays justified.
//!
//! Open-loop callers with a timeout and retries call a service; between them a
//! [`Governor`] judges every attempt. [`real::Governed`] drives the real law,
//! the same source that runs in the kernel; [`simple::Simple`] and
//! [`shared_ratio::SharedRatio`] are the simpler laws it is compared with.
//! Deterministic: a scenario, a law and a seed give one result.
//!
//! | file | holds |
//! |---|---|
//! | [`mod@engine`] | the events: attempts, service, time-outs, retries |
//! | [`world`] | who calls whom: arrivals, callers, backends |
//! | [`series`] | what is measured, per second |
//! | [`real`] | the real law |
//! | [`fleet`] | what nodes tell each other |
//! | [`simple`], [`shared_ratio`] | simpler laws |
//! | [`law`] | which of them |
//! | [`scenario`] | the named scenarios, those of `docs/law.md` among them |
//! | [`busy`] | more of them, on a machine that is short of processors |
//! | [`clients`] | a budget per client against one per host |

pub mod busy;
pub mod clients;
pub mod engine;
pub mod fleet;
pub mod law;
pub mod real;
pub mod scenario;
pub mod series;
pub mod shared_ratio;
pub mod simple;
pub mod world;

pub use engine::{Governor, Ungoverned, run};
pub use law::{Law, simulate};
pub use scenario::Scenario;
pub use series::{Report, Series};
