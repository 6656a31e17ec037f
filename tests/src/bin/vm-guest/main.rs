//! `vm-guest`: the first process of the virtual machine that `cargo xtask vmtest` boots. It checks
//! there what no test may do on a developer's machine: the governor on the root cgroup, with all
//! its defaults. The machine is its own, and ends with it.

#![expect(
    clippy::panic,
    reason = "a check fails by panicking, with one clear line"
)]

mod echo;
mod exec;
mod filters;
mod load;
mod machine;
mod node;
mod object;
mod pacing;
mod refusal;
mod report;
mod run;
mod takeover;
mod wire;

use report::Checks;
use wire::Wire;

fn main() {
    machine::prepare();
    let bare = node::Loaded::now();
    let mut checks = Checks::default();
    object::check(&mut checks);
    exec::check(&mut checks);
    let mut wire = None;
    checks.check("networks are made as in all tests", || {
        wire = Some(Wire::new());
    });
    if let Some(wire) = wire {
        refusal::check(&mut checks, &wire);
        pacing::check(&mut checks, &wire);
        filters::check(&mut checks, &wire);
    }
    run::check(&mut checks);
    takeover::check(&mut checks, bare);
    checks.finish();
    machine::power_off();
}
