//! What the governor sees and does, as `status --json` has it, and as text.
//!
//! [`model`] is the shape, [`build`] makes it from a snapshot of the ledgers and
//! the names of things, [`mod@table`], [`mod@detail`] and [`mod@summary`] show it to people.

mod attempts;
mod build;
mod clock;
mod destination;
mod detail;
mod histogram;
pub mod model;
mod probe;
mod recent;
mod samples;
mod summary;
mod table;
#[cfg(test)]
mod tests;

pub use attempts::Attempts;
pub use build::{Names, label};
pub use destination::ended;
pub use detail::detail;
pub use model::Status;
pub use probe::held;
pub use samples::Samples;
pub use summary::summary;
pub use table::table;
