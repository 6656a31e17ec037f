//! Unmodified clients that retry, under `exec`: a port that refuses, then a
//! healthy server. They end well, as they do without a governor, and none hangs.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::artifact;
use governor_tests::governed::{PolicyFile, denied};
use governor_tests::governor::{Executed, exec};
use governor_tests::lab::Lab;
use governor_tests::real_clients::{End, RealClient, Work};
use governor_tests::server::{Behaviour, Server};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(90);
/// Failures in a row that open the breaker where nothing ever succeeded.
const TRIPS: u64 = 7;
/// Their waits double, most of them from 20 ms on: together longer than the port refuses.
const RETRIES: u32 = 10;

/// Longer than the slowest of them takes to start and be denied, all at once on two cores.
const REFUSING: Duration = Duration::from_secs(6);

/// All clients at the same time, each in a lab of its own.
#[track_caller]
fn each(meets: fn(&Command)) {
    let ended: Vec<(RealClient, bool)> = thread::scope(|scope| {
        let start = |client: RealClient| {
            let command = client.command(&format!("http://127.0.0.1:{PORT}"), &Work::once(RETRIES));
            (client, scope.spawn(move || meets(&command)))
        };
        let running = RealClient::OF_EACH_LANGUAGE.map(start);
        let ended = |(client, thread): (_, thread::ScopedJoinHandle<'_, ()>)| {
            (client, thread.join().is_ok())
        };
        running.into_iter().map(ended).collect()
    });
    assert!(ended.iter().all(|(_, well)| *well), "ended well: {ended:?}");
}

#[test]
fn each_client_that_is_refused_once_and_then_served_ends_well() {
    each(|client| {
        let (executed, server) = against(&[], client, 1, Duration::ZERO);
        expect_served(&executed, &server);
        // The governor had nothing to do.
        let destination = executed.destination("127.0.0.1:8080");
        assert_eq!(denied(destination), 0, "{destination}");
        assert_eq!(destination["successes"], 1);
    });
}

#[test]
fn each_client_that_is_denied_until_the_port_is_back_ends_well() {
    each(|client| {
        // Without jitter, and longer than any client's first wait: each of them meets a denial.
        let policy = PolicyFile::enforce(
            "circuitBreaker: {openDuration: {base: 3s, max: 3s, jitterPercent: 0}}",
        );
        let command = in_a_workload_that_found_the_port_dead(client);
        let (executed, server) = against(&["--policy", &policy.path()], &command, TRIPS, REFUSING);
        expect_served(&executed, &server);
        // The seven tries that opened the breaker were all let through: what was denied was the client's.
        let destination = executed.destination("127.0.0.1:8080");
        assert!(denied(destination) > 0, "{destination}");
        assert_eq!(
            destination["endpoints"][0]["breaker"]["state"], "Closed",
            "{destination}"
        );
    });
}

fn in_a_workload_that_found_the_port_dead(client: &Command) -> Command {
    let storm = artifact::program("storm-client").expect("it is built");
    let script = format!(
        "{} tries 127.0.0.1:{PORT} --tries {TRIPS} --delay 20ms >/dev/null; exec \"$@\"",
        storm.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]);
    command.arg(client.get_program()).args(client.get_args());
    for (name, value) in client.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Runs it against a port that refuses until it was tried `tries` times and `longer`.
#[track_caller]
fn against(
    options: &[&str],
    command: &Command,
    tries: u64,
    longer: Duration,
) -> (Executed, Server) {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Refuse);
    let syns = lab.count_syns(PORT);
    let executed = thread::scope(|scope| {
        let running = scope.spawn(|| exec(&lab, options, command, LIMIT));
        let deadline = Instant::now() + LIMIT;
        while syns.count() < tries && !running.is_finished() {
            assert!(Instant::now() < deadline, "the port was not tried");
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(longer);
        server.set(Behaviour::Answer);
        running.join().expect("the load ended")
    });
    (executed, server)
}

#[track_caller]
fn expect_served(executed: &Executed, server: &Server) {
    println!("{}", executed.finished.stderr);
    assert_eq!(executed.code(), 0, "{}", executed.finished.stderr);
    let ended = RealClient::ended(&executed.finished.stdout);
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0].end, End::Well, "{ended:?}");
    assert_eq!(server.counts().answers.count(), 1);
}
