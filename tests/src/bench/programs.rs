//! The kernel's run-time statistics: nanoseconds per run of each program, raw, beside an empty
//! program attached at the same place in the same run.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use aya::sys::{Stats, enable_stats};

use super::kernel::{Attached, HOOKS, Programs, Runs};
use super::sample::Sample;
use super::worker::{Load, Worker};
use crate::cgroup::Cgroup;

/// Of one program under one load.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The program.
    pub name: &'static str,
    /// Nanoseconds a run, time stamps included.
    pub raw: Sample,
    /// Of the empty program.
    pub floor: Sample,
    /// Runs per connection or exchange, of the last round.
    pub runs: f64,
}

/// Ours and the empty ones, attached together, with statistics on.
pub struct Bench {
    ours: Programs,
    empty: Programs,
    _attached: [Attached; 2],
    _statistics: OwnedFd,
}

impl Bench {
    /// Attaches both.
    pub fn start(mut ours: Programs, mut empty: Programs, cgroup: &Cgroup) -> Result<Self> {
        let attached = [empty.attach(cgroup)?, ours.attach(cgroup)?];
        Ok(Self {
            ours,
            empty,
            _attached: attached,
            _statistics: enable_stats(Stats::RunTime).context("run-time statistics")?,
        })
    }

    /// What each program costs under a load.
    pub fn costs(&self, worker: &mut Worker, load: Load, rounds: u32) -> Result<Vec<Cost>> {
        let mut seen: Vec<[Vec<Runs>; 2]> = vec![Default::default(); HOOKS.len()];
        for _ in 0..rounds {
            let before = self.read()?;
            worker.cpu(load)?;
            for ((seen, before), after) in seen.iter_mut().zip(before).zip(self.read()?) {
                for i in 0..2 {
                    seen[i].push(after[i].since(before[i]));
                }
            }
        }
        let ran = HOOKS.into_iter().zip(seen);
        let ran = ran.filter(|(_, [ours, _])| ours.iter().all(|runs| runs.count > 0));
        Ok(ran.map(|(name, seen)| cost(name, &seen, load)).collect())
    }

    fn read(&self) -> Result<Vec<[Runs; 2]>> {
        HOOKS
            .into_iter()
            .map(|hook| Ok([self.ours.runs(hook)?, self.empty.runs(hook)?]))
            .collect()
    }

    /// Ours, to measure the law.
    pub fn ours(&self) -> &Programs {
        &self.ours
    }

    /// The empty ones.
    pub fn empty(&self) -> &Programs {
        &self.empty
    }
}

fn cost(name: &'static str, seen: &[Vec<Runs>; 2], load: Load) -> Cost {
    let means = |runs: &[Runs]| Sample::new(runs.iter().map(|runs| runs.mean()).collect());
    let last = seen[0].last().map_or(0, |runs| runs.count);
    Cost {
        name,
        raw: means(&seen[0]),
        floor: means(&seen[1]),
        runs: last as f64 / f64::from(load.times()),
    }
}
