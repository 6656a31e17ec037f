//! The law alone: one step, again and again, under BPF_PROG_TEST_RUN.
//!
//! The test program also loads the step from a packet, finds four ledgers and writes the step back. A
//! step that is neither an attempt nor an ending does all of that and leaves the law out: it is the
//! empty program to compare with. What is left is the law, its counters and the ledgers' cache lines.

use anyhow::{Context, Result, ensure};
use aya::programs::{TestRun, TestRunOptions};
use governor_core::trace::{Step, what};

use super::kernel::Programs;
use super::sample::Sample;

const ETHERNET: usize = 14;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// No law: what finding the ledgers costs.
    Nothing,
    /// A first try that is admitted.
    Attempt,
    /// A connect that succeeded where exchanges are answered.
    Connected,
    /// An exchange that was answered.
    Answered,
}

/// Nanoseconds a run, by rounds.
pub fn measure(programs: &Programs, which: Which, rounds: u32, repeat: u32) -> Result<Sample> {
    // One after the other: an attempt leaves in flight what an ending takes away.
    let nanos = (0..rounds).map(|_| once(programs, which, repeat));
    Ok(Sample::new(nanos.collect::<Result<_>>()?))
}

/// The law by itself: each round less a step without it, right after.
pub fn measure_alone(
    programs: &Programs,
    which: Which,
    rounds: u32,
    repeat: u32,
) -> Result<Sample> {
    let alone = || {
        let with = once(programs, which, repeat)?;
        Ok(with - once(programs, Which::Nothing, repeat)?)
    };
    let nanos = (0..rounds).map(|_| alone());
    Ok(Sample::new(nanos.collect::<Result<_>>()?))
}

fn once(programs: &Programs, which: Which, repeat: u32) -> Result<f64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
    let now = u64::try_from(std::time::Duration::from(now).as_nanos())?;
    let what = match which {
        Which::Nothing => what::NOTHING,
        Which::Attempt => 0,
        Which::Connected => 1,
        Which::Answered => 2,
    };
    let step = Step {
        now,
        entered: now,
        latency: 100,
        what,
        workload: 1,
        ..bytemuck::Zeroable::zeroed()
    };
    let mut packet = vec![0; ETHERNET];
    packet.extend_from_slice(bytemuck::bytes_of(&step));
    let mut options = TestRunOptions::new();
    options.data_in = Some(&packet);
    options.repeat = repeat;
    let result = programs
        .law()?
        .test_run(options)
        .context("BPF_PROG_TEST_RUN")?;
    ensure!(result.return_value == 0, "the law did not run");
    Ok(result.duration.as_nanos() as f64)
}
