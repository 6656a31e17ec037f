//! The port.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};
use tokio::select;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::backend::Backend;
use super::connection;
use super::order::Mood;
use super::queue::Queue;
use super::told::Counts;
use crate::server::Percent;

/// A storm must not fill it; the kernel takes less where `net.core.somaxconn` is less.
const BACKLOG: u32 = 16_384;
/// How long it accepts nothing when it can not have more open files: who comes waits in the backlog.
const FULL_FOR: Duration = Duration::from_millis(10);

/// All that a connection needs.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    /// The queue.
    pub queue: Queue,
    /// What is counted.
    pub counts: Counts,
    /// The layer below, where there is one.
    pub backend: Option<Backend>,
    faulty: Option<Faulty>,
    numbered: Cell<usize>,
}

/// Callers whose requests fail by their own fault, as a bad query does: after the work for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faulty {
    /// Their names begin so.
    caller: String,
    /// So many of their requests.
    share: Percent,
}

impl FromStr for Faulty {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(':');
        let read = parts.and_then(|(caller, share)| {
            let share = share.parse().ok().filter(|share| *share <= 100)?;
            Some(Self {
                caller: caller.to_owned(),
                share: Percent(share),
            })
        });
        read.with_context(|| format!("{text}: not CALLER:PERCENT"))
    }
}

impl Front {
    /// A service that is to listen at `address`.
    pub fn new(
        address: SocketAddr,
        queue: Queue,
        counts: Counts,
        backend: Option<Backend>,
        faulty: Option<Faulty>,
    ) -> Self {
        Self {
            address,
            queue,
            counts,
            backend,
            faulty,
            numbered: Cell::new(0),
        }
    }

    /// Whether the next request is one of a share.
    pub fn draws(&self, share: Percent) -> bool {
        let number = self.numbered.get();
        self.numbered.set(number.wrapping_add(1));
        share.draws(number)
    }

    /// Whether the next request of this caller fails by its own fault. By chance: drawn in turn, as above, what a
    /// retry meets would depend on how many came in between.
    pub fn fails(&self, caller: &str) -> bool {
        let faulty = self.faulty.as_ref();
        faulty.is_some_and(|it| caller.starts_with(&it.caller) && fastrand::u8(..100) < it.share.0)
    }

    /// Listens, except while it is to refuse.
    pub async fn listen(self: Rc<Self>) -> Result<()> {
        let mut moods = self.queue.moods();
        loop {
            let serves = moods.wait_for(|mood| *mood != Mood::Refuse);
            serves.await.context("nobody gives orders")?;
            let listener =
                bind(self.address).with_context(|| format!("cannot listen on {}", self.address))?;
            select! {
                failed = Rc::clone(&self).accept(listener) => failed?,
                refuses = moods.wait_for(|mood| *mood == Mood::Refuse) => {
                    refuses.context("nobody gives orders")?;
                }
            }
        }
    }

    /// Accepts until it is dropped, and all that it accepted goes with it, as with a process.
    async fn accept(self: Rc<Self>, listener: TcpListener) -> Result<()> {
        let alive = watch::Sender::new(());
        loop {
            let (stream, _) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_the_callers(&error) => continue,
                Err(error) if is_full(&error) => {
                    sleep(FULL_FOR).await;
                    continue;
                }
                Err(error) => return Err(error).context("accept"),
            };
            let (front, mut dead) = (Rc::clone(&self), alive.subscribe());
            spawn_local(async move {
                select! {
                    // The caller may have gone or reset: for a service that is no error.
                    _ = connection::serve(stream, &front) => {}
                    _ = dead.changed() => {}
                }
            });
        }
    }
}

/// A handshake that came to nothing.
fn is_the_callers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// The limit of open files is reached.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Else closed connections in TIME_WAIT would keep the port from coming back.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
