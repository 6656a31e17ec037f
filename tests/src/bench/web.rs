//! A server of HTTP/1.1 and of plain bytes, in a process of its own, and what its callers send.
//!
//! It does as little as a server can: what the governor adds is the larger part of the whole.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::worker::{Cpus, What, stay};
use crate::place::Place;

/// Where it listens, in a network of its own.
pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// What it answers.
pub const ANSWER: [u8; 140] = *b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"order\":\"known\"}";

/// A connection that begins with this byte is read, and not answered.
pub const TAKE: u8 = 1;
/// To a caller that sends this byte first, [`SEGMENT`] is sent until it closes.
pub const GIVE: u8 = 2;
/// As much as one write takes.
pub const SEGMENT: [u8; 1_400] = [0xa5; 1_400];

/// How long the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(5);

/// One request of a load.
pub fn request(what: What, number: u32) -> String {
    let target = match what {
        What::Requests => number,
        _ => 4711,
    };
    let headers = match what {
        What::BareRequests => "",
        _ => {
            "User-Agent: python-requests/2.32.3\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n"
        }
    };
    format!("GET /orders/{target:08} HTTP/1.1\r\nHost: {ADDRESS}\r\n{headers}\r\n")
}

/// The server, seen from outside. Dropping it ends the process.
#[derive(Debug)]
pub struct Web(Child);

impl Web {
    /// Starts this very program as a server; returns when it listens.
    pub fn start(place: &Place<'_>, cpus: Cpus) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("web").arg(cpus.to_string());
        place.settle(&mut command);
        let web = Self(command.spawn().context("the web server does not start")?);
        let began = Instant::now();
        while place.run(|| TcpStream::connect(ADDRESS)).is_err() {
            ensure!(began.elapsed() < PATIENCE, "the web server does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(web)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It has ended by itself if these fail.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server, seen from inside: serves until it is killed.
pub fn serve(cpus: Cpus) -> Result<()> {
    stay(cpus.split()?.1)?;
    let workers = thread::available_parallelism()?.get();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(workers).enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(ADDRESS).await?;
        loop {
            let (connection, _) = listener.accept().await?;
            connection.set_nodelay(true)?;
            // The client sees whatever goes wrong there.
            tokio::spawn(answer(connection));
        }
    })
}

/// One connection, to its end.
async fn answer(mut connection: tokio::net::TcpStream) -> Result<()> {
    let mut bytes = vec![0; 65_536];
    let mut count = connection.read(&mut bytes).await?;
    match bytes[0] {
        TAKE => while connection.read(&mut bytes).await? > 0 {},
        GIVE => loop {
            connection.write_all(&SEGMENT).await?;
        },
        _ => {
            // Heads of callers that wait for their answer come whole, and end so.
            while count > 0 && bytes[..count].ends_with(b"\r\n\r\n") {
                connection.write_all(&ANSWER).await?;
                count = connection.read(&mut bytes).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_body_that_it_announces() {
        let text = String::from_utf8_lossy(&ANSWER);
        let body = text.split("\r\n\r\n").nth(1).expect("a body");
        assert!(text.contains(&format!("Content-Length: {}\r\n", body.len())));
    }

    #[test]
    fn requests_of_their_own_target_are_as_long_as_equal_ones() {
        let long = |what| request(what, 17).len();
        assert_eq!(long(What::Requests), long(What::EqualRequests));
        assert_ne!(request(What::Requests, 1), request(What::Requests, 2));
    }
}
