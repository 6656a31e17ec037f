//! The control law of the retry governor.
//!
//! Pure decisions on integers: no clock, no allocation, no kernel. The hooks
//! of the kernel programs, the simulator and the tests give it facts (a time,
//! a random number, what was attempted and how it ended) and carry out its
//! verdict. One source, two cells: [`cell::Cell`] is an `AtomicU64` on the
//! host and a BPF atomic in the kernel, so what is tested is what runs.
//!
//! | file | holds |
//! |---|---|
//! | [`cell`] | the atomic word the law is written over |
//! | [`units`] | times and shares that say their unit |
//! | [`window`] | a rolling count that one compare-and-swap decides on |
//! | [`breaker`], [`lease`] | stop on silence; one probe per ip:port |
//! | [`limiter`] | adaptive concurrency |
//! | [`budget`] | the retry budget of a destination on this node |
//! | [`order`] | what an operator ordered: shed, retries off, breaker override |
//! | [`evidence`] | whether a connect or a request repeats a failed one |
//! | [`chain`] | what is known of equal requests: the chain of tries of one operation |
//! | [`rules`] | which retries are not worth sending |
//! | [`pushback`] | what a destination asks its callers to wait |
//! | [`http`] | the heads of requests and answers, read from segments cut anywhere |
//! | [`status`] | what status codes say |
//! | [`mod@judge`], [`mod@settle`] | the order in which an attempt is judged, and what its outcome does |
//! | [`verdict`] | what the law says, and how attempts end |
//! | [`refusal`] | what a refused caller is told |
//! | [`calm`] | exchanges that say nothing new, settled together |
//! | [`carried`] | the first request on a connection, which its connect has paid for |
//! | [`trace`] | one step of the law as bytes, for the parity of kernel and host |
//! | [`ledger`], [`params`], [`key`], [`record`], [`event`] | the layouts shared with the kernel |
//!
//! I1 to I10 in comments are what always holds: `docs/law.md`.
#![cfg_attr(not(test), no_std)]

pub mod breaker;
pub mod budget;
pub mod calm;
pub mod carried;
pub mod cell;
pub mod chain;
pub mod event;
pub mod evidence;
pub mod http;
pub mod judge;
pub mod key;
pub mod lease;
pub mod ledger;
pub mod limiter;
pub mod order;
pub mod params;
pub mod pushback;
pub mod record;
pub mod refusal;
pub mod rules;
pub mod settle;
pub mod status;
pub mod trace;
pub mod units;
pub mod verdict;
pub mod window;

/// Version of the map layouts. A pinned map of another version is never reused.
pub const ABI: u32 = 7;
