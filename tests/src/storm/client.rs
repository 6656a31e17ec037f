//! One client of a crowd: its policy, its budget, its connections.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fastrand::Rng;
use tokio::time::{Instant, sleep};

use super::client_budget::{Budget, Kind};
use super::exchange::Target;
use super::output::Output;
use super::policy::Policy;
use super::pool::{Connections, Keeping};
use super::report::{Failure, Outcome, Try, monotonic_micros};

/// How clients behave.
#[derive(Args, Clone, Debug)]
pub struct Behaviour {
    /// More addresses of the service: operations take them in turn, the first one included, and each
    /// try of an operation goes to the next.
    #[arg(long = "and", value_name = "ADDRESS,...", value_delimiter = ',')]
    pub more: Vec<SocketAddr>,
    /// What is tried again, and when.
    #[command(flatten)]
    pub policy: Policy,
    /// What limits the retries of a client.
    #[arg(long, value_enum, default_value = "none")]
    pub client_budget: Kind,
    /// Where tries get their connections from.
    #[arg(long, value_enum, default_value = "fresh")]
    pub connections: Keeping,
    /// Most connections of a client's pool.
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub pool: u32,
    /// Patience with the wait for a connection of the pool [default: none].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub pool_timeout: Option<Duration>,
    /// Patience with a whole operation, its tries and waits [default: none].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub patience: Option<Duration>,
    /// What it asks for.
    #[command(flatten)]
    pub request: Request,
}

/// What a request looks like. Nothing in it says which try it is, unless that is asked for.
#[derive(Args, Clone, Debug)]
pub struct Request {
    /// Method of the requests.
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// What to ask for [default: a path for each operation, which no other operation has].
    #[arg(long)]
    pub path: Option<String>,
    /// Bytes of the body.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub body: u32,
    /// Sends an `idempotency-key` of the operation.
    #[arg(long)]
    pub idempotency_key: bool,
    /// Sends the number of the try under this name, as `x-envoy-attempt-count`.
    #[arg(long, value_name = "HEADER")]
    pub attempt_header: Option<String>,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Well, or as the client's own policy, budget or patience would have it.
    Own,
    /// The load ended, and it was given up.
    Cut,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    name: String,
    behaviour: Rc<Behaviour>,
    address: String,
    /// To each address of the service.
    connections: Vec<Connections>,
    budget: RefCell<Budget>,
    random: RefCell<Rng>,
    start: Instant,
}

impl Client {
    /// A client that begins at `start`.
    pub fn new(
        name: String,
        target: Target,
        behaviour: Rc<Behaviour>,
        random: Rng,
        start: Instant,
    ) -> Self {
        let connections = |address| {
            let target = Target {
                address,
                ..target.clone()
            };
            Connections::new(target, behaviour.connections, behaviour.pool as usize)
                .with_patience(behaviour.pool_timeout)
        };
        let addresses = [target.address].into_iter();
        Self {
            name,
            address: target.address.to_string(),
            connections: addresses
                .chain(behaviour.more.iter().copied())
                .map(connections)
                .collect(),
            budget: RefCell::new(Budget::new(behaviour.client_budget)),
            behaviour,
            random: RefCell::new(random),
            start,
        }
    }

    /// One operation: its tries and the waits between them. It is given up at `last_call`.
    pub async fn operation(&self, op: u64, last_call: Instant, output: &Output) -> Result<End> {
        let own = self
            .behaviour
            .patience
            .map(|patience| Instant::now() + patience);
        let deadline = own.map_or(last_call, |own| own.min(last_call));
        let end = self
            .tries(deadline, async |attempt| {
                let request = self.request(op, attempt);
                let began = monotonic_micros();
                let (result, waited) = self.connections(op, attempt).ask(&request, deadline).await;
                let mut ended = Try::ended(began, op, attempt, result);
                ended.waited = waited;
                output.tell(ended)?;
                Ok(result)
            })
            .await?;
        Ok(match end {
            End::Cut if deadline < last_call => End::Own,
            end => end,
        })
    }

    /// Those to the address whose turn it is.
    fn connections(&self, op: u64, attempt: u32) -> &Connections {
        let turn = op.wrapping_add(u64::from(attempt) - 1);
        &self.connections[(turn % self.connections.len() as u64) as usize]
    }

