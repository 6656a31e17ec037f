//! The service under load: a program with a fixed capacity, a real queue, a cold phase and a fault
//! switch, which counts what it receives.
//!
//! It works off the requests of callers who have left, too: it only learns of that when it answers.
//! That is what keeps a service down after the trouble is over.
//!
//! | file | holds |
//! |---|---|
//! | [`capacity`] | how fast it works: cold, or warm |
//! | [`order`] | the fault switch: what its standard input says |
//! | [`slot`] | what happened in 50 ms |
//! | [`told`] | who counts that, and tells it |
//! | [`repeats`] | which requests came before |
//! | [`queue`] | the queue and who works it off |
//! | [`front`] | the port |
//! | [`connection`] | what becomes of the requests on a connection |
//! | [`request`] | what a request says |
//! | [`backend`] | what it asks of the layer below |
//! | [`guard`] | the harness's hold on a running one |

pub mod backend;
pub mod capacity;
pub mod connection;
pub mod front;
pub mod guard;
pub mod order;
pub mod queue;
pub mod repeats;
pub mod request;
pub mod slot;
pub mod told;

pub use guard::Service;
pub use slot::Slot;
