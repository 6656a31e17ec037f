//! The harness of the integration tests: real kernel, real sockets, real clients.
//!
//! Everything that a test makes (cgroups, network namespaces, nft rules, mounts,
//! processes) is held by a guard that removes it, also on panic. What a killed
//! test leaves behind carries its pid in the name and goes with the next [`sweep`].
//!
//! A test usually starts with a [`lab::Lab`]: one cgroup and one network namespace.
//! The harness reports trouble by panicking with one line; tests need no `?`.
//!
//! ```no_run
//! use std::time::Duration;
//! use governor_tests::lab::Lab;
//! use governor_tests::server::Behaviour;
//! use governor_tests::storm::report::Outcome;
//!
//! let lab = Lab::new();
//! let server = lab.http_server(8080, Behaviour::Refuse);
//! let syns = lab.count_syns(8080);
//! let storm = lab.start_storm("loop 127.0.0.1:8080 --speak http --rate 100 --for 5s --tries 4");
//! std::thread::sleep(Duration::from_secs(2));
//! server.set(Behaviour::Answer);
//! let report = storm.finish(Duration::from_secs(30));
//! println!("{} SYNs, {} refused", syns.count(), report.count(Outcome::Refused));
//! ```

#![expect(
    clippy::panic,
    reason = "a harness fails a test by panicking, with one clear line"
)]

pub mod artifact;
pub mod bench;
pub mod bpffs;
pub mod caller;
pub mod cgroup;
pub mod dial;
pub mod governed;
pub mod governor;
pub mod lab;
mod leash;
mod names;
pub mod netns;
pub mod nft;
pub mod node;
pub mod place;
pub mod preflight;
pub mod process;
pub mod real_clients;
pub mod scratch;
pub mod server;
pub mod service;
pub mod sim;
pub mod sockets;
pub mod storm;
pub mod sweep;
pub mod tally;
pub mod veth;

/// Takes the value, or fails the test with the whole chain of causes on one line.
#[track_caller]
pub(crate) fn must<T>(result: anyhow::Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error:#}"),
    }
}
