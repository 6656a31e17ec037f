//! A TCP server inside a namespace whose behaviour a test changes while it runs.
//!
//! It speaks to whoever comes over IPv4 and IPv6, reads a request to its end before it
//! acts, answers a request whose sender has half-closed, and counts what it receives.

mod connection;
pub mod faults;
pub mod faulty;
mod listen;
pub mod log;

use std::fmt;
use std::sync::mpsc as sync;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::mpsc;

use crate::must;
use crate::netns::Netns;
use crate::tally::Tally;

/// What a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 with keep-alive: 200 for whatever arrives (bodies by `Content-Length` only).
    Http,
    /// Opaque to the governor: each line is sent back.
    Line,
}

/// A share of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl Percent {
    /// Scatters the share over numbered things: of any hundred in a row exactly so many are drawn,
    /// in an order (37 generates the residues of 100) that no caller's rhythm follows.
    pub(crate) fn draws(self, number: usize) -> bool {
        number * 37 % 100 < usize::from(self.0)
    }
}

/// How a server treats its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Dead: no listener, so the kernel refuses; open connections are closed.
    Refuse,
    /// Healthy.
    Answer,
    /// Answers each request this late: a slow endpoint, or a long poll.
    AnswerAfter(Duration),
    /// Answers with this status (HTTP only; a line server just answers).
    Status(u16),
    /// Reads the request and closes without an answer, for this share of requests, evenly
    /// scattered and the same in every run.
    CloseUnanswered(Percent),
    /// Reads the request and resets the connection.
    Reset,
    /// Accepts and reads, and never answers: those requests are lost, also after a recovery.
    Hang,
    /// The process stops: the kernel still completes handshakes, nothing is read. After a recovery
    /// all that waited is served.
    Stall,
    /// Sends a banner before the caller says anything, then answers (line servers; callers speak `banner`).
    SpeakFirst,
    /// Answers, and closes connections that are silent for this long.
    IdleClose(Duration),
}

/// A running server; it ends with its handle.
pub struct Server {
    port: u16,
    counts: Arc<Counts>,
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What a server received.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections accepted (the handshakes of a stalled server are not).
    pub connects: Tally,
    /// Requests read to their end.
    pub requests: Tally,
    /// Answers sent.
    pub answers: Tally,
}

/// A change of behaviour, and where to say that it is in force.
pub(crate) struct Order {
    behaviour: Behaviour,
    done: sync::Sender<Result<()>>,
}

impl Server {
    /// Starts a server on `port` of all addresses of the namespace.
    pub fn start(netns: &Netns, port: u16, protocol: Protocol, behaviour: Behaviour) -> Self {
        let counts = Arc::new(Counts::default());
        let (orders, received) = mpsc::unbounded_channel();
        let service = listen::Service::new(port, protocol, behaviour, Arc::clone(&counts));
        let thread = netns.run(|| {
            // A thread starts in the namespace of the thread that makes it.
            std::thread::Builder::new()
                .name(format!("server {port}"))
                .spawn(move || service.run(received))
        });
        let thread = must(thread.context("cannot start a server thread"));
        let server = Self {
            port,
            counts,
            orders: Some(orders),
            thread: Mutex::new(Some(thread)),
        };
        // The first order makes sure that the port is open (or surely closed) when this returns.
        server.set(behaviour);
        server
    }

    /// Changes the behaviour; it is in force when this returns.
    pub fn set(&self, behaviour: Behaviour) {
        must(
            self.try_set(behaviour).with_context(|| {
                format!("server on port {} cannot turn to {behaviour:?}", self.port)
            }),
        );
    }

    fn try_set(&self, behaviour: Behaviour) -> Result<()> {
        let (done, answer) = sync::channel();
        let orders = self.orders.as_ref().context("it has ended")?;
        orders
            .send(Order { behaviour, done })
            .context("it has ended")?;
        answer
            .recv_timeout(Duration::from_secs(5))
            .context("it does not react")?
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it received so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.get_mut().ok().and_then(Option::take) {
            // A panic of the server has been printed by the runtime; a second one here would abort.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_hundred_requests_the_asked_share_is_drawn() {
        for start in [0, 1, 57, 1234] {
            let drawn = (start..start + 100)
                .filter(|number| Percent(30).draws(*number))
                .count();
            assert_eq!(drawn, 30);
        }
        assert!((0..100).all(|number| Percent(100).draws(number)));
        assert!(!(0..100).any(|number| Percent(0).draws(number)));
    }
}
