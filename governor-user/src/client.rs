//! The client side of the control socket: one request, one answer.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;

use crate::errors::{Exit, Failure, Result};

/// Where the daemon listens unless told otherwise.
pub const SOCKET: &str = "/run/retry-governor/control.sock";
/// How long an answer may take; it is work of milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Which daemon a command talks to.
#[derive(Clone, Debug, clap::Args)]
pub struct Socket {
    /// Control socket of the daemon
    #[arg(long = "socket", value_name = "PATH", default_value = SOCKET)]
    pub path: PathBuf,
}

/// Why the daemon refused, as it says it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// What and why, in one line.
    pub error: String,
}

/// A connection to the daemon.
pub struct Client {
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

/// Runs a client's future on this thread.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Failure::failed("start", error))?
        .block_on(future)
}

impl Client {
    /// Connects to the daemon at the socket.
    pub async fn connect(socket: &Socket) -> Result<Self> {
        let stream = UnixStream::connect(&socket.path).await;
        let stream = stream.map_err(|error| unreachable(&socket.path, &error))?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        // Ends with the connection; what failed is seen by the request too.
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// `GET path`, as JSON.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let body = self.call(Method::GET, path, Bytes::new()).await?;
        read(&body)
    }

    /// `PUT path` with JSON, answered with JSON.
    pub async fn put<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|error| broken(&error))?;
        let body = self.call(Method::PUT, path, body.into()).await?;
        read(&body)
    }

    /// `GET path`: the body, piece by piece, as long as it comes.
    pub async fn stream(&mut self, path: &str) -> Result<Incoming> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(refused(status, &collect(response.into_body()).await?)),
        }
    }

    async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let answer = async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            let body = collect(response.into_body()).await?;
            match status.is_success() {
                true => Ok(body),
                false => Err(refused(status, &body)),
            }
        };
        tokio::time::timeout(ANSWER_WITHIN, answer)
            .await
            .unwrap_or_else(|_| {
                Err(Failure::failed(
                    "daemon",
                    format!("no answer within {}s", ANSWER_WITHIN.as_secs()),
                ))
            })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "retry-governor")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| broken(&error))?;
        self.sender
            .send_request(request)
            .await
            .map_err(|error| broken(&error))
    }
}

async fn collect(body: Incoming) -> Result<Bytes> {
    let body = body.collect().await.map_err(|error| broken(&error))?;
    Ok(body.to_bytes())
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::failed(
            "daemon",
            format!("an answer that is not understood: {error}"),
        )
        .hint("is it of another version?")
    })
}

fn refused(status: StatusCode, body: &[u8]) -> Failure {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => {
            let (what, why) = refusal
                .error
                .split_once(": ")
                .unwrap_or(("daemon", &refusal.error));
            // The request was not understood: the command line asked for it.
            let exit = match status {
                StatusCode::BAD_REQUEST => Exit::Usage,
                _ => Exit::Failed,
            };
            Failure::new(exit, what, why)
        }
        Err(_) => Failure::failed("daemon", format!("it answered {status}")),
    }
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed("daemon", error).hint("see its log")
}

fn unreachable(path: &Path, error: &io::Error) -> Failure {
    let what = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new(Exit::NoDaemon, what, "no daemon: no such socket")
            .hint("start one with `retry-governor run`, or name its --socket"),
        io::ErrorKind::ConnectionRefused => Failure::new(
            Exit::NoDaemon,
            what,
            "no daemon: nobody listens at the socket",
        )
        .hint("start one with `retry-governor run`"),
        io::ErrorKind::PermissionDenied => Failure::missing(what, "permission denied")
            .hint("run as root, or as a member of the daemon's --socket-group"),
        _ => Failure::new(Exit::NoDaemon, what, error),
    }
}

/// A destination as one segment of a path: `10.0.0.1:80` and group names stay
/// readable, all else is escaped.
pub fn segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_not_there_says_no_daemon() {
        let socket = Socket {
            path: "/nowhere/control.sock".into(),
        };
        let failed = block_on(Client::connect(&socket)).err().unwrap();
        assert_eq!(failed.exit, Exit::NoDaemon);
        assert!(
            failed
                .to_string()
                .starts_with("error: /nowhere/control.sock: no daemon"),
            "{failed}"
        );
    }

    #[test]
    fn a_socket_nobody_listens_at_says_no_daemon() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let failed = block_on(Client::connect(&Socket { path })).err().unwrap();
        assert_eq!(failed.exit, Exit::NoDaemon);
    }

    #[test]
    fn a_destination_is_one_segment_of_a_path() {
        assert_eq!(segment("[fd00::1]:80"), "%5Bfd00::1%5D:80");
        assert_eq!(
            segment("10.0.8.0/24:5432,6432"),
            "10.0.8.0%2F24:5432%2C6432"
        );
    }
}
