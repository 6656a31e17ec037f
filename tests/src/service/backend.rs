//! The layer below: what a request asks of it before it is answered.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::sleep;

use super::told::Counts;
use crate::storm::exchange::{Connection, Speech, Target};
use crate::storm::report::Outcome;

/// Whom to ask, and how often.
#[derive(Debug)]
pub struct Backend {
    /// How the service names itself.
    pub name: String,
    /// Tries of one request, the first included.
    pub tries: u32,
    /// Wait before each try after the first.
    pub delay: Duration,
    target: Target,
    idle: RefCell<Vec<Connection>>,
}

impl Backend {
    /// The backend at `address`, whose answers are awaited for `patience`.
    pub fn new(
        name: &str,
        address: SocketAddr,
        patience: Duration,
        tries: u32,
        delay: Duration,
    ) -> Self {
        Self {
            name: name.to_owned(),
            tries,
            delay,
            target: Target {
                address,
                speak: Speech::Http,
                connect_timeout: patience,
                answer_timeout: patience,
            },
            idle: RefCell::default(),
        }
    }

    /// Asks for the same target until it is answered well; the status to answer with.
    pub async fn ask(&self, target: &str, counts: &Counts) -> u16 {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: backend\r\nUser-Agent: {}\r\n\r\n",
            self.name
        );
        let mut status = 502;
        for attempt in 1..=self.tries {
            if attempt > 1 {
                sleep(self.delay).await;
            }
            counts.count(|slot| {
                slot.called += 1;
                slot.called_first += u32::from(attempt == 1);
            });
            status = match self.once(request.as_bytes()).await {
                None => return 200,
                Some(Outcome::ConnectTimeout | Outcome::AnswerTimeout) => 504,
                Some(_) => 502,
            };
        }
        status
    }

    async fn once(&self, request: &[u8]) -> Option<Outcome> {
        let kept = || {
            let kept = self.idle.borrow_mut().pop()?;
            Some(kept)
        };
        let mut alive = None;
        while let Some(mut connection) = kept() {
            // A pool notices what the server has closed.
            if !connection.rest(Duration::ZERO).await {
                alive = Some(connection);
                break;
            }
        }
        let mut connection = match alive {
            Some(connection) => connection,
            None => match self.target.connect().await {
                Ok(connection) => connection,
                Err(failure) => return Some(failure.outcome),
            },
        };
        let result = connection.ask(request).await;
        let outcome = result.err().map(|failure| failure.outcome);
        if matches!(outcome, None | Some(Outcome::Status)) {
            self.idle.borrow_mut().push(connection);
        }
        outcome
    }
}
