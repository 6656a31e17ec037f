//! Serving HTTP/1.1 so that no client can wedge the daemon: the number of
//! connections, the time a request head may take, and the time a connection
//! that is not an event stream may live are bounded. Bodies are bounded where
//! they are read ([`super::control`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

/// How long a request head may take, and how long a connection may idle.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection may live. Prometheus and the CLI open a new one.
const LIFETIME: Duration = Duration::from_secs(60);
/// Connections at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 64;
/// After a failed accept (no descriptors left): wait, do not spin.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// Process id, where the kernel knows one.
    pub pid: Option<i32>,
}

/// Tells that a connection streams events: it may live for as long as it likes.
#[derive(Clone, Debug, Default)]
pub struct Streaming(Arc<AtomicBool>);

impl Streaming {
    /// From now on.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What accepts connections.
pub trait Accept {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The next one, and who it is where that is known.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Io, Option<Peer>)>> + Send;
}

impl Accept for UnixListener {
    type Io = tokio::net::UnixStream;
    async fn accept(&self) -> io::Result<(Self::Io, Option<Peer>)> {
        let (stream, _) = Self::accept(self).await?;
        let peer = stream.peer_cred()?;
        let peer = Peer {
            uid: peer.uid(),
            pid: peer.pid(),
        };
        Ok((stream, Some(peer)))
    }
}

impl Accept for TcpListener {
    type Io = tokio::net::TcpStream;
    async fn accept(&self) -> io::Result<(Self::Io, Option<Peer>)> {
        let (stream, _) = Self::accept(self).await?;
        Ok((stream, None))
    }
}

/// Serves for ever. Handlers find [`Streaming`] and, on a unix socket, [`Peer`]
/// among the extensions of a request.
pub async fn serve(listener: impl Accept, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let (io, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let router = router.clone();
        tokio::spawn(async move {
            connection(io, peer, router).await;
            drop(place);
        });
    }
}

async fn connection<I>(io: I, peer: Option<Peer>, router: Router)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let streaming = Streaming::default();
    let mut router = router.layer(Extension(streaming.clone()));
    if let Some(peer) = peer {
        router = router.layer(Extension(peer));
    }
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(64 * 1024);
    let served = http.serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
    tokio::pin!(served);
    let life = tokio::time::sleep(LIFETIME);
    tokio::select! {
        // How it ended is the client's business.
        _ = &mut served => {}
        () = life => if streaming.is_on() {
            let _ = served.await;
        }
    }
}
