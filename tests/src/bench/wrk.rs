//! wrk: a closed loop of callers over kept connections, with and without the governor in turn. Caller
//! and server are both governed, as on a node.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::kernel::{Programs, Site};
use super::sample::Sample;
use super::web;
use crate::process;

/// Connections: enough to keep server and caller busy, few enough that p99 is no queue of wrk's own.
const CONNECTIONS: u32 = 16;
/// Of one run; of the first, which only warms up, too.
const SECONDS: u32 = 1;
/// wrk ends by itself long before.
const LIMIT: Duration = Duration::from_secs(30);

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Requests answered per second.
    pub rate: f64,
    /// Of 100 answers 50 came sooner, us.
    pub p50: f64,
    /// Of 100 answers 99 came sooner, us.
    pub p99: f64,
    /// CPU time of a request, its caller's and its server's, us.
    pub cpu: f64,
}

/// Pairs of runs.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Requests per second without the governor.
    pub rate: Sample,
    /// What is lost of them with it, percent.
    pub lost_percent: Sample,
    /// p99 without the governor, us.
    pub p99: Sample,
    /// p99 with it.
    pub p99_governed: Sample,
    /// CPU time of a request without the governor, us.
    pub cpu: Sample,
    /// What the governor adds, us.
    pub cpu_added: Sample,
    /// What it adds, percent.
    pub cpu_added_percent: Sample,
}

/// Measures `pairs` pairs. Which of a pair comes first alternates, so that drift cancels.
pub fn measure(programs: &mut Programs, site: Site<'_>, pairs: u32) -> Result<Pairs> {
    once(site)?;
    let mut runs = Vec::new();
    for pair in 0..pairs {
        runs.push(if pair % 2 == 0 {
            let with = governed(programs, site)?;
            (once(site)?, with)
        } else {
            (once(site)?, governed(programs, site)?)
        });
    }
    let sample = |value: fn(&(Run, Run)) -> f64| Sample::new(runs.iter().map(value).collect());
    Ok(Pairs {
        rate: sample(|(bare, _)| bare.rate),
        lost_percent: sample(|(bare, with)| (1.0 - with.rate / bare.rate) * 100.0),
        p99: sample(|(bare, _)| bare.p99),
        p99_governed: sample(|(_, with)| with.p99),
        cpu: sample(|(bare, _)| bare.cpu),
        cpu_added: sample(|(bare, with)| with.cpu - bare.cpu),
        cpu_added_percent: sample(|(bare, with)| (with.cpu / bare.cpu - 1.0) * 100.0),
    })
}

fn governed(programs: &mut Programs, site: Site<'_>) -> Result<Run> {
    let _attached = programs.attach(site)?;
    once(site)
}

fn once(site: Site<'_>) -> Result<Run> {
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads", "1", "--latency"])
        .args(["--connections", &CONNECTIONS.to_string()])
        .args(["--duration", &format!("{SECONDS}s")])
        .arg(format!("http://{}/orders/4711", web::ADDRESS));
    let before = cpu(site)?;
    let finished = process::run(wrk, &site.place(), LIMIT).expect_success();
    let spent = cpu(site)? - before;
    read(&finished.stdout, spent).with_context(|| format!("wrk said: {}", finished.stdout))
}

/// CPU time of all that ever ran in the cgroup, us.
fn cpu(site: Site<'_>) -> Result<f64> {
    let text = fs::read_to_string(site.cgroup.path().join("cpu.stat"))?;
    let usage = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    Ok(usage.context("no usage_usec in cpu.stat")?.parse()?)
}

/// What wrk prints; `spent` is the CPU time of its run, us.
pub fn read(text: &str, spent: f64) -> Result<Run> {
    let line = |word: &str| {
        let found = text.lines().find(|line| line.contains(word));
        found.with_context(|| format!("no line with {word}"))
    };
    ensure!(
        !text.contains("Socket errors"),
        "not every request was answered"
    );
    ensure!(!text.contains("Non-2xx"), "a request was refused");
    let requests: f64 = word(line(" requests in ")?, 0)?.parse()?;
    Ok(Run {
        rate: word(line("Requests/sec:")?, 1)?.parse()?,
        p50: micros(word(line("50%")?, 1)?)?,
        p99: micros(word(line("99%")?, 1)?)?,
        cpu: spent / requests,
    })
}

fn word(line: &str, number: usize) -> Result<&str> {
    let word = line.split_whitespace().nth(number);
    word.with_context(|| format!("too short: {line}"))
}

fn micros(time: &str) -> Result<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = time.strip_suffix(unit) {
            return Ok(number.parse::<f64>()? * factor);
        }
    }
    Err(anyhow::anyhow!("no time: {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Running 1s test @ http://127.0.0.1:8080/orders/4711
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   210.53us  158.93us   5.09ms   94.66%
    Req/Sec    76.10k     4.26k   82.75k    63.64%
  Latency Distribution
     50%  198.00us
     99%    1.25ms
  83211 requests in 1.10s, 11.58MB read
Requests/sec:  75656.60
Transfer/sec:     10.53MB
";

    #[test]
    fn what_wrk_prints_is_read() {
        let run = read(SAID, 832_110.0).expect("figures");
        assert_eq!((run.rate, run.p99, run.cpu), (75_656.6, 1_250.0, 10.0));
    }

    #[test]
    fn a_run_with_errors_is_no_figure() {
        let failed = format!("{SAID}  Socket errors: connect 0, read 1, write 0, timeout 0\n");
        assert!(read(&failed, 1.0).is_err());
    }
}
