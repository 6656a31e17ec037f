//! Filters of clsact outlive their owner, unlike links: whose they were must be found out.

use governor_tests::caller::storm_client;
use governor_tests::governor::retry_governor;
use governor_tests::place::Place;
use governor_tests::process::Process;
use nix::sys::signal::Signal;

use crate::load::{LIMIT, eventually};
use crate::report::Checks;
use crate::wire::{PORT, Wire};

/// Runs the checks.
pub fn check(checks: &mut Checks, wire: &Wire) {
    checks.check(
        "a killed exec leaves its filter until the next one, which leaves none",
        || {
            let exec = start(wire, "60s");
            eventually("its filter is there", LIMIT, || wire.filters().len() == 1);
            let left = wire.filters();
            exec.signal(Signal::SIGKILL);
            drop(exec);
            assert_eq!(wire.filters(), left);
            let next = start(wire, "4s");
            eventually("the next one has its own alone", LIMIT, || {
                let there = wire.filters();
                there.len() == 1 && there != left
            });
            next.finish(LIMIT).expect_success();
            assert!(wire.filters().is_empty(), "{:?}", wire.filters());
        },
    );
}

/// A command that calls nobody for long.
fn start(wire: &Wire, length: &str) -> Process {
    let client = storm_client(&format!("loop 127.0.0.1:{PORT} --rate 1 --for {length}"));
    let mut exec = retry_governor(["exec", "--"]);
    exec.arg(client.get_program()).args(client.get_args());
    let place: Place<'_> = wire.lab.place();
    Process::start(exec, &place)
}
