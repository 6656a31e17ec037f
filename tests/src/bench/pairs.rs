//! CPU time with and without the governor, in turn: what a user of the machine would notice.

use anyhow::Result;

use super::kernel::{Programs, Site};
use super::sample::Sample;
use super::worker::{Load, Worker};

/// Pairs of one load.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// CPU time of one connection or exchange without the governor, us.
    pub without: Sample,
    /// What the governor adds, percent.
    pub added_percent: Sample,
    /// What it adds, us.
    pub added: Sample,
}

/// Measures `pairs` pairs. Which of a pair comes first alternates, so that drift cancels.
pub fn measure(
    programs: &mut Programs,
    site: Site<'_>,
    worker: &mut Worker,
    load: Load,
    pairs: u32,
) -> Result<Pairs> {
    let (mut without, mut percent, mut added) = (Vec::new(), Vec::new(), Vec::new());
    worker.cpu(load)?;
    for pair in 0..pairs {
        let mut with = None;
        if pair % 2 == 0 {
            with = Some(governed(programs, site, worker, load)?);
        }
        let bare = micros(worker.cpu(load)?);
        let with = match with {
            Some(with) => with,
            None => governed(programs, site, worker, load)?,
        };
        without.push(bare);
        added.push(with - bare);
        percent.push((with / bare - 1.0) * 100.0);
    }
    Ok(Pairs {
        without: Sample::new(without),
        added_percent: Sample::new(percent),
        added: Sample::new(added),
    })
}

fn governed(
    programs: &mut Programs,
    site: Site<'_>,
    worker: &mut Worker,
    load: Load,
) -> Result<f64> {
    let _attached = programs.attach(site)?;
    Ok(micros(worker.cpu(load)?))
}

fn micros(time: std::time::Duration) -> f64 {
    time.as_nanos() as f64 / 1_000.0
}