    /// Tries until one succeeds, or policy, budget or `deadline` ends it.
    async fn tries(
        &self,
        deadline: Instant,
        mut once: impl AsyncFnMut(u32) -> Result<Result<(), Failure>>,
    ) -> Result<End> {
        let policy = &self.behaviour.policy;
        let now = || self.start.elapsed();
        let mut charge = None;
        self.budget.borrow_mut().begins(now());
        for attempt in 1.. {
            let Err(failure) = once(attempt).await? else {
                self.budget.borrow_mut().succeeded(now(), charge);
                break;
            };
            if failure.outcome == Outcome::PoolTimeout && Instant::now() >= deadline {
                return Ok(End::Cut);
            }
            if !policy.is_retryable(&failure) {
                self.budget.borrow_mut().failed_for_good(now());
                break;
            }
            self.budget.borrow_mut().failed();
            if Instant::now() >= deadline {
                return Ok(End::Cut);
            }
            if attempt == policy.tries() {
                break;
            }
            let wait = policy.wait(attempt, self.random.borrow_mut().f64());
            if Instant::now() + wait >= deadline {
                return Ok(End::Cut);
            }
            charge = self.budget.borrow_mut().charge(now(), failure.outcome);
            if charge.is_none() {
                break;
            }
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
        Ok(End::Own)
    }

    fn request(&self, op: u64, attempt: u32) -> Vec<u8> {
        let Behaviour {
            connections,
            request,
            ..
        } = &*self.behaviour;
        let pid = process::id();
        let path = request
            .path
            .clone()
            .unwrap_or_else(|| format!("/op/{pid}-{op}"));
        let mut head = format!(
            "{} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\n",
            request.method, self.address, self.name
        );
        if *connections == Keeping::Fresh {
            head += "Connection: close\r\n";
        }
        if request.idempotency_key {
            head += &format!("Idempotency-Key: {pid}-{op}\r\n");
        }
        if let Some(name) = &request.attempt_header {
            head += &format!("{name}: {attempt}\r\n");
        }
        if request.body > 0 || request.method != "GET" {
            head += &format!("Content-Length: {}\r\n", request.body);
        }
        head += "\r\n";
        let mut request = head.into_bytes();
        request.resize(request.len() + self.behaviour.request.body as usize, b'b');
        request
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use clap::Parser;

    use super::*;
    use crate::storm::exchange::Speech;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        behaviour: Behaviour,
    }

    fn client(arguments: &str) -> Client {
        let target = Target {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)),
            speak: Speech::Http,
            connect_timeout: Duration::from_secs(1),
            answer_timeout: Duration::from_secs(1),
        };
        let words = std::iter::once("client").chain(arguments.split_whitespace());
        let behaviour = Rc::new(Cli::parse_from(words).behaviour);
        Client::new(
            "caller".to_owned(),
            target,
            behaviour,
            Rng::with_seed(1),
            Instant::now(),
        )
    }

    /// When the tries began, in milliseconds, where each takes 10 ms and fails.
    async fn tries(client: &Client, deadline: Duration) -> (Vec<u128>, End) {
        let start = Instant::now();
        let mut began = Vec::new();
        let end = client
            .tries(start + deadline, async |_| {
                began.push(start.elapsed().as_millis());
                sleep(Duration::from_millis(10)).await;
                Ok(Err(Failure::of(Outcome::Refused)))
            })
            .await;
        (began, end.unwrap())
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn an_operation_waits_as_its_policy_says() {
        let none = client("");
        assert_eq!(tries(&none, LONG).await, (vec![0], End::Own));
        let at_once = client("--retry naive");
        assert_eq!(tries(&at_once, LONG).await, (vec![0, 10, 20, 30], End::Own));
        let naive = client("--retry naive --tries 3 --delay 50ms");
        assert_eq!(tries(&naive, LONG).await, (vec![0, 60, 120], End::Own));
        let exponential = client("--retry exponential --tries 4 --delay 100ms --max-delay 200ms");
        assert_eq!(
            tries(&exponential, LONG).await,
            (vec![0, 110, 320, 530], End::Own)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waits_with_full_jitter_fill_the_exponential_one() {
        let client = client("--retry full-jitter --tries 2 --delay 1s");
        let mut waits = Vec::new();
        for _ in 0..1_000 {
            waits.push(tries(&client, LONG).await.0[1] - 10);
        }
        let mean = waits.iter().sum::<u128>() / 1_000;
        assert!(waits.iter().all(|wait| *wait <= 1_000));
        assert!((470..530).contains(&mean), "mean {mean} ms");
    }

    #[tokio::test(start_paused = true)]
    async fn no_try_begins_after_the_deadline() {
        let client = client("--retry naive --tries 100 --delay 90ms");
        let (began, end) = tries(&client, Duration::from_millis(250)).await;
        assert_eq!((began, end), (vec![0, 100, 200], End::Cut));
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_ends_retries_of_all_operations_of_its_client() {
        let client = client("--retry naive --client-budget grpc");
        let mut made = Vec::new();
        for _ in 0..4 {
            made.push(tries(&client, LONG).await.0.len());
        }
        assert_eq!(made, [4, 1, 1, 1]);
    }

    #[test]
    fn a_request_says_nothing_of_its_try_unless_told_to() {
        let silent = client("");
        assert_eq!(silent.request(5, 1), silent.request(5, 2));
        let text = String::from_utf8(silent.request(5, 1)).unwrap();
        let pid = process::id();
        let expected = format!(
            "GET /op/{pid}-5 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nUser-Agent: caller\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(text, expected);
        let telling = client(
            "--attempt-header x-envoy-attempt-count --idempotency-key --connections pool --method POST --body 3",
        );
        let text = String::from_utf8(telling.request(5, 2)).unwrap();
        assert!(text.contains("x-envoy-attempt-count: 2\r\n"));
        assert!(text.contains(&format!("Idempotency-Key: {pid}-5\r\n")));
        assert!(text.ends_with("Content-Length: 3\r\n\r\nbbb"));
        assert!(!text.contains("Connection"));
    }
}
