//! Unmodified clients under `exec`: the governor knows their retries for what they are, leaves those
//! of a hot target alone, and in a storm tells each client at once, in a way that ends its operation.
//!
//! All clients run side by side, each in a lab of its own, against a server that fails on purpose
//! and logs what reaches it: the truth about retries where nothing is denied.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::governed::{PolicyFile, denied};
use governor_tests::governor::{Executed, exec};
use governor_tests::lab::Lab;
use governor_tests::real_clients::{End, Ended, RealClient, Targets, Work};
use governor_tests::server::Percent;
use governor_tests::server::faults::{Fault, Plan};
use governor_tests::server::faulty::FaultyServer;
use governor_tests::server::log::Log;
use governor_tests::sockets;
use serde_json::Value;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(120);
/// Longer than a busy machine makes anyone wait; shorter than a test can bear to hang.
const TIMEOUT: Duration = Duration::from_millis(700);
const PAUSE: Duration = Duration::from_millis(20);

/// Operations before the first failure: what healthy traffic looks like must be known.
const WARM_UP: u32 = 40;

/// A run of a client under `exec`.
struct Run {
    executed: Executed,
    ended: Vec<Ended>,
    log: Log,
    /// Connections that were left when the client had ended.
    left: Vec<String>,
}

impl Run {
    fn destination(&self) -> &Value {
        let summary = self.executed.summary.as_ref().expect("a summary");
        let destinations = summary["destinations"].as_array().expect("a list");
        assert_eq!(destinations.len(), 1, "one server was called");
        &destinations[0]
    }

    fn count(&self, name: &str) -> u64 {
        self.destination()[name].as_u64().expect("a count")
    }
}

fn run(command: &Command, plan: Plan, options: &[&str]) -> Run {
    let lab = Lab::new();
    let server = FaultyServer::start(lab.netns(), PORT, plan);
    let executed = exec(&lab, options, command, LIMIT);
    let finished = &executed.finished;
    assert_eq!(executed.code(), 0, "{}", finished.stderr);
    let ended = RealClient::ended(&finished.stdout);
    // The last segments of a connection may still be on their way.
    let deadline = Instant::now() + Duration::from_secs(1);
    let left = loop {
        let left = sockets::connections_of(lab.netns(), PORT);
        if left.is_empty() || Instant::now() > deadline {
            break left;
        }
        thread::sleep(Duration::from_millis(10));
    };
    Run {
        log: server.log(),
        executed,
        ended,
        left,
    }
}

fn command(client: RealClient, work: &Work) -> Command {
    command_to(Ipv4Addr::LOCALHOST.into(), client, work)
}

fn command_to(server: IpAddr, client: RealClient, work: &Work) -> Command {
    client.command(&format!("http://{}", SocketAddr::new(server, PORT)), work)
}

/// As many at a time as two cores carry without making each other late: mostly they wait.
const SIDE_BY_SIDE: usize = 8;

