//! The connections of one client: a fresh one for each try, or a pool of kept ones.

use std::cell::RefCell;
use std::time::Duration;

use clap::ValueEnum;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::exchange::{Connection, Target};
use super::report::{Failure, Outcome, monotonic_micros};

/// Where a try gets its connection from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keeping {
    /// A connect for each try; the request says `Connection: close`.
    Fresh,
    /// Kept ones are used again, the last used first; a try that finds none free waits for one.
    Pool,
}

/// The connections of one client.
#[derive(Debug)]
pub struct Connections {
    target: Target,
    /// Of a pool: a permit for each connection that it may have. None where each try is on a fresh one.
    places: Option<Semaphore>,
    /// How long a try waits for one of them.
    patience: Option<Duration>,
    /// The free ones, the last used at the end.
    free: RefCell<Vec<Connection>>,
}

impl Connections {
    /// A client's connections to `target`; a pool has at most `most`.
    pub fn new(target: Target, keeping: Keeping, most: usize) -> Self {
        Self {
            target,
            places: match keeping {
                Keeping::Fresh => None,
                Keeping::Pool => Some(Semaphore::new(most)),
            },
            patience: None,
            free: RefCell::default(),
        }
    }

    /// The same, whose tries wait no longer than this for a connection of the pool.
    pub fn with_patience(self, patience: Option<Duration>) -> Self {
        Self { patience, ..self }
    }

    /// One request and its answer, all of it before `deadline`. Tells the microseconds it waited for a
    /// connection of the pool as well.
    pub async fn ask(&self, request: &[u8], deadline: Instant) -> (Result<(), Failure>, u64) {
        let began = monotonic_micros();
        let place = match self.place(deadline).await {
            Ok(place) => place,
            Err(failure) => return (Err(failure), monotonic_micros() - began),
        };
        let waited = match place {
            Some(_) => monotonic_micros() - began,
            None => 0,
        };
        (self.exchange(request, deadline).await, waited)
    }

