//! Unmodified clients whose protocols the governor cannot read: it sees their connects.

use std::time::Duration;

use governor_tests::nft::{PortCounter, Refusal};
use governor_tests::real_clients::{End, RealClient, RealServer, Running, Targets, Told, Work};

use super::real_clients::{failed_outside, operation, slowest};
use crate::findings::{Claim, Key, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::{Governor, policy};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "opaque-clients",
    title: "gRPC, Redis and Kafka clients with the retries of their libraries: their servers refuse",
    seconds: |_| LENGTH + 8.0,
    play,
};

/// Seconds: the servers refuse. The time before is for Python and Node to start, and then for healthy history.
const REFUSE: (f64, f64) = (12.0, 37.0);
const LENGTH: f64 = 54.0;
/// So long after the last success seven failures in a row open a breaker: `interval`, and the second that these
/// clients wait themselves before they connect again. None has twenty failures much sooner.
const NOTICED: f64 = 12.0;
/// The longest way back (I4), `openDuration.max` with its jitter and `ramp`, and that second.
const BACK_WITHIN: f64 = 9.5;
/// Operations of each client that must end well once all is well again: it works on.
const AT_LEAST: usize = 20;

/// What each of them does, all the time.
const WORK: Work = Work {
    operations: 100_000,
    targets: Targets::Distinct,
    retries: 3,
    timeout: Duration::from_secs(1),
    pause: Duration::from_millis(100),
};

/// What was taken down: of the storm, of each client, and of each server's port.
struct Seen {
    taken: Taken,
    clients: Vec<Client>,
    servers: Vec<Server>,
}

struct Client {
    which: RealClient,
    server: RealServer,
    told: Vec<Told>,
}

struct Server {
    which: RealServer,
    /// SYNs that reached its port while it refused.
    syns: u64,
    /// Of them, from [`NOTICED`] on.
    late: u64,
}

impl Seen {
    /// Connects that reach servers that are known to refuse.
    fn late(&self) -> u64 {
        self.servers.iter().map(|server| server.late).sum()
    }

    /// Operations that ended within this time.
    fn ended(&self, (from, to): (f64, f64)) -> impl Fn(&Client) -> Vec<&Told> {
        let span = self.taken.clock.at(from)..self.taken.clock.at(to);
        move |client| {
            let told = client.told.iter();
            told.filter(|each| span.contains(&each.at)).collect()
        }
    }

    /// Attempts denied until this second.
    fn denied(&self, until: f64) -> f64 {
        let until = self.taken.clock.at(until);
        let sample = self.taken.samples.iter().rfind(|sample| sample.t <= until);
        sample.map_or(f64::NAN, |sample| sample.denied() as f64)
    }
}

fn play(play: &Play<'_>) -> Found {
    // Every address is a destination of its own: Kafka's mock cluster listens where it likes.
    let with_policy = policy(&[], "");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without"),
        || storm(play, Governor::With(&with_policy), "with"),
    );
    let well_again = REFUSE.1 + BACK_WITHIN;
    let after = with.ended((well_again, LENGTH));
    let well = |client| {
        let told = after(client);
        told.iter().filter(|it| it.ended.end == End::Well).count()
    };
    let clock = with.taken.clock;
    let late: usize = with
        .clients
        .iter()
        .map(|client| {
            failed_outside(
                clock,
                &client.told,
                &[(0.0, REFUSE.0), (well_again, LENGTH)],
            )
        })
        .sum();
    let waits = with.clients.iter().zip(&without.clients);
    let waits = waits.map(|(with, without)| slowest(&with.told) - slowest(&without.told));
    let connects = format!("connects that reach it while it refuses (from {NOTICED} s on)");
    let told = |server: &Server| format!("{} ({})", server.syns, server.late);
    Found {
        story: format!(
            "Six clients, each a workload of its own, ask their server for one thing after the other, 100 ms apart: of \
             gRPC (grpcio, grpc-js; a server of grpcio), of Redis (redis-py, ioredis; Redis itself) and of Kafka \
             (kafka-python, librdkafka; the mock cluster that librdkafka is tested with). Libraries retry as they do by \
             themselves, but none waits longer than a second before it connects again. All three servers refuse for \
             {:.0} s: connects are answered with a reset, and so is what is sent on kept connections.",
            REFUSE.1 - REFUSE.0,
        ),
        claims: vec![
            Claim::at_most(
                format!(
                    "connects that reach the servers while they refuse, from {NOTICED} s on, with the governor \
                     compared with without"
                ),
                with.late() as f64 / without.late() as f64,
                0.4,
                "x",
            ),
            Claim::at_most(
                format!("with: operations that fail before the trouble, or begin more than {BACK_WITHIN} s after it"),
                late as f64,
                0.0,
                "",
            ),
            Claim::at_least(
                "with: operations that end well from then on, of the client with the fewest",
                with.clients.iter().map(well).min().unwrap_or_default() as f64,
                AT_LEAST as f64,
                "",
            ),
            Claim::at_most("with: denied before the trouble", with.denied(REFUSE.0), 0.0, "attempts"),
            Claim::at_most(
                format!("with: denied from {BACK_WITHIN} s after it on"),
                with.denied(LENGTH) - with.denied(well_again),
                0.0,
                "attempts",
            ),
            Claim::at_most(
                "how much longer the slowest operation of any client takes with the governor than without",
                waits.fold(f64::NEG_INFINITY, f64::max),
                1.0,
                "s",
            ),
        ],
        tables: vec![
            Table::new(
                &[connects.as_str(), "without", "with"],
                without.servers.iter().zip(&with.servers).map(|(without, with)| {
                    vec![
                        format!("{:?}", with.which),
                        told(without),
                        told(with),
                    ]
                }),
            ),
            Table::new(
                &[
                    "client",
                    "of",
                    "failed operations while refused (the slowest): without",
                    "with",
                    "ended well once all is well: without",
                    "with",
                ],
                rows(&without, &with),
            ),
        ],
        key: Some(Key {
            what: format!("connects that reach servers that have refused for {NOTICED} s"),
            without: without.late().to_string(),
            with: with.late().to_string(),
        }),
        runs: vec![without.taken.run(), with.taken.run()],
        notes: vec![
            "Load and capacity are not in the chart: these servers do not tell what they receive. Nothing names an \
             operation here and no retry is known for one: what refuses is the breaker, on connects."
                .to_owned(),
        ],
        ..Found::default()
    }
}

