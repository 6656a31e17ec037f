//! Policies: what an operator may ask for, read strictly, and the table that
//! picks the policy of one attempt.
//!
//! The way of a policy: [`load`] reads files, [`yaml`] makes a tree that knows
//! its lines, [`check`] turns the tree into the types of [`schema`] and names
//! every mistake, [`set`] looks for mistakes between policies, [`select`]
//! compiles the lot into what the kernel looks up.

mod check;
pub mod choices;
pub mod default;
pub mod error;
mod globs;
mod kinds;
pub mod load;
pub mod notes;
pub mod prefix;
mod reader;
pub mod rules;
pub mod schema;
pub mod select;
mod set;
pub mod show;
pub mod units;
pub mod yaml;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod select_tests;
#[cfg(test)]
mod set_tests;

pub use error::PolicyError;
pub use schema::Policy;

/// The policies of one text, or every mistake in it. Pure: no file is opened;
/// `file` only names the text in errors.
pub fn parse(text: &str, file: &str) -> Result<Vec<Policy>, Vec<PolicyError>> {
    let policies = check::read(text, file)?;
    set::check(&policies)?;
    Ok(policies)
}
