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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use std::os::unix::net::UnixStream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Instant, timeout};

    /// Serves on a socket of its own; `/stream` never ends.
    fn start(scratch: &std::path::Path) -> std::path::PathBuf {
        let path = scratch.join("s.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let endless = async |Extension(streaming): Extension<Streaming>| {
            streaming.begin();
            Body::from_stream(futures_util::stream::pending::<Result<&str, io::Error>>())
        };
        let who = async |Extension(peer): Extension<Peer>| peer.uid.to_string();
        tokio::spawn(serve(
            listener,
            Router::new()
                .route("/who", get(who))
                .route("/stream", get(endless)),
        ));
        path
    }

    async fn connect(path: &std::path::Path, request: &str) -> tokio::net::UnixStream {
        let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn read(mut stream: tokio::net::UnixStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    const WHO: &str = "GET /who HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_handler_knows_who_asks() {
        let scratch = tempfile::tempdir().unwrap();
        let path = start(scratch.path());
        let answer = read(connect(&path, WHO).await).await;
        assert!(
            answer.ends_with(&nix::unistd::getuid().to_string()),
            "{answer}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_ends_and_a_client_that_says_nothing_are_cut_off() {
        let scratch = tempfile::tempdir().unwrap();
        let path = start(scratch.path());
        for request in ["", "GET /who HTTP/1.1\r\nX-Slow: "] {
            let began = Instant::now();
            let mut stream = connect(&path, request).await;
            let mut answer = Vec::new();
            timeout(HEAD_WITHIN * 2, stream.read_to_end(&mut answer))
                .await
                .unwrap()
                .unwrap();
            assert!(began.elapsed() >= HEAD_WITHIN, "{request:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_lives_longer_than_other_connections() {
        let scratch = tempfile::tempdir().unwrap();
        let path = start(scratch.path());
        let mut stream = connect(&path, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut head = [0; 16];
        stream.read_exact(&mut head).await.unwrap();
        let mut rest = Vec::new();
        assert!(
            timeout(LIFETIME * 3, stream.read_to_end(&mut rest))
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn those_beyond_the_bound_wait_until_one_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = start(scratch.path());
        let silent: Vec<_> = (0..CONNECTIONS)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        let waiting = tokio::spawn(read(connect(&path, WHO).await));
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting.is_finished());
        drop(silent);
        let answer = timeout(HEAD_WITHIN / 2, waiting).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
