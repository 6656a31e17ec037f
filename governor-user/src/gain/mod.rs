//! How much load retries can make of a little: `retry-governor gain`.
//!
//! Each layer that tries again multiplies the tries of those above it: three
//! layers of three tries make 27 of one. What the layers of this node are is
//! put together from what the ledgers know (who calls whom, and the most tries
//! of one operation) and from who listens where.
//!
//! ```text
//! listeners -> who listens where, in every network namespace
//! ordered   -> which share of retries operators let through
//! build     -> hops from two looks at the ledgers, layers from the listeners
//! paths     -> the worst path to each hop, and how many operations there are
//! survival  -> whether a destination's capacity bears it
//! model     -> `gain --json`; table: the same for people
//! ```

mod allowed;
mod build;
pub mod listeners;
pub mod model;
mod ordered;
mod paths;
mod survival;
mod table;

pub use build::{Measured, gain};
pub use model::Gain;
pub use survival::{Capacity, judge};
pub use table::table;
