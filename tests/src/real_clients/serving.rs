//! Servers of the real world, for clients that do not speak HTTP/1.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::install;
use crate::must;
use crate::place::Place;

/// How long one may take to listen: Python and its libraries are loaded first.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A server, by its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealServer {
    /// grpcio's, with a method that answers everything.
    Grpc,
    /// Redis itself.
    Redis,
    /// The mock cluster that librdkafka is tested with: one broker.
    Kafka,
}

/// A running one. Dropping it kills it.
#[derive(Debug)]
pub struct Serving {
    child: Child,
    port: u16,
}

impl RealServer {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Grpc, Self::Redis, Self::Kafka];

    /// Starts one in a place, and waits until it listens on its loopback.
    #[track_caller]
    pub fn start(self, place: &Place<'_>) -> Serving {
        let started = self.try_start(place);
        must(started.with_context(|| format!("cannot start the server {self:?}")))
    }

    fn try_start(self, place: &Place<'_>) -> Result<Serving> {
        let mut command = self.program()?;
        place.settle(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let output = child.stdout.take().context("no output")?;
        let mut serving = Serving { child, port: 0 };
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said)?;
        let port = said.trim().parse();
        serving.port = port.with_context(|| format!("it said {said:?} for its port"))?;
        let deadline = Instant::now() + LISTENS_WITHIN;
        let address = ("127.0.0.1", serving.port);
        while place.run(|| TcpStream::connect(address).is_err()) {
            ensure!(Instant::now() < deadline, "it does not listen");
            thread::sleep(POLL);
        }
        Ok(serving)
    }

    fn program(self) -> Result<Command> {
        match self {
            Self::Grpc => install::python("servers/grpc_server.py"),
            Self::Redis => install::shell("redis-check-rdb", "servers/redis_server.sh"),
            Self::Kafka => install::python("servers/kafka_broker.py"),
        }
    }
}

impl Serving {
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
