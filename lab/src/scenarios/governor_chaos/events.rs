//! What happens to the governor.

use std::process::Command;
use std::time::Duration;

use governor_tests::process::Process;
use governor_tests::storm::report::Outcome;

use crate::stage::{Stage, document, policy};

use super::Times;

/// A service that is well, for those who come when the maps are full.
pub const HEALTHY: u16 = 8081;
const SCANNED: u16 = 9;
/// Each of them fills its part of the ledgers (2,048 endpoints); eight fill all (16,384).
const SCANNERS: usize = 9;
/// Where nobody listens: one destination of very many endpoints. (One for each would do as well; the status
/// of 16,384 destinations takes seconds to tell.)
const SCAN: &str = "
import socket, sys
for host in range(2100):
    s = socket.socket()
    s.setblocking(False)
    try: s.connect((f'127.{int(sys.argv[1])}.{host // 200}.{1 + host % 200}', 9))
    except OSError: pass
    s.close()
";

/// Whether anything happens.
pub enum Events {
    /// For comparison.
    None,
    /// All of it.
    All,
}

/// What is put in force, one after the other.
pub struct Policies {
    /// What the storm begins with.
    pub first: String,
    /// A tenth of the budget, and of the reserve: in a storm, less than what was spent before.
    pub other: String,
    /// Refused whole.
    pub broken: String,
}

/// Percent of the other policy's budget. By its name it is the same policy: what one of another name counts, it counts
/// from nothing.
pub const TIGHT: f64 = 1.0;

/// For a service, and for all others.
pub fn policies(service: (&str, u16)) -> Policies {
    let rest = document("rest", "Enforce", &[], "");
    let named = [service, ("scanned", SCANNED)];
    let tight =
        format!("retryConstraint: {{budget: {{percent: {TIGHT}}}, minRetryRate: {{count: 1}}}}");
    let both = |spec: &str| format!("{}---\n{rest}", policy(&named, spec));
    let (first, other) = (both(""), both(&tight));
    Policies {
        broken: first.replacen("mode", "mdoe", 1),
        other,
        first,
    }
}

/// A daemon that goes, and the next one: when, in seconds of the scene.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// The old one was told to go, or killed.
    pub gone: f64,
    /// The new one was started.
    pub started: f64,
    /// It was ready.
    pub ready: f64,
}

impl Restart {
    /// Lets it happen.
    fn happen(stage: &Stage<'_>, end: impl FnOnce(), started: f64) -> Self {
        let gone = stage.now();
        end();
        stage.until(started);
        let started = stage.now();
        stage.restart_daemon();
        Self {
            gone,
            started,
            ready: stage.now(),
        }
    }

    /// Seconds from the start until it was ready.
    pub fn took(self) -> f64 {
        self.ready - self.started
    }
}

/// What was met meanwhile.
#[derive(Debug, Default)]
pub struct Met {
    /// In words.
    pub said: Vec<String>,
    /// What followed `kill -9`.
    pub killed: Option<Restart>,
    /// What followed a stop, which leaves nothing.
    pub stopped: Option<Restart>,
    /// When the other policy was written, the broken one, and the first again: seconds of the scene.
    pub policies: Vec<f64>,
    /// Attempts that were not judged since the ledgers were full.
    pub unjudged: u64,
    /// Operations that a workload lost which began when the maps were full.
    pub newcomer_lost: usize,
}

impl Events {
    /// Lets it happen; none of it may take the harness longer than it takes the governor.
    pub fn happen(&self, stage: &Stage<'_>, times: Times, policies: &Policies) -> Met {
        let mut met = Met::default();
        if matches!(self, Self::None) {
            return met;
        }
        stage.until(times.killed.0);
        let killed = Restart::happen(stage, || stage.crash_daemon(), times.killed.1);
        stage.mark(killed.gone, killed.ready, "killed");
        met.killed = Some(killed);
        let [other, broken, again] = times.policies;
        for (at, policy) in [
            (other, &policies.other),
            (broken, &policies.broken),
            (again, &policies.first),
        ] {
            stage.until(at);
            met.policies.push(stage.now());
            stage.set_policy(policy);
        }
        stage.mark(other, again, "policies");
        stage.until(times.full);
        fill(stage, times, &mut met);
        stage.until(times.restarted);
        if times.restarted < times.storm.1 {
            let stopped = Restart::happen(stage, || stage.stop_daemon(), times.restarted);
            stage.mark(stopped.gone, stopped.ready, "restarted");
            met.stopped = Some(stopped);
        }
        met
    }
}

/// Fills the maps; then somebody comes who was not there before.
fn fill(stage: &Stage<'_>, times: Times, met: &mut Met) {
    let before = unjudged(stage);
    let scanners: Vec<_> = (0..SCANNERS)
        .map(|number| {
            let mut scan = Command::new("python3");
            scan.args(["-c", SCAN, &(100 + number).to_string()]);
            stage.within(&format!("scanner-{number}"), |place| {
                Process::start(scan, place)
            })
        })
        .collect();
    for scanner in scanners {
        scanner.finish(Duration::from_secs(20)).expect_success();
    }
    stage.mark(times.full, stage.now(), "maps full");
    let new = stage.crowd("newcomer", HEALTHY, "--rate 50 --for 1s --retry none");
    let new = new.finish(Duration::from_secs(20)).tries;
    met.newcomer_lost = new.iter().filter(|it| it.outcome != Outcome::Ok).count();
    met.unjudged = unjudged(stage) - before;
    met.said.push(format!(
        "maps were full after {:.1} s",
        stage.now() - times.full
    ));
}

fn unjudged(stage: &Stage<'_>) -> u64 {
    let sample = stage.status();
    sample
        .and_then(|it| it.status["unjudged"]["ledgerFull"].as_u64())
        .unwrap_or(0)
}
