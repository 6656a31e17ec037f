//! The governor's own status, sampled while a storm is played.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use governor_tests::storm::report::monotonic_micros;
use serde_json::Value;

/// How often.
const EVERY: Duration = Duration::from_millis(200);
/// A daemon that does not answer in this time is taken for dead.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `status --json` said, and when.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Microseconds of CLOCK_MONOTONIC.
    pub t: u64,
    /// The whole.
    pub status: Value,
}

impl Sample {
    /// The entry of a destination.
    pub fn destination(&self, name: &str) -> Option<&Value> {
        let mut destinations = self.destinations();
        destinations.find(|entry| entry["destination"] == name)
    }

    /// The same, of one destination alone.
    pub fn only(&self, name: &str) -> Self {
        let entries = self.destination(name).into_iter().cloned().collect();
        let mut status = self.status.clone();
        status["destinations"] = Value::Array(entries);
        Self { t: self.t, status }
    }

    /// The entries of all destinations.
    pub fn destinations(&self) -> impl Iterator<Item = &Value> {
        self.status["destinations"].as_array().into_iter().flatten()
    }

    /// Attempts that were denied so far, for whatever reason, at all destinations.
    pub fn denied(&self) -> u64 {
        let reasons = self
            .destinations()
            .filter_map(|entry| entry["denied"].as_object());
        reasons
            .flat_map(|reasons| reasons.values())
            .filter_map(Value::as_u64)
            .sum()
    }

    /// Why attempts at a destination were denied, and how often: `budget 3, breaker 7`.
    pub fn reasons(&self, destination: &str) -> String {
        words(self.counts(destination))
    }

    /// The same since an earlier sample.
    pub fn reasons_since(&self, earlier: &Self, destination: &str) -> String {
        let before = |reason: &str| {
            let mut counts = earlier.counts(destination);
            counts.find(|(it, _)| *it == reason).map_or(0, |it| it.1)
        };
        let counts = self.counts(destination);
        words(counts.map(|(reason, count)| (reason, count.saturating_sub(before(reason)))))
    }

    /// Denials at a destination by their reason.
    fn counts(&self, destination: &str) -> impl Iterator<Item = (&str, u64)> {
        let entry = self.destination(destination);
        let counts = entry.and_then(|entry| entry["denied"].as_object());
        let counts = counts.into_iter().flatten();
        counts.map(|(reason, count)| (reason.as_str(), count.as_u64().unwrap_or_default()))
    }

    /// A count at all destinations: `deniedFirstTries`.
    pub fn total(&self, count: &str) -> u64 {
        self.destinations()
            .filter_map(|entry| entry[count].as_u64())
            .sum()
    }

    /// The lowest limit of attempts in flight; none: no limit is in force.
    pub fn limit(&self) -> Option<f64> {
        let limits = self
            .destinations()
            .filter_map(|entry| entry["concurrency"]["limit"].as_f64());
        limits.reduce(f64::min)
    }

    /// Endpoints whose breaker is not closed.
    pub fn breakers(&self) -> usize {
        let endpoints = self
            .destinations()
            .filter_map(|entry| entry["endpoints"].as_array());
        let states = endpoints
            .flatten()
            .map(|endpoint| &endpoint["breaker"]["state"]);
        states.filter(|state| *state != "Closed").count()
    }
}

/// Those that are not nothing.
fn words<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let some = counts.filter(|(_, count)| *count > 0);
    let words: Vec<_> = some
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    words.join(", ")
}

/// Samples in the background until it is dropped.
#[derive(Debug)]
pub struct Watch {
    socket: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    samples: Mutex<Vec<Sample>>,
}

impl Watch {
    /// Starts.
    pub fn start(socket: PathBuf) -> Self {
        let shared = Arc::<Shared>::default();
        let thread = {
            let (shared, socket) = (Arc::clone(&shared), socket.clone());
            thread::spawn(move || {
                while !shared.ended.load(Ordering::Relaxed) {
                    // A daemon that was killed on purpose leaves a gap.
                    if let Ok(sample) = ask(&socket) {
                        shared.samples().push(sample);
                    }
                    thread::sleep(EVERY);
                }
            })
        };
        Self {
            socket,
            shared,
            thread: Some(thread),
        }
    }

    /// All so far.
    pub fn samples(&self) -> Vec<Sample> {
        self.shared.samples().clone()
    }

    /// One now. Panics where the daemon does not answer.
    #[track_caller]
    #[expect(clippy::panic, reason = "a scenario without its governor is over")]
    pub fn now(&self) -> Sample {
        match ask(&self.socket) {
            Ok(sample) => sample,
            Err(why) => panic!("the daemon's status: {why:#}"),
        }
    }
}

impl Shared {
    fn samples(&self) -> std::sync::MutexGuard<'_, Vec<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only panics where memory is gone.
            let _ = thread.join();
        }
    }
}

fn ask(socket: &Path) -> Result<Sample> {
    let mut stream = UnixStream::connect(socket).context("control socket")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: governor\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no end of headers")?;
    Ok(Sample {
        t: monotonic_micros(),
        status: serde_json::from_str(body).context("status")?,
    })
}
