//! `cargo xtask bench`: what the kernel programs cost. Benchmarks report; tests judge.
//!
//! Three ways of measuring, since none tells the whole:
//! * [`programs`]: the kernel's own run-time statistics, per run of each program, beside an empty
//!   program in the same place ([`empty`]), and the law alone under BPF_PROG_TEST_RUN ([`law`]).
//! * [`pairs`]: CPU time of a process that connects, with and without the governor in turn. It sees
//!   what the statistics do not: the way into the programs, and the caches they push others out of.
//! * [`wrk`]: the same for requests over kept connections, and what its users would notice: throughput
//!   and p99.
//!
//! The object is the one that ships; it is loaded here, not through the daemon, so that no other
//! work of the daemon is measured.

pub mod empty;
pub mod kernel;
pub mod law;
pub mod pairs;
pub mod programs;
pub mod report;
pub mod sample;
pub mod web;
pub mod worker;
pub mod wrk;
