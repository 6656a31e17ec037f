//! The layer below: what a request asks of it before it is answered.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use super::request::Request;
use super::told::Counts;
use crate::storm::exchange::{Speech, Target};
use crate::storm::policy::Policy;
use crate::storm::pool::{Connections, Keeping};
use crate::storm::report::{Failure, Outcome};

/// More than a storm has at once: its own files are what limits a layer.
const POOL: usize = 1 << 16;

/// How a layer asks the one below.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("retry", |retry| retry.default_value("naive")))]
#[command(mut_arg("tries", |tries| tries.default_value("1")))]
pub struct Asking {
    /// The layer below: each request asks it before it is answered.
    #[arg(long = "backend", value_name = "ADDRESS")]
    pub address: Option<SocketAddr>,
    /// How it names itself to the layer below.
    #[arg(long, default_value = "service")]
    pub name: String,
    /// Patience with a try at the layer below.
    #[arg(long = "backend-timeout", value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub patience: Duration,
    /// Where tries get their connections from.
    #[arg(long = "backend-connections", value_enum, default_value = "pool")]
    pub connections: Keeping,
    /// Sends an `idempotency-key` of each operation of its own: of all tries for one request that came in.
    #[arg(long)]
    pub idempotency_key: bool,
    /// What is tried again, and when.
    #[command(flatten)]
    pub policy: Policy,
}

/// The layer below, as its caller has it.
#[derive(Debug)]
pub struct Backend {
    asking: Asking,
    host: SocketAddr,
    connections: Connections,
}

impl Backend {
    /// Where there is one.
    pub fn new(asking: Asking) -> Option<Self> {
        let host = asking.address?;
        let target = Target {
            address: host,
            speak: Speech::Http,
            connect_timeout: asking.patience,
            answer_timeout: asking.patience,
        };
        Some(Self {
            connections: Connections::new(target, asking.connections, POOL),
            asking,
            host,
        })
    }

    /// Asks for the same as the request, until that is answered well or the policy ends it; the status
    /// to answer with.
    pub async fn ask(&self, request: &Request, counts: &Counts) -> u16 {
        let policy = &self.asking.policy;
        let request = self.request(request);
        let mut attempt = 1;
        loop {
            counts.count(|slot| {
                slot.called += 1;
                slot.called_first += u64::from(attempt == 1);
            });
            let deadline = Instant::now() + self.asking.patience;
            let (answered, _) = self.connections.ask(&request, deadline).await;
            let Err(failure) = answered else { return 200 };
            if attempt >= policy.tries() || !policy.is_retryable(&failure) {
                return status(&failure);
            }
            sleep(policy.wait(attempt, fastrand::f64())).await;
            attempt += 1;
        }
    }

    fn request(&self, Request { method, target, .. }: &Request) -> Vec<u8> {
        let Self { asking, host, .. } = self;
        let name = &asking.name;
        let ending = match asking.connections {
            Keeping::Fresh => "Connection: close\r\n",
            Keeping::Pool => "",
        };
        let body = match method.as_str() {
            "GET" | "HEAD" => "",
            _ => "Content-Length: 0\r\n",
        };
        let key = match asking.idempotency_key {
            true => format!("Idempotency-Key: {name}-{:x}\r\n", fastrand::u64(..)),
            false => String::new(),
        };
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {name}\r\n{key}{body}{ending}\r\n"
        )
        .into_bytes()
    }
}

/// As gateways say it: 504 where there was no answer in time, else 502.
fn status(failure: &Failure) -> u16 {
    match failure.outcome {
        Outcome::ConnectTimeout | Outcome::AnswerTimeout | Outcome::PoolTimeout => 504,
        _ => 502,
    }
}