    /// Room for one more connection in use.
    async fn place(&self, deadline: Instant) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        let Some(places) = &self.places else {
            return Ok(None);
        };
        let patience = self.patience.map(|patience| Instant::now() + patience);
        let until = patience.map_or(deadline, |until| until.min(deadline));
        match timeout_at(until, places.acquire()).await {
            // It is never closed.
            Ok(place) => Ok(place.ok()),
            Err(_) => Err(Failure::of(Outcome::PoolTimeout)),
        }
    }

    async fn exchange(&self, request: &[u8], deadline: Instant) -> Result<(), Failure> {
        let mut connection = match self.kept() {
            Some(kept) => kept,
            None => self.hurried(deadline).connect().await?,
        };
        connection.set_patience(self.hurried(deadline).answer_timeout);
        let result = connection.ask(request).await;
        let is_whole = match &result {
            Ok(()) => true,
            Err(failure) => failure.outcome == Outcome::Status,
        };
        if self.places.is_some() && is_whole && connection.is_open() {
            self.free.borrow_mut().push(connection);
        }
        result
    }

    /// The last used one that the server has not closed since. Dead ones are dropped.
    fn kept(&self) -> Option<Connection> {
        let mut free = self.free.borrow_mut();
        while let Some(connection) = free.pop() {
            if connection.is_alive() {
                return Some(connection);
            }
        }
        None
    }

    /// The target, with no more patience than is left until `deadline`.
    fn hurried(&self, deadline: Instant) -> Target {
        let left = deadline.saturating_duration_since(Instant::now());
        Target {
            connect_timeout: self.target.connect_timeout.min(left),
            answer_timeout: self.target.answer_timeout.min(left),
            ..self.target.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::time::sleep;

    use super::*;
    use crate::storm::exchange::Speech;

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const LAST: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    const DENIED: &str = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\
                          Retry-After:   1\r\nx-retry-governor: budget\r\n\r\n";
    const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab";

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: storm\r\n\r\n";

    /// A server that gives each request `answer` after 20 ms; closes after a half one. Tells the number
    /// of the connection that each request came on.
    async fn server(answer: &'static str) -> (SocketAddr, UnboundedReceiver<u32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = unbounded_channel();
        tokio::spawn(async move {
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut request = [0; REQUEST.len()];
                    while stream.read_exact(&mut request).await.is_ok() {
                        tell.send(number).unwrap();
                        sleep(Duration::from_millis(20)).await;
                        stream.write_all(answer.as_bytes()).await.unwrap();
                        if answer == HALF || answer == LAST {
                            return;
                        }
                    }
                });
            }
        });
        (address, told)
    }

    fn connections(address: SocketAddr, keeping: Keeping, most: usize) -> Connections {
        let target = Target {
            address,
            speak: Speech::Http,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(5),
        };
        Connections::new(target, keeping, most)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    /// The outcomes of `times` requests, one after the other, and the connections they went on.
    async fn asked(
        answer: &'static str,
        keeping: Keeping,
        times: usize,
    ) -> (Vec<Result<(), Failure>>, Vec<u32>) {
        let (address, mut told) = server(answer).await;
        let connections = connections(address, keeping, 2);
        let mut results = Vec::new();
        let mut went_on = Vec::new();
        for _ in 0..times {
            results.push(connections.ask(REQUEST, soon()).await.0);
            went_on.push(told.recv().await.unwrap());
        }
        (results, went_on)
    }

    #[tokio::test]
    async fn a_pool_uses_a_connection_again_after_a_whole_answer() {
        let (results, went_on) = asked(OK, Keeping::Pool, 3).await;
        assert_eq!((results, went_on), (vec![Ok(()); 3], vec![0, 0, 0]));
        let (results, went_on) = asked(BUSY, Keeping::Pool, 2).await;
        assert_eq!(results[1].unwrap_err().status, Some(503));
        assert_eq!(went_on, [0, 0]);
    }

    #[tokio::test]
    async fn no_connection_is_used_again_that_is_over() {
        let (results, went_on) = asked(LAST, Keeping::Pool, 2).await;
        assert_eq!((results, went_on), (vec![Ok(()); 2], vec![0, 1]));
        let (results, went_on) = asked(HALF, Keeping::Pool, 2).await;
        assert_eq!(results, [Err(Failure::of(Outcome::NoAnswer)); 2]);
        assert_eq!(went_on, [0, 1]);
        let (_, went_on) = asked(OK, Keeping::Fresh, 2).await;
        assert_eq!(went_on, [0, 1]);
    }

    #[tokio::test]
    async fn a_connection_that_the_server_closed_while_it_was_free_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connections = connections(listener.local_addr().unwrap(), Keeping::Pool, 1);
        let serve_once = async || {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; REQUEST.len()]).await.unwrap();
            stream.write_all(OK.as_bytes()).await.unwrap();
        };
        for _ in 0..2 {
            let ((asked, _), ()) = tokio::join!(connections.ask(REQUEST, soon()), serve_once());
            assert_eq!(asked, Ok(()));
            // The server's end arrives.
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_try_waits_for_a_free_connection_and_the_last_used_is_the_first() {
        let (address, mut told) = server(OK).await;
        let connections = connections(address, Keeping::Pool, 2);
        let ask = || async { connections.ask(REQUEST, soon()).await.1 };
        let waits = tokio::join!(ask(), ask(), ask(), ask());
        let waits = [waits.0, waits.1, waits.2, waits.3];
        assert!(waits[..2].iter().all(|wait| *wait < 15_000), "{waits:?}");
        assert!(waits[2..].iter().all(|wait| *wait >= 15_000), "{waits:?}");
        let mut went_on = Vec::new();
        for _ in 0..4 {
            went_on.push(told.recv().await.unwrap());
        }
        went_on.sort_unstable();
        assert_eq!(went_on, [0, 0, 1, 1]);
        connections.ask(REQUEST, soon()).await.0.unwrap();
        let last = told.recv().await.unwrap();
        connections.ask(REQUEST, soon()).await.0.unwrap();
        assert_eq!(told.recv().await, Some(last));
    }

    #[tokio::test]
    async fn a_try_that_gets_no_connection_in_time_sends_nothing() {
        let (address, mut told) = server(OK).await;
        let connections = connections(address, Keeping::Pool, 1);
        let hasty = Instant::now() + Duration::from_millis(5);
        let (first, (second, _)) = tokio::join!(
            connections.ask(REQUEST, soon()),
            connections.ask(REQUEST, hasty)
        );
        assert_eq!(first.0, Ok(()));
        assert_eq!(second, Err(Failure::of(Outcome::PoolTimeout)));
        assert_eq!(told.recv().await, Some(0));
        assert!(told.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_deadline_ends_a_try_before_its_own_patience_does() {
        let (address, _told) = server(OK).await;
        let connections = connections(address, Keeping::Fresh, 1);
        let hasty = Instant::now() + Duration::from_millis(5);
        let (result, _) = connections.ask(REQUEST, hasty).await;
        assert_eq!(result, Err(Failure::of(Outcome::AnswerTimeout)));
    }

    #[tokio::test]
    async fn a_denial_is_told_from_a_busy_service() {
        let (denied, _) = asked(DENIED, Keeping::Pool, 1).await;
        let (busy, _) = asked(BUSY, Keeping::Pool, 1).await;
        let is_denied = |asked: &[Result<(), Failure>]| asked[0].unwrap_err().denied;
        assert!(is_denied(&denied));
        assert!(!is_denied(&busy));
    }

    #[tokio::test]
    async fn a_refused_connect_is_refused_whoever_did_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let (result, _) = connections(address, Keeping::Fresh, 1)
            .ask(REQUEST, soon())
            .await;
        let failure = result.unwrap_err();
        assert_eq!((failure.outcome, failure.denied), (Outcome::Refused, false));
    }
    #[tokio::test]
    async fn a_try_waits_no_longer_for_a_connection_than_it_may() {
        let (address, _told) = server(OK).await;
        let connections =
            connections(address, Keeping::Pool, 1).with_patience(Some(Duration::from_millis(5)));
        let (first, (second, _)) = tokio::join!(
            connections.ask(REQUEST, soon()),
            connections.ask(REQUEST, soon())
        );
        assert_eq!(
            (first.0, second),
            (Ok(()), Err(Failure::of(Outcome::PoolTimeout)))
        );
    }
}
