//! Unmodified clients that retry, under `exec` with the default policy: a port that refuses, then a
//! healthy server. They end well, as they do without a governor, and none hangs.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::artifact;
use governor_tests::governed::denied;
use governor_tests::governor::{Executed, exec};
use governor_tests::lab::Lab;
use governor_tests::real_clients::RealClient;
use governor_tests::server::{Behaviour, Server};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(90);
/// Failures in a row that open the breaker where nothing ever succeeded.
const TRIPS: u64 = 7;
const RETRIES: u32 = 8;

#[test]
fn curl_ends_well() {
    ends_well(RealClient::Curl);
}

#[test]
fn python_requests_ends_well() {
    ends_well(RealClient::Python);
}

#[test]
fn go_ends_well() {
    ends_well(RealClient::Go);
}

#[test]
fn node_ends_well() {
    ends_well(RealClient::Node);
}

#[test]
fn java_ends_well() {
    ends_well(RealClient::Java);
}

#[track_caller]
fn ends_well(client: RealClient) {
    let command = client.command(&format!("http://127.0.0.1:{PORT}/"), RETRIES);
    alone(&command);
    behind_an_open_breaker(&command);
}

/// Refused once, then served: the governor has nothing to do.
#[track_caller]
fn alone(client: &Command) {
    let (executed, server) = against(client, 1, Duration::ZERO);
    expect_served(&executed, &server);
    let destination = executed.destination("127.0.0.1:8080");
    assert_eq!(denied(destination), 0, "{destination}");
    assert_eq!(destination["successes"], 1);
}

/// Its workload has already found the port dead: the client is denied, and served when the port is back.
#[track_caller]
fn behind_an_open_breaker(client: &Command) {
    let storm = artifact::program("storm-client").expect("it is built");
    let trip = format!(
        "{} tries 127.0.0.1:{PORT} --tries {TRIPS} --delay 20ms >/dev/null; exec \"$@\"",
        storm.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &trip, "sh"]);
    command.arg(client.get_program()).args(client.get_args());
    for (name, value) in client.get_envs() {
        assert!(value.is_none(), "a client needs no more than it has");
        command.env_remove(name);
    }
    let (executed, server) = against(&command, TRIPS, Duration::from_secs(4));
    expect_served(&executed, &server);
    let destination = executed.destination("127.0.0.1:8080");
    // The seven tries that opened it were all let through: what was denied was the client's.
    assert!(denied(destination) > 0, "{destination}");
    assert_eq!(
        destination["endpoints"][0]["breaker"]["state"], "Closed",
        "{destination}"
    );
}

/// Runs it against a port that refuses until it was tried `tries` times and `longer`.
#[track_caller]
fn against(command: &Command, tries: u64, longer: Duration) -> (Executed, Server) {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Refuse);
    let syns = lab.count_syns(PORT);
    let executed = thread::scope(|scope| {
        let running = scope.spawn(|| exec(&lab, &[], command, LIMIT));
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
    assert_eq!(server.counts().answers.count(), 1);
}