/// Runs the test for each of these clients; all of them are run before the first failure is told.
#[track_caller]
fn each(clients: &[RealClient], test: impl Fn(RealClient) + Sync) {
    let waiting = Mutex::new(clients.iter().copied());
    let next = || waiting.lock().expect("no holder died").next();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(client) = next() {
                    // In a thread of its own: it may fail.
                    if thread::scope(|scope| scope.spawn(|| test(client)).join()).is_err() {
                        failed.lock().expect("no holder died").push(client);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no holder died");
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Operations of each kind of failure: some fail once, one twice.
const ONCE: u32 = 5;
const TWICE: u32 = 1;
const KINDS: [Fault; 4] = [Fault::Status(503), Fault::Reset, Fault::Hang, Fault::Close];

fn failures_of_each_kind() -> Plan {
    let mut at = WARM_UP;
    let mut plan = Plan::healthy();
    for fault in KINDS {
        plan = plan.failing_first(at..at + ONCE, 1, fault);
        at += ONCE;
        plan = plan.failing_first(at..at + TWICE, 2, fault);
        at += TWICE;
    }
    plan
}

/// Where targets differ per operation: recall and precision over a run with every kind of failure,
/// against what the server saw. Nothing is denied, or the server would not see it.
#[test]
fn of_each_clients_retries_none_is_missed_and_nothing_else_is_taken_for_one() {
    each(&RealClient::ALL, |client| {
        are_known(client, Ipv4Addr::LOCALHOST.into());
    });
}

#[test]
fn over_ipv6_they_are_known_as_well() {
    let clients = [
        RealClient::Requests,
        RealClient::Fetch,
        RealClient::Go,
        RealClient::JavaHttpClient,
    ];
    each(&clients, |client| {
        are_known(client, Ipv6Addr::LOCALHOST.into());
    });
}

fn are_known(client: RealClient, server: IpAddr) {
    let policy = PolicyFile::enforce(
        "retryConstraint: {mode: Disabled}, circuitBreaker: {mode: Disabled}, \
             concurrency: {mode: Disabled}, pacing: {jitter: None}, pushback: {honorRetryAfter: false}",
    );
    let work = Work {
        operations: WARM_UP + KINDS.len() as u32 * (ONCE + TWICE) + 4,
        targets: Targets::Distinct,
        retries: 3,
        timeout: TIMEOUT,
        pause: PAUSE,
    };
    let run = run(
        &command_to(server, client, &work),
        failures_of_each_kind(),
        &["--policy", &policy.path()],
    );
    let truth = run.log.repeats() as f64;
    let counted = run.count("retries") as f64;
    // Of totals: the healthy part has no retries to hide a missed one behind.
    let recall = (counted / truth).min(1.0);
    let precision = (truth / counted).min(1.0);
    println!(
        "{client:?}: {truth} retries, {counted} counted: recall {recall:.3}, precision {precision:.3}; \
             {} requests, {} attempts, {} suspected",
        run.log.arrivals.len(),
        run.count("attempts"),
        run.count("suspectedRetries"),
    );
    assert!(truth >= f64::from(ONCE), "{client:?} did not retry");
    assert_eq!(
        denied(run.destination()),
        0,
        "{client:?}: {}",
        run.destination()
    );
    assert!(
        recall >= 0.99 && precision >= 0.99,
        "{client:?}: {}",
        run.destination()
    );
    // A connect and its first request are one attempt. What meets the server's FIN on its way is one
    // that the server never reads, and the client sends it again (seen once: Java, 1 in 116).
    let unread = run
        .count("attempts")
        .checked_sub(run.log.arrivals.len() as u64);
    assert!(
        unread.is_some_and(|unread| unread <= 1),
        "{client:?}: {}",
        run.destination()
    );
}

/// Those whose retries are known by their bytes alone. The AWS clients declare theirs, which is
/// exact whatever the target.
fn unmarked() -> Vec<RealClient> {
    let declares = |client: &RealClient| matches!(client, RealClient::Boto3 | RealClient::AwsJs);
    let mut clients = RealClient::ALL.to_vec();
    clients.retain(|client| !declares(client));
    clients
}

/// A health check, a feature flag: the same request for ever. No repetition of it is evidence.
#[test]
fn on_one_hot_target_nothing_is_denied_by_budget_at_30_percent_failures() {
    each(&unmarked(), |client| {
        let work = Work {
            // curl waits a second after each failure.
            operations: if client == RealClient::Curl { 50 } else { 150 },
            targets: Targets::Hot,
            retries: 3,
            timeout: TIMEOUT,
            pause: PAUSE,
        };
        // Half of the failures on a connection that lives on, half of them end theirs.
        let plan = Plan::healthy()
            .scattered(Percent(15), Fault::Status(503))
            .scattered(Percent(30), Fault::Reset);
        let run = run(&command(client, &work), plan, &[]);
        let destination = run.destination();
        println!(
            "{client:?}: {} requests, {} suspected, denied {}",
            run.log.arrivals.len(),
            destination["suspectedRetries"],
            destination["denied"]
        );
        assert_eq!(
            destination["denied"]["budget"], 0,
            "{client:?}: {destination}"
        );
    });
}

#[test]
fn on_one_hot_healthy_target_nothing_is_denied_and_nothing_is_a_retry() {
    each(&RealClient::ALL, |client| {
        let work = Work {
            operations: 100,
            targets: Targets::Hot,
            retries: 3,
            timeout: TIMEOUT,
            pause: Duration::ZERO,
        };
        let run = run(&command(client, &work), Plan::healthy(), &[]);
        let destination = run.destination();
        assert_eq!(denied(destination), 0, "{client:?}: {destination}");
        assert_eq!(destination["retries"], 0, "{client:?}: {destination}");
        assert_eq!(run.log.arrivals.len(), 100, "{client:?}");
    });
}

/// A server that asks to wait, and a client that does not: the node waits for it.
#[test]
fn a_client_that_ignores_retry_after_is_held_to_it() {
    const ASKED: u16 = 2;
    let client = RealClient::Fetch;
    let work = Work {
        operations: WARM_UP + 1,
        targets: Targets::Distinct,
        retries: 3,
        timeout: TIMEOUT,
        pause: PAUSE,
    };
    let throttled = WARM_UP..WARM_UP + 1;
    let plan = Plan::healthy().failing_first(throttled.clone(), 1, Fault::Throttle(ASKED));
    let run = run(&command(client, &work), plan, &[]);
    let destination = run.destination();
    println!("{destination}");
    // 20, 40 and 80 ms after the answer: each of the retries was too early.
    assert_eq!(run.log.of(throttled).arrivals.len(), 1);
    assert_eq!(destination["denied"]["retryAfter"], 3, "{destination}");
    assert_eq!(denied(destination), 3, "{destination}");
}

/// Operations that a storm meets, with their retries: more failures than trip a breaker.
fn stormy(client: RealClient) -> u32 {
    match client {
        // They wait for a second and more before each retry.
        RealClient::Curl | RealClient::Got => 12,
        _ => 24,
    }
}

/// Single tries after them: as many as tell a p99.
const QUICK: u32 = 200;
/// As long as a breaker stays open by default after some failed probes: at most two probes, which
/// wait for the server as every request did before, fall into the single tries.
const OPEN: Duration = Duration::from_secs(5);

/// A client with its retries; then, when the breaker is open, single tries of the same client.
fn then_single_tries(client: RealClient) -> Command {
    let stormy = Work {
        operations: WARM_UP + stormy(client),
        targets: Targets::Distinct,
        // curl's wait doubles from a second on.
        retries: if client == RealClient::Curl { 1 } else { 3 },
        timeout: TIMEOUT,
        pause: PAUSE,
    };
    let single = Work {
        operations: QUICK,
        targets: Targets::Hot,
        retries: 0,
        pause: Duration::from_millis(10),
        ..stormy
    };
    let (first, second) = (command(client, &stormy), command(client, &single));
    let mut both = Command::new("sh");
    both.args([
        "-c",
        &format!("{}; exec {}", line_of(&first), line_of(&second)),
    ]);
    same_environment(&mut both, &first);
    both
}

/// The words of a command for a shell; no path of a test has a quote in it.
fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| format!("'{}'", word.display()));
    quoted.collect::<Vec<_>>().join(" ")
}

fn same_environment(command: &mut Command, model: &Command) {
    for (name, value) in model.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// So many percent of the operations took at most so long.
fn percentile(operations: &[Ended], percent: usize) -> Duration {
    let mut times: Vec<Duration> = operations.iter().map(|each| each.took).collect();
    times.sort_unstable();
    times[times.len() * percent / 100 - 1]
}

#[track_caller]
fn a_storm_of(fault: Fault) {
    each(&RealClient::ALL, |client| {
        let policy = PolicyFile::enforce(&format!(
            "circuitBreaker: {{openDuration: {{base: {0}s, max: {0}s, jitterPercent: 0}}}}",
            OPEN.as_secs()
        ));
        let plan = Plan::healthy().failing_after(WARM_UP, fault);
        let began = Instant::now();
        let run = run(
            &then_single_tries(client),
            plan,
            &["--policy", &policy.path()],
        );
        let took = began.elapsed();
        let storm = stormy(client) as usize;
        let (stormy, single) = run.ended.split_at(WARM_UP as usize + storm);
        let failed = |ended: &[Ended]| ended.iter().filter(|each| each.end != End::Well).count();
        // All of them ended, the healthy ones well, the others with an error of the client's own.
        assert_eq!(single.len(), QUICK as usize, "{client:?}");
        assert_eq!(
            failed(&stormy[..WARM_UP as usize]),
            0,
            "{client:?}: {stormy:?}"
        );
        assert_eq!(failed(stormy), storm, "{client:?}: {stormy:?}");
        assert_eq!(failed(single), single.len(), "{client:?}");
        assert_eq!(run.left, [""; 0], "{client:?}: connections are left");
        // What these two take to start a process each on a busy machine is no figure of the governor's.
        let percent = match client {
            RealClient::Curl | RealClient::Wget => 90,
            _ => 99,
        };
        let longest = percentile(single, percent);
        // What eight clients side by side make a healthy operation take is not, either.
        let healthy = percentile(&stormy[..WARM_UP as usize], 90);
        let reached = run.log.arrivals.len() - WARM_UP as usize;
        let first_tries = storm + QUICK as usize;
        // A tenth of the successes, one a second, and as much for what is earned meanwhile.
        let budget = WARM_UP as usize / 10 + took.as_secs() as usize;
        println!(
            "{client:?} after {fault:?}: {reached} of {first_tries} + retries reached the server; \
             p50 {:?}, p{percent} {longest:?} (healthy, p90 {healthy:?}), {took:?} in all; \
             denied {}, again {}",
            percentile(single, 50),
            run.destination()["denied"],
            run.count("deniedAgain"),
        );
        // Nearly all first tries were denied as well: the breaker was open.
        assert!(
            reached <= storm + budget,
            "{client:?}: {reached} reached the server"
        );
        assert!(
            longest < Duration::from_millis(100) + healthy,
            "{client:?}: p{percent} {longest:?}, healthy {healthy:?}"
        );
    });
}

#[test]
fn each_client_is_told_at_once_and_ends_well_where_a_server_answers_503() {
    a_storm_of(Fault::Status(503));
}

#[test]
fn each_client_is_told_at_once_and_ends_well_where_a_server_resets() {
    a_storm_of(Fault::Reset);
}

#[test]
fn each_client_is_told_at_once_and_ends_well_where_a_server_hangs() {
    a_storm_of(Fault::Hang);
}

/// Clients that ask for ever and without a pause: what they cost, and that the server is left alone.
#[test]
fn a_loop_without_a_pause_leaves_the_server_alone() {
    for client in [RealClient::Requests, RealClient::Go, RealClient::Got] {
        let endless = Work {
            operations: 1_000_000,
            targets: Targets::Hot,
            retries: 0,
            timeout: TIMEOUT,
            pause: Duration::ZERO,
        };
        let looping = command(client, &endless);
        let mut bounded = Command::new("timeout");
        bounded.args(["--preserve-status", "--signal=KILL", "6"]);
        bounded.arg(looping.get_program()).args(looping.get_args());
        same_environment(&mut bounded, &looping);
        let lab = Lab::new();
        let plan = Plan::healthy().scattered(Percent(100), Fault::Status(503));
        let server = FaultyServer::start(lab.netns(), PORT, plan);
        let before = cpu_time(&lab);
        let executed = exec(&lab, &[], &bounded, LIMIT);
        let cpu = cpu_time(&lab) - before;
        let destination = executed.destination("127.0.0.1:8080");
        let calls = executed.finished.stdout.lines().count();
        let again = destination["deniedAgain"].as_u64().expect("a count");
        let log = server.log();
        let first = log.arrivals.first().expect("somebody came").at;
        let by_second = log.by_slot(first, Duration::from_secs(1));
        println!(
            "{client:?}: {calls} calls, {by_second:?} reached the server in each second, denied {}, \
             again {again}, {cpu:?} of CPU",
            destination["denied"],
        );
        assert!(again > 0, "{client:?}: {destination}");
        // The breaker opens after 2 s of silence at the latest; from then on a probe in a while.
        let later: usize = by_second.iter().skip(3).sum();
        assert!(later <= 6, "{client:?}: {by_second:?}");
    }
}

/// Of all that ever ran in the lab's cgroup and below it.
fn cpu_time(lab: &Lab) -> Duration {
    let path = lab.cgroup().path().join("cpu.stat");
    let text = fs::read_to_string(&path).expect("every cgroup has it");
    let usage = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    let micros = usage.and_then(|usage| usage.parse().ok());
    Duration::from_micros(micros.expect("a number"))
}
