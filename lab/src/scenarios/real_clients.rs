//! Fifteen unmodified clients of the real world, as they are installed, through two troubles of a service. Those
//! whose protocol is not HTTP/1 are in [`super::opaque_clients`].

use std::time::Duration;

use governor_tests::real_clients::{End, RealClient, Running, Targets, Told, Work};
use governor_tests::storm::report::{Failure, Outcome, Try};

use crate::findings::{Claim, Key, Table};
use crate::measure::{Clock, Taken, beside};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::{Governor, policy};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "real-clients",
    title: "curl, wget, Python, Node, Go, Java and Ruby with the retries of their libraries: 503, then no answer",
    seconds: |_| LENGTH + 8.0,
    play,
};

const PORT: u16 = 8080;
/// Seconds: the service answers 503, later nothing, and is well in between. Equality of requests
/// means something once a client has had 20 operations: curl has them after 5 s.
const SAYS_503: (f64, f64) = (12.0, 22.0);
const HANGS: (f64, f64) = (36.0, 56.0);
const LENGTH: f64 = 72.0;
/// So long after the last success seven failures in a row open a breaker: `interval`, and one timeout.
/// A client that waits 1 s for each answer has no twenty failures before that.
const NOTICED: f64 = 12.0;
/// The longest way back (I4): `openDuration.max` with its jitter, and `ramp`.
const BACK_WITHIN: f64 = 8.5;

/// What each of them does, all the time: an operation, a pause, the next.
const WORK: Work = Work {
    operations: 100_000,
    targets: Targets::Distinct,
    retries: 3,
    timeout: Duration::from_secs(1),
    pause: Duration::from_millis(100),
};

/// What was taken down: of the storm, and of each client.
struct Seen {
    taken: Taken,
    clients: Vec<(RealClient, Vec<Told>)>,
}

fn play(play: &Play<'_>) -> Found {
    let with_policy = policy(&[("service", PORT)], "");
    let (without, with) = beside(
        || storm(play, Governor::Without, "without"),
        || storm(play, Governor::With(&with_policy), "with"),
    );
    let per_operation = |seen: &Seen| {
        let (from, to) = (SAYS_503.0 as usize, SAYS_503.1 as usize);
        seen.taken.load().sum(from, to) / seen.taken.offered().sum(from, to)
    };
    let before = with.taken.clock.at(SAYS_503.0);
    let before = with.taken.samples.iter().rfind(|sample| sample.t < before);
    let harm = before.map_or(f64::NAN, |sample| sample.total("deniedFirstTries") as f64);
    let late = with
        .clients
        .iter()
        .map(|(_, told)| failed_after(with.taken.clock, told))
        .sum::<usize>();
    let waits = with.clients.iter().zip(&without.clients);
    let waits = waits.map(|((_, with), (_, without))| slowest(with) - slowest(without));
    Found {
        story: format!(
            "Fifteen clients, each a workload of its own, ask a service for one thing after the other, 100 ms apart; each \
             may retry three times and waits 1 s for an answer. The service says 503 for {:.0} s, is well, and then \
             swallows requests for {:.0} s.",
            SAYS_503.1 - SAYS_503.0,
            HANGS.1 - HANGS.0,
        ),
        claims: vec![
            Claim::at_least(
                "without: requests at the service while it says 503",
                per_operation(&without),
                2.0,
                "x operations",
            ),
            Claim::at_most(
                "with: requests at the service while it says 503",
                per_operation(&with),
                1.15,
                "x operations",
            ),
            Claim::at_least(
                format!(
                    "without: median time of operations that begin {NOTICED} s into the hang or later"
                ),
                hopeless(&without),
                1.0,
                "s",
            ),
            Claim::at_most(
                format!(
                    "with: median time of operations that begin {NOTICED} s into the hang or later"
                ),
                hopeless(&with),
                0.1,
                "s",
            ),
            Claim::at_most(
                format!(
                    "with: operations that fail though they begin more than {BACK_WITHIN} s after a trouble"
                ),
                late as f64,
                0.0,
                "",
            ),
            Claim::at_most(
                "how much longer the slowest operation of any client takes with the governor than without",
                waits.fold(f64::NEG_INFINITY, f64::max),
                1.0,
                "s",
            ),
            Claim::at_most(
                "with: first tries refused before the first trouble",
                harm,
                0.0,
                "",
            ),
        ],
        tables: vec![Table::new(
            &[
                "client",
                "an operation during 503 (how many): without",
                "with",
                "during no answer: without",
                "with",
            ],
            rows(&without, &with),
        )],
        key: Some(Key {
            what: "requests per operation at a service that says 503".to_owned(),
            without: format!("{:.2} x", per_operation(&without)),
            with: format!("{:.2} x", per_operation(&with)),
        }),
        runs: vec![without.taken.run(), with.taken.run()],
        ..Found::default()
    }
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str) -> Seen {
    play.stage(governor, name, LENGTH, |stage| {
        let service = stage.service("service", PORT, "--capacity 500");
        let base = format!("http://127.0.0.1:{PORT}");
        let start = |client: RealClient| {
            let workload = format!("{client:?}").to_lowercase();
            stage.within(&workload, |place| client.start(&base, &WORK, place))
        };
        let running: Vec<Running> = RealClient::ALL.into_iter().map(start).collect();
        stage.begin();
        for (order, label, (from, to)) in [
            ("status 503", "503", SAYS_503),
            ("hang", "no answer", HANGS),
        ] {
            stage.until(from);
            service.order(order);
            stage.until(to);
            service.order("serve");
            stage.mark(from, to, label);
        }
        stage.until(LENGTH);
        let slots = service.slots();
        let told = running.into_iter().map(Running::stop);
        let clients: Vec<_> = RealClient::ALL.into_iter().zip(told).collect();
        let tries = clients
            .iter()
            .flat_map(|(_, told)| told.iter().map(operation));
        let taken = Taken::down(name, stage, LENGTH, tries.collect(), slots);
        Seen { taken, clients }
    })
}

