//! Unmodified clients of the real world, each with the retries its users would switch on.
//!
//! `cargo xtask setup` installs them. A client that is not there fails the test with the name of
//! what is missing. Times between tries are the client's own habit, shortened where it can be told.
//! Nothing of the lab's truth is on the wire: it is what the clients print, and what the server saw.

mod install;
mod running;
mod serving;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

pub use running::{Running, Told};
pub use serving::{RealServer, Serving};

use crate::must;

/// A client, by its library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealClient {
    /// `curl --retry --retry-all-errors`: waits 1 s, doubling; a process per operation.
    Curl,
    /// `wget --tries --retry-on-http-error`, without a wait; a process per operation.
    Wget,
    /// requests with urllib3's `Retry`: no wait before the first retry, then doubling.
    Requests,
    /// httpx in a tenacity decorator.
    Tenacity,
    /// aiohttp with aiohttp-retry.
    Aiohttp,
    /// boto3 in its standard mode: declares its attempts.
    Boto3,
    /// `fetch` of Node in a loop.
    Fetch,
    /// got with its own retries.
    Got,
    /// axios with axios-retry.
    Axios,
    /// undici's RetryAgent.
    Undici,
    /// AWS SDK for JavaScript: declares its attempts.
    AwsJs,
    /// net/http of Go's standard library in a loop; itself it sends again where a kept connection died.
    Go,
    /// `java.net.http.HttpClient` in a loop; itself it sends again like Go's.
    JavaHttpClient,
    /// Java's `HttpURLConnection`, no loop: sends again like Go's.
    JavaUrlConnection,
    /// Ruby's `Net::HTTP`, no loop: sends again where it got no answer.
    Ruby,
    /// grpcio with the retry policy of a service config.
    GrpcPython,
    /// @grpc/grpc-js with the same.
    GrpcNode,
    /// redis-py with the ten retries of its default.
    RedisPython,
    /// ioredis: connects again for ever.
    Ioredis,
    /// kafka-python's producer.
    KafkaPython,
    /// librdkafka's producer.
    Librdkafka,
}

/// What a client is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Operations, one after the other.
    pub operations: u32,
    /// What they ask for.
    pub targets: Targets,
    /// Tries after the first, at most. (`HttpURLConnection` has a mind of its own.)
    pub retries: u32,
    /// Patience with an answer, where the library has one for an answer; else with a connect.
    pub timeout: Duration,
    /// Rest between operations.
    pub pause: Duration,
}

/// What operations ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// `/op/N`, each its own.
    Distinct,
    /// All the same.
    Hot,
}

impl Work {
    /// One operation, for a server that answers late if at all.
    pub fn once(retries: u32) -> Self {
        Self {
            operations: 1,
            targets: Targets::Hot,
            retries,
            timeout: Duration::from_secs(10),
            pause: Duration::ZERO,
        }
    }
}

/// How an operation ended, as its client saw it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Line")]
pub struct Ended {
    /// Which.
    pub operation: u32,
    /// Tries, where the library tells them.
    pub tries: Option<u32>,
    /// Whether it was answered well.
    pub end: End,
    /// From the call to its end.
    pub took: Duration,
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Answered well.
    Well,
    /// A status of 400 or more.
    Status(u16),
    /// No answer: what the library calls it.
    Error(String),
}

/// A line of a client's log: the scripts say what their library tells.
#[derive(Deserialize)]
struct Line {
    op: u32,
    seconds: f64,
    tries: Option<u32>,
    status: Option<u16>,
    error: Option<String>,
    /// An exit code.
    exit: Option<u8>,
}

impl From<Line> for Ended {
    fn from(line: Line) -> Self {
        let end = match (line.status, line.error, line.exit) {
            (Some(status @ 400..), _, _) => End::Status(status),
            (_, Some(error), _) => End::Error(error),
            (_, _, Some(code @ 1..)) => End::Error(format!("exit code {code}")),
            _ => End::Well,
        };
        Self {
            operation: line.op,
            tries: line.tries,
            end,
            took: Duration::from_secs_f64(line.seconds.max(0.0)),
        }
    }
}

