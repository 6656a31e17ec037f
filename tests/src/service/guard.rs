//! The harness's hold on a running service.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::told::Slot;
use crate::place::Place;
use crate::{artifact, must};

/// How long it may take to start.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// A `storm-service`. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    child: Child,
    orders: Mutex<ChildStdin>,
    slots: Arc<Mutex<Vec<Slot>>>,
}

impl Service {
    /// Starts one on a port of the place's loopback, and waits until it serves.
    pub fn start(port: u16, options: &str, place: &Place<'_>) -> Self {
        must(Self::try_start(port, options, place).context("storm-service"))
    }

    fn try_start(port: u16, options: &str, place: &Place<'_>) -> Result<Self> {
        let mut command = Command::new(artifact::program("storm-service")?);
        command.arg("--listen").arg(format!("127.0.0.1:{port}"));
        command.args(options.split_whitespace());
        place.settle(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let orders = child.stdin.take().context("no orders can be given")?;
        let told = child.stdout.take().context("nothing is told")?;
        let slots = Arc::<Mutex<Vec<Slot>>>::default();
        let mut service = Self {
            child,
            orders: Mutex::new(orders),
            slots: Arc::clone(&slots),
        };
        thread::spawn(move || {
            for line in BufReader::new(told).lines().map_while(Result::ok) {
                // The last line of one that is killed may be half.
                let Ok(slot) = serde_json::from_str(&line) else {
                    continue;
                };
                slots
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(slot);
            }
        });
        // It tells its first slot when it listens.
        let deadline = Instant::now() + STARTS_WITHIN;
        while service.slots().is_empty() {
            if let Some(status) = service.child.try_wait()? {
                bail!("it ended: {status}");
            }
            if Instant::now() > deadline {
                bail!("it does not serve within {STARTS_WITHIN:?}");
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(service)
    }

    /// Gives an order: a line of [`super::order`].
    #[track_caller]
    pub fn order(&self, order: &str) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let given = writeln!(orders, "{order}").and_then(|()| orders.flush());
        must(given.with_context(|| format!("the service does not take `{order}`")));
    }

    /// What it told so far.
    pub fn slots(&self) -> Vec<Slot> {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Fails only where it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
