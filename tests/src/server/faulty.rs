//! An HTTP/1 server that fails on purpose, request by request, and logs all that reached it.
//!
//! hyper reads and writes the messages: bodies of either framing, `100 Continue`, HEAD, HTTP/1.0,
//! keepalive and pipelining are as real clients know them.

use std::collections::HashMap;
use std::convert::identity;
use std::future::{pending, poll_fn};
use std::io;
use std::sync::mpsc as sync;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::oneshot;

use super::faults::{Asked, Fault, Plan};
use super::listen;
use super::log::{Arrival, Log};
use crate::must;
use crate::netns::Netns;

type Body = BoxBody<Bytes, io::Error>;

/// A running server; it ends with its handle.
#[derive(Debug)]
pub struct FaultyServer {
    port: u16,
    shared: Arc<Shared>,
    alive: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Plan>,
    log: Mutex<Log>,
    /// How often each method and path was asked for.
    asked: Mutex<HashMap<String, u32>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultyServer {
    /// Starts a server on `port` of all addresses of the namespace; it listens when this returns.
    pub fn start(netns: &Netns, port: u16, plan: Plan) -> Self {
        let shared = Arc::new(Shared {
            plan: Mutex::new(plan),
            ..Shared::default()
        });
        let (alive, handle) = oneshot::channel();
        let (ready, listens) = sync::channel();
        let service = Arc::clone(&shared);
        let thread = netns.run(|| {
            // A thread starts in the namespace of the thread that makes it.
            std::thread::Builder::new()
                .name(format!("faulty server {port}"))
                .spawn(move || run(port, service, ready, handle))
        });
        let thread = must(thread.context("cannot start a server thread"));
        let listens = listens.recv_timeout(Duration::from_secs(5));
        must(
            listens
                .map_err(anyhow::Error::from)
                .and_then(identity)
                .with_context(|| format!("no server on port {port}")),
        );
        Self {
            port,
            shared,
            alive: Some(alive),
            thread: Some(thread),
        }
    }

    /// Changes the plan, for requests that are read from now on.
    pub fn set(&self, plan: Plan) {
        *locked(&self.shared.plan) = plan;
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What reached it so far.
    pub fn log(&self) -> Log {
        locked(&self.shared.log).clone()
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the server has been printed by the runtime; a second one here would abort.
            let _ = thread.join();
        }
    }
}

/// One thread does all, until the handle is gone.
fn run(
    port: u16,
    shared: Arc<Shared>,
    ready: sync::Sender<Result<()>>,
    mut handle: oneshot::Receiver<()>,
) {
    let serve = async {
        let listener = listen::open(port)?;
        // Whoever started it may have lost patience and gone.
        let _ = ready.send(Ok(()));
        tokio::select! {
            () = accept(&listener, &shared) => {}
            _ = &mut handle => {}
        }
        io::Result::Ok(())
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    if let Err(error) = runtime.and_then(|runtime| runtime.block_on(serve)) {
        let _ = ready.send(Err(error.into()));
    }
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        // An aborted handshake is the caller's affair.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let mut log = locked(&shared.log);
        let number = log.connections;
        log.connections += 1;
        drop(log);
        tokio::spawn(converse(stream, number, Arc::clone(shared)));
    }
}

/// Serves one connection. A fault without an answer is an error of the service: hyper stops, and
/// what is left of the connection is ended as the fault says.
async fn converse(stream: TcpStream, connection: u32, shared: Arc<Shared>) {
    // Else the second half of an answer waits for the acknowledgement of the first.
    let _ = stream.set_nodelay(true);
    let last = Arc::new(Mutex::new(None));
    let service = service_fn(|request| {
        let (shared, last) = (Arc::clone(&shared), Arc::clone(&last));
        Box::pin(async move {
            let (number, fault) = shared.arrived(connection, request).await?;
            *locked(&last) = fault;
            answer(number, fault).await
        })
    });
    let mut serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // The caller may have gone or reset: for a server that is no error.
    let _ = poll_fn(|cx| serving.poll_without_shutdown(cx)).await;
    let stream = serving.into_parts().io.into_inner();
    if *locked(&last) == Some(Fault::Reset) {
        let _ = stream.set_zero_linger();
    }
}

impl Shared {
    /// Reads a request to its end and notes it: which in number it is, and how it fails.
    async fn arrived(
        &self,
        connection: u32,
        request: Request<Incoming>,
    ) -> io::Result<(u32, Option<Fault>)> {
        let (head, body) = request.into_parts();
        body.collect().await.map_err(io::Error::other)?;
        let method = head.method.to_string();
        let target = head.uri.path().to_owned();
        let operation = target.strip_prefix("/op/").and_then(|one| one.parse().ok());
        let attempt = {
            let mut asked = locked(&self.asked);
            let count = asked.entry(format!("{method} {target}")).or_insert(0);
            *count += 1;
            *count
        };
        let mut log = locked(&self.log);
        let number = log.arrivals.len() as u32;
        let fault = locked(&self.plan).fault(Asked {
            operation,
            attempt,
            number,
        });
        log.arrivals.push(Arrival {
            at: Instant::now(),
            connection,
            method,
            target,
            operation,
            attempt,
            fault,
        });
        Ok((number, fault))
    }
}

async fn answer(number: u32, fault: Option<Fault>) -> io::Result<Response<Body>> {
    let response = Response::builder().header("content-type", "text/plain");
    let response = match fault {
        // Of both framings: a reader of answers must find the end of either.
        None if number.is_multiple_of(2) => response.status(200).body(whole("all is well\n")),
        None => response.status(200).body(in_chunks("all is well\n")),
        Some(Fault::Status(status)) => response.status(status).body(whole("it failed\n")),
        Some(Fault::Throttle(seconds)) => response
            .status(429)
            .header("retry-after", seconds)
            .body(whole("too much\n")),
        Some(Fault::Hang) => pending().await,
        Some(Fault::Reset | Fault::Close) => return Err(io::Error::other("as planned")),
    };
    response.map_err(io::Error::other)
}

/// A body with `Content-Length`.
fn whole(text: &'static str) -> Body {
    Full::from(text).map_err(|never| match never {}).boxed()
}

/// A body in two chunks.
fn in_chunks(text: &'static str) -> Body {
    let (one, two) = text.split_at(text.len() / 2);
    let frames = [one, two].map(|part| Ok(Frame::data(Bytes::from(part))));
    StreamBody::new(stream::iter(frames)).boxed()
}
