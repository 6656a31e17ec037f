//! One connection of a caller, and one request and answer on it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::FutureExt;
use nix::errno::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::report::{Failure, Outcome};
use super::wire;

/// What a caller says once it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Speech {
    /// Nothing: connect and close.
    None,
    /// An HTTP GET; waits for the answer.
    Http,
    /// A line; waits for a line.
    Line,
    /// Waits for the server's banner, then as `line`.
    Banner,
}

impl Speech {
    /// As `--speak` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Http => "http",
            Self::Line => "line",
            Self::Banner => "banner",
        }
    }
}

/// Whom to call, and how.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Address and port to call.
    pub address: SocketAddr,
    /// What to say.
    #[arg(long, value_enum, default_value = "none")]
    pub speak: Speech,
    /// Patience with a connect.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub connect_timeout: Duration,
    /// Patience with an answer.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub answer_timeout: Duration,
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    speak: Speech,
    patience: Duration,
    heard: Vec<u8>,
    /// The server said that it closes.
    is_over: bool,
}

impl Target {
    /// Connects, exchanges once where there is something to say, closes.
    pub async fn call(&self) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        match self.speak {
            Speech::None => Ok(()),
            _ => connection.exchange().await,
        }
    }

    /// Connects, and hears the banner where one is expected.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let stream = match timeout(self.connect_timeout, TcpStream::connect(self.address)).await {
            Ok(connected) => connected.map_err(|error| failure_of(&error))?,
            Err(_) => return Err(Failure::of(Outcome::ConnectTimeout)),
        };
        let mut connection = Connection {
            stream,
            speak: self.speak,
            patience: self.answer_timeout,
            heard: Vec::new(),
            is_over: false,
        };
        if self.speak == Speech::Banner {
            connection.answer().await?;
        }
        Ok(connection)
    }
}

impl Connection {
    /// Sends a request and waits for its answer.
    pub async fn exchange(&mut self) -> Result<(), Failure> {
        self.request().await?;
        self.answer().await
    }

    /// The same with a request of the caller's own, which may be too long for the socket's buffer: the
    /// patience is with both.
    pub async fn ask(&mut self, request: &[u8]) -> Result<(), Failure> {
        let patience = self.patience;
        let asked = async {
            let sent = self.stream.write_all(request).await;
            sent.map_err(|error| failure_of(&error))?;
            self.whole_answer().await
        };
        match timeout(patience, asked).await {
            Ok(answered) => answered,
            Err(_) => Err(Failure::of(Outcome::AnswerTimeout)),
        }
    }

    /// Changes the patience with an answer.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether another exchange may follow, as far as the last answer says.
    pub fn is_open(&self) -> bool {
        !self.is_over && self.heard.is_empty()
    }

    /// Whether the server has left it open, as a pool looks before it takes a connection: without
    /// waiting. What a server says unasked makes it useless too.
    pub fn is_alive(&self) -> bool {
        self.is_open() && self.stream.peek(&mut [0]).now_or_never().is_none()
    }

    /// The same for the last request: half-closes before it waits, as `nc` and some RPC clients do.
    pub async fn last_exchange(&mut self) -> Result<(), Failure> {
        self.request().await?;
        let half_closed = self.stream.shutdown().await;
        half_closed.map_err(|error| failure_of(&error))?;
        self.answer().await
    }

    /// Rests for `gap`; true when the server closed meanwhile, as a pool would notice.
    pub async fn rest(&mut self, gap: Duration) -> bool {
        if self.is_over {
            return true;
        }
        let closed = timeout(gap, self.stream.peek(&mut [0])).await;
        !matches!(closed, Err(_) | Ok(Ok(1..)))
    }

    async fn request(&mut self) -> Result<(), Failure> {
        let request: &[u8] = match self.speak {
            Speech::Http => b"GET / HTTP/1.1\r\nHost: storm\r\n\r\n",
            _ => b"hello\n",
        };
        let sent = self.stream.write_all(request).await;
        sent.map_err(|error| failure_of(&error))
    }

    async fn answer(&mut self) -> Result<(), Failure> {
        match timeout(self.patience, self.whole_answer()).await {
            Ok(answered) => answered,
            Err(_) => Err(Failure::of(Outcome::AnswerTimeout)),
        }
    }

    async fn whole_answer(&mut self) -> Result<(), Failure> {
        loop {
            if self.speak == Speech::Http {
                if let Some(answer) = wire::http_answer(&self.heard) {
                    self.heard.drain(..answer.length);
                    self.is_over = answer.is_last;
                    return judge(answer);
                }
            } else if let Some(length) = wire::line_length(&self.heard) {
                self.heard.drain(..length);
                return Ok(());
            }
            let read = self.stream.read_buf(&mut self.heard).await;
            if read.map_err(|error| failure_of(&error))? == 0 {
                return Err(Failure::of(Outcome::NoAnswer));
            }
        }
    }
}

/// An error of either side is a failure.
fn judge(answer: wire::Answer) -> Result<(), Failure> {
    match answer.status {
        400.. => Err(Failure {
            status: Some(answer.status),
            denied: answer.is_denial,
            ..Failure::of(Outcome::Status)
        }),
        _ => Ok(()),
    }
}

fn failure_of(error: &io::Error) -> Failure {
    let outcome = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED) => Outcome::Refused,
        Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => Outcome::Unreachable,
        Some(Errno::ETIMEDOUT) => Outcome::ConnectTimeout,
        Some(Errno::ECONNRESET | Errno::EPIPE) => Outcome::Reset,
        None if error.kind() == ErrorKind::TimedOut => Outcome::ConnectTimeout,
        _ => Outcome::Other,
    };
    Failure {
        errno: error.raw_os_error(),
        ..Failure::of(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speech_is_named_as_the_command_line_spells_it() {
        for speech in Speech::value_variants() {
            assert_eq!(Speech::from_str(speech.name(), false), Ok(*speech));
        }
    }
}