fn rows(without: &Seen, with: &Seen) -> Vec<Vec<String>> {
    let pairs = without.clients.iter().zip(&with.clients);
    let failed = |seen: &Seen, client: &Client| {
        let told = seen.ended((REFUSE.0, REFUSE.1 + BACK_WITHIN))(client);
        let failed: Vec<_> = told
            .into_iter()
            .filter(|it| it.ended.end != End::Well)
            .collect();
        let slowest = failed.iter().map(|it| it.ended.took.as_secs_f64());
        format!("{} ({:.1} s)", failed.len(), slowest.fold(0.0, f64::max))
    };
    let well = |seen: &Seen, client: &Client| {
        let told = seen.ended((REFUSE.1 + BACK_WITHIN, LENGTH))(client);
        let well = told.iter().filter(|it| it.ended.end == End::Well);
        well.count().to_string()
    };
    pairs
        .map(|(before, after)| {
            vec![
                format!("{:?}", after.which),
                format!("{:?}", after.server),
                failed(without, before),
                failed(with, after),
                well(without, before),
                well(with, after),
            ]
        })
        .collect()
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str) -> Seen {
    play.stage(governor, name, LENGTH, |stage| {
        let netns = stage.lab().netns();
        let servers = RealServer::ALL.map(|server| {
            let workload = format!("{server:?}-server").to_lowercase();
            (server, stage.within(&workload, |place| server.start(place)))
        });
        let port = |of: RealServer| {
            let server = servers.iter().find(|(server, _)| *server == of);
            server.map_or(0, |(_, serving)| serving.port())
        };
        let ports = RealServer::ALL.map(port);
        let start = |(client, server): (RealClient, RealServer)| {
            let workload = format!("{client:?}").to_lowercase();
            let address = format!("127.0.0.1:{}", port(server));
            stage.within(&workload, |place| client.start(&address, &WORK, place))
        };
        let running: Vec<Running> = RealClient::OPAQUE.into_iter().map(start).collect();
        stage.begin();
        stage.until(REFUSE.0);
        let counters = ports.map(|port| PortCounter::start(netns, port));
        let refusals = ports.map(|port| Refusal::of(netns, port));
        stage.until(REFUSE.0 + NOTICED);
        let early = counters.each_ref().map(PortCounter::count);
        stage.until(REFUSE.1);
        drop(refusals);
        let whole = counters.map(|counter| counter.count());
        stage.mark(REFUSE.0, REFUSE.1, "refused");
        stage.until(LENGTH);
        let told = running.into_iter().map(Running::stop);
        let clients: Vec<_> = RealClient::OPAQUE
            .into_iter()
            .zip(told)
            .map(|((which, server), told)| Client {
                which,
                server,
                told,
            })
            .collect();
        let tries = clients
            .iter()
            .flat_map(|client| client.told.iter().map(operation));
        let taken = Taken::down(name, stage, LENGTH, tries.collect(), Vec::new());
        let servers = RealServer::ALL
            .into_iter()
            .zip(whole.into_iter().zip(early));
        Seen {
            taken,
            clients,
            servers: servers
                .map(|(which, (syns, early))| Server {
                    which,
                    syns,
                    late: syns - early,
                })
                .collect(),
        }
    })
}
