//! Mode `fleet`: many short-lived processes, each a fresh `storm-client`, started at a rate.
//!
//! All children write into one pipe; each line is one write below PIPE_BUF, so lines stay whole
//! and one reader is enough.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use super::report::Report;

/// The processes.
#[derive(Args, Clone, Debug)]
pub struct Fleet {
    /// Processes to start.
    #[arg(long, default_value = "200", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub processes: u32,
    /// Processes started per second.
    #[arg(long, value_name = "PER_SECOND", default_value = "200", value_parser = super::open_loop::rate)]
    pub rate: f64,
    /// What each of them does: another mode with its arguments, after `--`.
    #[arg(last = true, required = true)]
    pub mode: Vec<String>,
}

/// Starts the fleet, waits for its end, forwards every try. `limit` is for all of it: what still
/// runs then is killed.
pub fn run(fleet: &Fleet, limit: Duration) -> Result<Report> {
    if fleet.mode.iter().any(|word| word == "fleet") {
        bail!("fleet: a fleet of fleets is refused (its load would be unbounded)");
    }
    let (lines, feed) = io::pipe().context("cannot make a pipe")?;
    let reader = thread::spawn(move || forward(BufReader::new(lines)));
    let ships = launch(fleet, &feed, Instant::now() + limit);
    // The reader ends when the last writer is gone: this one, and all children.
    drop(feed);
    let ships = ships?;
    let report = reader.join().map_err(|_| anyhow!("the reader died"))??;
    match ships {
        0 => Ok(report),
        failed => bail!(
            "fleet: {failed} of {} processes failed to run to their end",
            fleet.processes
        ),
    }
}

/// Starts and awaits all; the number of those that failed or had to be killed.
fn launch(fleet: &Fleet, feed: &io::PipeWriter, deadline: Instant) -> Result<usize> {
    let program = env::current_exe().context("cannot find this program")?;
    let start = Instant::now();
    let mut running: Vec<Child> = Vec::new();
    let mut failed = 0;
    for number in 0..fleet.processes {
        let due = start + Duration::from_secs_f64(f64::from(number) / fleet.rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut command = Command::new(&program);
        command
            .arg("--no-summary")
            .args(&fleet.mode)
            .stdin(Stdio::null())
            .stdout(feed.try_clone()?);
        running.push(
            command
                .spawn()
                .context("cannot start a process of the fleet")?,
        );
        failed += reap(&mut running)?;
    }
    while !running.is_empty() {
        if Instant::now() >= deadline {
            for child in &mut running {
                // It may have ended this moment; it is awaited in any case.
                let _ = child.kill();
            }
        }
        thread::sleep(Duration::from_millis(2));
        failed += reap(&mut running)?;
    }
    Ok(failed)
}

/// Takes the ended ones out; how many of them failed.
fn reap(running: &mut Vec<Child>) -> Result<usize> {
    let mut failed = 0;
    let mut still = Vec::with_capacity(running.len());
    for mut child in running.drain(..) {
        match child.try_wait()? {
            None => still.push(child),
            Some(status) => failed += usize::from(!status.success()),
        }
    }
    *running = still;
    Ok(failed)
}

fn forward(lines: impl BufRead) -> Result<Report> {
    let mut report = Report::default();
    for line in lines.lines() {
        let line = line?;
        writeln!(io::stdout().lock(), "{line}")?;
        report.tries.extend(Report::parse(&line)?.tries);
    }
    Ok(report)
}
