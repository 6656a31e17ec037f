//! The kernel's run-time statistics: nanoseconds per run of each program, raw, beside an empty
//! program attached at the same place in the same run.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use aya::sys::{Stats, enable_stats};

use super::kernel::{Attached, HOOKS, Programs, Runs, Site};
use super::sample::Sample;
use super::worker::{Load, Worker};

/// Of one program under one load.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The program.
    pub name: &'static str,
    /// Nanoseconds a run, time stamps included.
    pub raw: Sample,
    /// Less those of the empty program in the same round.
    pub above: Sample,
    /// Runs per connection or exchange.
    pub runs: Sample,
}

/// Of all programs under one load.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Those that ran.
    pub programs: Vec<Cost>,
    /// All together, nanoseconds per connection or exchange, less the empty programs.
    pub all: Sample,
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
    pub fn start(mut ours: Programs, mut empty: Programs, site: Site<'_>) -> Result<Self> {
        let attached = [empty.attach(site)?, ours.attach(site)?];
        Ok(Self {
            ours,
            empty,
            _attached: attached,
            _statistics: enable_stats(Stats::RunTime).context("run-time statistics")?,
        })
    }

    /// What each program costs under a load.
    pub fn costs(&self, worker: &mut Worker, load: Load, rounds: u32) -> Result<Costs> {
        let mut seen: Vec<Vec<[Runs; 2]>> = vec![Vec::new(); HOOKS.len()];
        for _ in 0..rounds {
            let before = self.read()?;
            worker.cpu(load)?;
            for ((seen, before), after) in seen.iter_mut().zip(before).zip(self.read()?) {
                seen.push([0, 1].map(|i| after[i].since(before[i])));
            }
        }
        let times = f64::from(load.times);
        let spent = |round: usize| {
            let spent = seen.iter().map(|seen| seen[round]);
            spent
                .map(|runs| above(&runs) * runs[0].count as f64)
                .sum::<f64>()
                / times
        };
        let all = Sample::new((0..rounds as usize).map(spent).collect());
        let ran = HOOKS.into_iter().zip(&seen);
        let ran = ran.filter(|(_, seen)| seen.iter().all(|[ours, _]| ours.count > 0));
        Ok(Costs {
            programs: ran.map(|(name, seen)| cost(name, seen, times)).collect(),
            all,
        })
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

fn above([ours, empty]: &[Runs; 2]) -> f64 {
    ours.mean() - empty.mean()
}

fn cost(name: &'static str, seen: &[[Runs; 2]], times: f64) -> Cost {
    let sample = |value: fn(&[Runs; 2]) -> f64| Sample::new(seen.iter().map(value).collect());
    Cost {
        name,
        raw: sample(|[ours, _]| ours.mean()),
        above: sample(above),
        runs: Sample::new(
            seen.iter()
                .map(|[ours, _]| ours.count as f64 / times)
                .collect(),
        ),
    }
}
