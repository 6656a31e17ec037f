//! The port, and what comes in.

use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;

use super::backend::Backend;
use super::order::Mood;
use super::queue::Queue;
use super::told::Counts;
use crate::storm::wire;

/// A storm must not fill it; the kernel takes less where `net.core.somaxconn` is less.
const BACKLOG: u32 = 16_384;
/// Longer requests are no part of a storm.
const MAX_REQUEST: usize = 64 * 1024;

/// All that a connection needs.
#[derive(Debug)]
pub struct Front {
    /// Where it listens.
    pub address: SocketAddr,
    /// The queue.
    pub queue: Queue,
    /// What is counted.
    pub counts: Counts,
    /// The layer below, where there is one.
    pub backend: Option<Backend>,
}

/// Listens while the mood is not to refuse; `moods` tells when it changes.
pub async fn listen(front: Rc<Front>, mut moods: watch::Receiver<Mood>) -> Result<()> {
    loop {
        if *moods.borrow_and_update() == Mood::Refuse {
            moods.changed().await.context("nobody gives orders")?;
            continue;
        }
        let listener =
            bind(front.address).with_context(|| format!("listen on {}", front.address))?;
        // What is open goes with this sender, as with a process.
        let alive = watch::Sender::new(());
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    // An aborted handshake, or too many files for a moment: the caller's affair.
                    let Ok((stream, _)) = accepted else { continue };
                    let (front, mut dead) = (Rc::clone(&front), alive.subscribe());
                    spawn_local(async move {
                        tokio::select! {
                            () = serve(stream, &front) => {}
                            _ = dead.changed() => {}
                        }
                    });
                }
                changed = moods.changed() => {
                    changed.context("nobody gives orders")?;
                    if *moods.borrow_and_update() == Mood::Refuse {
                        break;
                    }
                }
            }
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket.listen(BACKLOG)?)
}

/// One connection to its end.
async fn serve(mut stream: TcpStream, front: &Front) {
    let mut heard = Vec::new();
    while let Some(request) = hear(&mut stream, &mut heard).await {
        front.counts.came(&request.caller, &request.target);
        let status = match front.queue.mood() {
            Mood::Status(status, share) if front.queue.draws(share) => Some(status),
            Mood::Hang(share) if front.queue.draws(share) => {
                // Until the caller has had enough.
                while matches!(stream.read(&mut [0; 256]).await, Ok(1..)) {}
                return;
            }
            _ => None,
        };
        let status = match status {
            Some(status) => status,
            None => {
                front.queue.pass().await;
                match &front.backend {
                    Some(backend) => backend.ask(&request.target, &front.counts).await,
                    None => 200,
                }
            }
        };
        if !is_awaited(&stream) {
            front.counts.count(|slot| slot.wasted += 1);
            return;
        }
        let ending = if request.is_last {
            "Connection: close\r\n"
        } else {
            ""
        };
        let answer = format!("HTTP/1.1 {status} {status}\r\nContent-Length: 3\r\n{ending}\r\nok\n");
        let sent = stream.write_all(answer.as_bytes()).await;
        front.counts.count(|slot| match (sent.is_ok(), status) {
            (true, ..400) => slot.answered += 1,
            (true, _) => slot.failed += 1,
            (false, _) => slot.wasted += 1,
        });
        if sent.is_err() || request.is_last {
            return;
        }
    }
}

/// What the service looks at in a request.
struct Request {
    target: String,
    caller: String,
    is_last: bool,
}

/// The next whole request; `None` at the end of the connection.
async fn hear(stream: &mut TcpStream, heard: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some(length) = wire::http_request_length(heard) {
            let request = read(heard);
            heard.drain(..length);
            return request;
        }
        if heard.len() > MAX_REQUEST || !matches!(stream.read_buf(heard).await, Ok(1..)) {
            return None;
        }
    }
}

fn read(head: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).ok()?;
    let value = |name: &str| {
        let header = request
            .headers
            .iter()
            .find(|it| it.name.eq_ignore_ascii_case(name))?;
        str::from_utf8(header.value).ok()
    };
    Some(Request {
        target: request.path?.to_owned(),
        caller: value("user-agent").unwrap_or("unnamed").to_owned(),
        is_last: value("connection").is_some_and(|it| it.eq_ignore_ascii_case("close")),
    })
}

/// A caller who has closed reads as the end of the stream.
fn is_awaited(stream: &TcpStream) -> bool {
    let mut more = [0];
    match stream.try_read(&mut more) {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}