/// An operation as a whole, in the words of our own callers.
pub fn operation(told: &Told) -> Try {
    let result = match told.ended.end {
        End::Well => Ok(()),
        End::Status(status) => Err(Failure {
            status: Some(status),
            ..Failure::of(Outcome::Status)
        }),
        End::Error(_) => Err(Failure::of(Outcome::Other)),
    };
    Try {
        micros: told.ended.took.as_micros() as u64,
        ..Try::ended(told.began(), told.ended.operation.into(), 1, result)
    }
}

/// Operations that failed though they began when all was long well again.
fn failed_after(clock: Clock, told: &[Told]) -> usize {
    let spells = [
        (0.0, SAYS_503.0),
        (SAYS_503.1 + BACK_WITHIN, HANGS.0),
        (HANGS.1 + BACK_WITHIN, LENGTH),
    ];
    failed_outside(clock, told, &spells)
}

/// Operations that failed though they are of times, in seconds, when all was well. One that was under way when
/// a trouble began may have met it.
pub fn failed_outside(clock: Clock, told: &[Told], spells: &[(f64, f64)]) -> usize {
    let well = |each: &Told| {
        let (began, ended) = (each.began(), each.at);
        spells
            .iter()
            .any(|(from, to)| began >= clock.at(*from) && ended < clock.at(*to))
    };
    told.iter()
        .filter(|each| well(each) && each.ended.end != End::Well)
        .count()
}

/// Seconds that the slowest operation took.
pub fn slowest(told: &[Told]) -> f64 {
    let took = told.iter().map(|each| each.ended.took.as_secs_f64());
    took.fold(0.0, f64::max)
}

/// Median seconds of the operations that begin when a hang is known for one.
fn hopeless(seen: &Seen) -> f64 {
    let known = (HANGS.0 + NOTICED, HANGS.1);
    let told = seen.clients.iter().flat_map(|(_, told)| told);
    let median = median(took(seen.taken.clock, told, known));
    median.map_or(f64::NAN, |median| median.as_secs_f64())
}

/// Times of the operations of each client that began in a trouble: their median, and how many.
fn rows(without: &Seen, with: &Seen) -> Vec<Vec<String>> {
    let clients = without.clients.iter().zip(&with.clients);
    clients
        .map(|((client, before), (_, after))| {
            let mut row = vec![format!("{client:?}")];
            for trouble in [SAYS_503, HANGS] {
                for (seen, told) in [(without, before), (with, after)] {
                    let took = took(seen.taken.clock, told, trouble);
                    let many = took.len();
                    row.push(median(took).map_or_else(
                        || "none".to_owned(),
                        |median| format!("{:.0} ms ({many})", median.as_secs_f64() * 1e3),
                    ));
                }
            }
            row
        })
        .collect()
}

/// Times of the operations that began in a span, the shortest first.
fn took<'a>(
    clock: Clock,
    told: impl IntoIterator<Item = &'a Told>,
    (from, to): (f64, f64),
) -> Vec<Duration> {
    let span = clock.at(from)..clock.at(to);
    let begun = told.into_iter().filter(|each| span.contains(&each.began()));
    let mut took: Vec<_> = begun.map(|each| each.ended.took).collect();
    took.sort_unstable();
    took
}

fn median(took: Vec<Duration>) -> Option<Duration> {
    took.get(took.len() / 2).copied()
}