impl RealClient {
    /// All that speak HTTP/1, those that wait longest first.
    pub const ALL: [Self; 15] = [
        Self::Curl,
        Self::Got,
        Self::Axios,
        Self::Aiohttp,
        Self::Requests,
        Self::JavaHttpClient,
        Self::AwsJs,
        Self::Boto3,
        Self::Fetch,
        Self::Wget,
        Self::Tenacity,
        Self::Undici,
        Self::Go,
        Self::JavaUrlConnection,
        Self::Ruby,
    ];

    /// Those whose protocol is opaque to the governor, and the server of each.
    pub const OPAQUE: [(Self, RealServer); 6] = [
        (Self::GrpcPython, RealServer::Grpc),
        (Self::GrpcNode, RealServer::Grpc),
        (Self::RedisPython, RealServer::Redis),
        (Self::Ioredis, RealServer::Redis),
        (Self::KafkaPython, RealServer::Kafka),
        (Self::Librdkafka, RealServer::Kafka),
    ];

    /// One of each language, all of which try a refused connect again.
    pub const OF_EACH_LANGUAGE: [Self; 5] = [
        Self::Curl,
        Self::Requests,
        Self::Go,
        Self::Fetch,
        Self::JavaHttpClient,
    ];

    /// The command line for `work` against a server, `http://HOST:PORT`, or `HOST:PORT` of an opaque one. It ends with 0 whatever
    /// became of the operations: each of them is a line of its output.
    #[track_caller]
    pub fn command(self, base: &str, work: &Work) -> Command {
        let mut command = must(self.program());
        let targets = match work.targets {
            Targets::Distinct => "distinct",
            Targets::Hot => "hot",
        };
        command
            .arg(base)
            .arg(work.operations.to_string())
            .arg(work.retries.to_string())
            .arg(work.timeout.as_secs_f64().to_string())
            .arg(work.pause.as_secs_f64().to_string())
            .arg(targets);
        // A proxy of this machine must not come between the client and the lab.
        for name in [
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// The lines that it printed.
    #[track_caller]
    pub fn ended(output: &str) -> Vec<Ended> {
        let ended: Result<_> = output.lines().map(line).collect();
        must(ended)
    }

    fn program(self) -> Result<Command> {
        match self {
            Self::Curl => install::shell("curl", "curl.sh"),
            Self::Wget => install::shell("wget", "wget.sh"),
            Self::Requests => install::python("requests_urllib3.py"),
            Self::Tenacity => install::python("httpx_tenacity.py"),
            Self::Aiohttp => install::python("aiohttp_retry_client.py"),
            Self::Boto3 => install::python("boto3_s3.py"),
            Self::Fetch => install::node("fetch.mjs"),
            Self::Got => install::node("got.mjs"),
            Self::Axios => install::node("axios.mjs"),
            Self::Undici => install::node("undici.mjs"),
            Self::AwsJs => install::node("aws_s3.mjs"),
            Self::Go => install::go("client.go"),
            Self::JavaHttpClient => install::java("HttpClientLoop.java"),
            Self::JavaUrlConnection => install::java("UrlConnection.java"),
            Self::Ruby => install::ruby("net_http.rb"),
            Self::GrpcPython => install::python("grpc_python.py"),
            Self::GrpcNode => install::node("grpc_node.mjs"),
            Self::RedisPython => install::python("redis_python.py"),
            Self::Ioredis => install::node("ioredis.mjs"),
            Self::KafkaPython => install::python("kafka_python.py"),
            Self::Librdkafka => install::python("kafka_librdkafka.py"),
        }
    }
}

fn line(line: &str) -> Result<Ended> {
    serde_json::from_str(line).with_context(|| format!("not the end of an operation: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_telling_an_end_is_understood() {
        let end = |text: &str| line(text).map(|ended| ended.end).unwrap();
        assert_eq!(end(r#"{"op":0,"status":200,"seconds":0.1}"#), End::Well);
        assert_eq!(
            end(r#"{"op":0,"status":503,"tries":4,"seconds":0.1}"#),
            End::Status(503)
        );
        assert_eq!(
            end(r#"{"op":0,"exit":28,"seconds":0.1}"#),
            End::Error("exit code 28".to_owned())
        );
        assert_eq!(end(r#"{"op":0,"exit":0,"seconds":0.1}"#), End::Well);
        assert_eq!(
            end(r#"{"op":0,"error":"ReadTimeout: ","seconds":0.1}"#),
            End::Error("ReadTimeout: ".to_owned())
        );
    }
}
