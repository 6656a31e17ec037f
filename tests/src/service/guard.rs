//! The harness's hold on a running service.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::slot::Slot;
use crate::place::Place;
use crate::storm::report::monotonic_micros;
use crate::{artifact, must};

/// How long it may take to start.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// How long after its end a slot may be told.
const TELLS_WITHIN: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(2);

type Told = Arc<Mutex<Vec<Slot>>>;

/// A `storm-service` at one address. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    told: Told,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    orders: ChildStdin,
    reader: JoinHandle<()>,
}

impl Service {
    /// Starts one on a port of the place's loopback, and waits until it listens. `options` are those of
    /// its command line: `--capacity 500 --cold 20`.
    #[track_caller]
    pub fn start(port: u16, options: &str, place: &Place<'_>) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, port).into(), options, place)
    }

    /// The same at any address of the place.
    #[track_caller]
    pub fn start_at(address: SocketAddr, options: &str, place: &Place<'_>) -> Self {
        let mut service = Self {
            address,
            told: Arc::default(),
            running: None,
        };
        service.restart(options, place);
        service
    }

    /// Kills it, as `kill -9` does. Its slots stay.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts it anew, and waits until it listens; one that runs is killed.
    #[track_caller]
    pub fn restart(&mut self, options: &str, place: &Place<'_>) {
        self.kill();
        let started = Running::start(self.address, options, place, &self.told);
        let context = || format!("storm-service at {}", self.address);
        self.running = Some(must(started.with_context(context)));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|it| it.child.id())
    }

    /// Gives an order, as in [`super::order`]: `stall`, `status 503 50`.
    #[track_caller]
    pub fn order(&self, order: &str) {
        let running = self.running.as_ref().context("it was killed");
        let given = running.and_then(|it| Ok(writeln!(&it.orders, "{order}")?));
        must(given.with_context(|| format!("the service does not take `{order}`")));
    }

    /// What it told, the slot of this moment included: waits for that to end. One that runs no more
    /// told what it did until then.
    #[track_caller]
    pub fn slots(&self) -> Vec<Slot> {
        if let Some(running) = &self.running {
            must(running.until_told(monotonic_micros(), &self.told));
        }
        locked(&self.told).clone()
    }
}

impl Running {
    fn start(address: SocketAddr, options: &str, place: &Place<'_>, told: &Told) -> Result<Self> {
        let mut command = Command::new(artifact::program("storm-service")?);
        command.args(["--listen", &address.to_string()]);
        command.args(options.split_whitespace());
        place.settle(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().context("cannot start")?;
        let orders = child.stdin.take().context("no orders can be given")?;
        let output = child.stdout.take().context("nothing is told")?;
        let before = locked(told).len();
        let reader = thread::spawn({
            let told = Arc::clone(told);
            move || collect(output, &told)
        });
        let running = Self {
            child,
            orders,
            reader,
        };
        // It listens before the end of its first slot.
        while locked(told).len() == before {
            running.must_run(started, STARTS_WITHIN)?;
            thread::sleep(POLL);
        }
        Ok(running)
    }

    /// Waits until the slot that holds `moment` was told.
    fn until_told(&self, moment: u64, told: &Told) -> Result<()> {
        let asked = Instant::now();
        while locked(told).last().is_none_or(|last| last.end() <= moment) {
            self.must_run(asked, TELLS_WITHIN)?;
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn must_run(&self, since: Instant, limit: Duration) -> Result<()> {
        if self.reader.is_finished() {
            bail!("the service ended by itself; what it said is on standard error");
        }
        if since.elapsed() > limit {
            bail!("the service told nothing for {limit:?}");
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only where it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What it said before its end is to be there.
        let deadline = Instant::now() + TELLS_WITHIN;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
    }
}

fn collect(output: ChildStdout, told: &Told) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        // The last line of one that was killed may be half.
        if let Ok(slot) = serde_json::from_str(&line) {
            locked(told).push(slot);
        }
    }
}

fn locked(told: &Told) -> MutexGuard<'_, Vec<Slot>> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}
