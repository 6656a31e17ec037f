//! Unmodified clients whose protocols the governor cannot read: it sees their connects.

use std::time::Duration;

use governor_tests::nft::{PortCounter, Refusal};
use governor_tests::real_clients::{End, RealClient, RealServer, Running, Targets, Told, Work};
use governor_tests::service::Slot;
use governor_tests::storm::report::monotonic_micros;

use super::real_clients::{failed_outside, operation, slowest};
use crate::findings::{Claim, Key, Run, Table};
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

/// Seconds between two counts of connects.
const COUNTED_EVERY: f64 = 0.5;

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
}

struct Client {
    which: RealClient,
    server: RealServer,
    told: Vec<Told>,
}

impl Seen {
    /// Connects that reached a server from one second to before another.
    fn connects(&self, server: RealServer, (from, to): (f64, f64)) -> u64 {
        let span = self.taken.clock.at(from)..self.taken.clock.at(to);
        let slots = self.taken.slots.iter().filter(|it| span.contains(&it.t));
        slots
            .filter_map(|slot| slot.arrived.get(&format!("{server:?}")))
            .sum()
    }

    /// Connects that reached servers that are known to refuse.
    fn in_vain(&self) -> u64 {
        let servers = RealServer::ALL.into_iter();
        servers
            .map(|server| self.connects(server, (REFUSE.0 + NOTICED, REFUSE.1)))
            .sum()
    }

    /// Operations that ended within this time.
    fn ended(&self, (from, to): (f64, f64)) -> impl Fn(&Client) -> Vec<&Told> {
        let span = self.taken.clock.at(from)..self.taken.clock.at(to);
        move |client| {
            let told = client.told.iter();
            told.filter(|each| span.contains(&each.at)).collect()
        }
    }

    /// Why attempts were denied at each server.
    fn reasons(&self) -> Vec<String> {
        let last = self.taken.samples.last();
        let reasons = last.into_iter().flat_map(|sample| {
            let names = sample
                .destinations()
                .filter_map(|it| it["destination"].as_str());
            names.map(|name| sample.reasons(name))
        });
        reasons.filter(|it| !it.is_empty()).collect()
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
    let told = |seen: &Seen, server| {
        let known = seen.connects(server, (REFUSE.0 + NOTICED, REFUSE.1));
        format!("{} ({known})", seen.connects(server, REFUSE))
    };
    // Nobody says what these servers can do.
    let run = |seen: &Seen| Run {
        capacity: Vec::new(),
        ..seen.taken.run()
    };
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
                with.in_vain() as f64 / without.in_vain() as f64,
                0.4,
                "x",
            ),
            Claim::at_most(
                format!(
                    "with: operations that fail before the trouble, or begin more than {BACK_WITHIN} s after it"
                ),
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
            Claim::at_most(
                "with: denied before the trouble",
                with.denied(REFUSE.0),
                0.0,
                "attempts",
            ),
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
                RealServer::ALL.map(|server| {
                    vec![
                        format!("{server:?}"),
                        told(&without, server),
                        told(&with, server),
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
            without: without.in_vain().to_string(),
            with: with.in_vain().to_string(),
        }),
        runs: vec![run(&without), run(&with)],
        notes: vec![format!(
            "Load in the chart is connects that reach the servers; what is sent on kept ones nobody tells. Nothing \
                 names an operation here and no retry is known for one. Denied, by reason: {}.",
            with.reasons().join("; ")
        )],
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
        let counters = ports.map(|port| PortCounter::start(netns, port));
        let count = || {
            (
                monotonic_micros(),
                counters.each_ref().map(PortCounter::count),
            )
        };
        stage.begin();
        let mut slots = Vec::new();
        let mut last = count();
        let mut until = |second: f64| {
            while stage.now() < second {
                stage.until((stage.now() + COUNTED_EVERY).min(second));
                let now = count();
                slots.push(slot(last, now));
                last = now;
            }
        };
        until(REFUSE.0);
        let refusals = ports.map(|port| Refusal::of(netns, port));
        until(REFUSE.0 + NOTICED);
        until(REFUSE.1);
        drop(refusals);
        until(LENGTH);
        stage.mark(REFUSE.0, REFUSE.1, "refused");
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
        let taken = Taken::down(name, stage, LENGTH, tries.collect(), slots);
        Seen { taken, clients }
    })
}

/// Connects between two counts: of each server.
fn slot((from, before): (u64, [u64; 3]), (_, now): (u64, [u64; 3])) -> Slot {
    let counts = RealServer::ALL.into_iter().zip(now.into_iter().zip(before));
    Slot {
        t: from,
        arrived: counts
            .map(|(server, (now, before))| (format!("{server:?}"), now - before))
            .collect(),
        ..Slot::default()
    }
}
