//! One accepted connection: reads requests, treats them as the server's mood says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Behaviour, Counts, Protocol};
use crate::storm::wire;

/// More than any request of a test; a caller that sends more is closed.
const MAX_REQUEST: usize = 1 << 20;

pub struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    mood: watch::Receiver<Behaviour>,
    counts: Arc<Counts>,
    heard: Vec<u8>,
}

impl Connection {
    pub fn new(
        stream: TcpStream,
        protocol: Protocol,
        mood: watch::Receiver<Behaviour>,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            stream,
            protocol,
            mood,
            counts,
            heard: Vec::new(),
        }
    }

    /// Serves until the caller leaves, or the server dies under it.
    pub async fn serve(self) {
        let mut mood = self.mood.clone();
        tokio::select! {
            // The caller may have gone or reset: for a server that is no error.
            _ = self.converse() => {}
            _ = mood.wait_for(|behaviour| *behaviour == Behaviour::Refuse) => {}
        }
    }

    async fn converse(mut self) -> io::Result<()> {
        if self.behaviour().await? == Behaviour::SpeakFirst {
            self.stream.write_all(b"220 ready\r\n").await?;
        }
        while let Some(request) = self.next_request().await? {
            let behaviour = self.behaviour().await?;
            let number = self.counts.requests.count();
            self.counts.requests.hit();
            match behaviour {
                Behaviour::CloseUnanswered(share) if share.draws(number) => return Ok(()),
                Behaviour::Reset => return self.stream.set_zero_linger(),
                Behaviour::Hang => return self.ignore().await,
                Behaviour::AnswerAfter(delay) => sleep(delay).await,
                _ => {}
            }
            let answer = match (self.protocol, behaviour) {
                (Protocol::Line, _) => request,
                (Protocol::Http, Behaviour::Status(status)) => http_answer(status),
                (Protocol::Http, _) => http_answer(200),
            };
            self.stream.write_all(&answer).await?;
            self.counts.answers.hit();
        }
        Ok(())
    }

    /// The mood now; a stalled server comes to this point only when the stall is over.
    async fn behaviour(&mut self) -> io::Result<Behaviour> {
        let awake = self
            .mood
            .wait_for(|behaviour| *behaviour != Behaviour::Stall)
            .await;
        // An error: the server is being dropped, and this connection with it.
        awake.map(|behaviour| *behaviour).map_err(io::Error::other)
    }

    /// The next whole request, or `None` when the caller is done or was silent for too long.
    async fn next_request(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let length = match self.protocol {
                Protocol::Http => wire::http_request_length(&self.heard),
                Protocol::Line => wire::line_length(&self.heard),
            };
            if let Some(length) = length {
                return Ok(Some(self.heard.drain(..length).collect()));
            }
            if self.heard.len() > MAX_REQUEST || !self.hear().await? {
                return Ok(None);
            }
        }
    }

    /// Reads more; false when nothing more will come.
    async fn hear(&mut self) -> io::Result<bool> {
        let patience = match self.behaviour().await? {
            Behaviour::IdleClose(after) => after,
            _ => Duration::MAX,
        };
        match timeout(patience, self.stream.read_buf(&mut self.heard)).await {
            Ok(read) => Ok(read? > 0),
            Err(_) => Ok(false),
        }
    }

    /// Keeps the connection open, and silent, for as long as the caller does.
    async fn ignore(&mut self) -> io::Result<()> {
        while self.stream.read_buf(&mut self.heard).await? > 0 {
            self.heard.clear();
        }
        Ok(())
    }
}

fn http_answer(status: u16) -> Vec<u8> {
    let body = "ok\n";
    format!(
        "HTTP/1.1 {status} Test\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
