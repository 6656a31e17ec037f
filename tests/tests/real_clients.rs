//! The real clients end well by themselves: a server that refuses at first, then answers.
//! (Under the governor they are tested elsewhere; this shows that the clients do what we say.)

use std::thread;
use std::time::Duration;

use governor_tests::lab::Lab;
use governor_tests::process::Process;
use governor_tests::real_clients::RealClient;
use governor_tests::server::Behaviour;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn curl_tries_again_until_it_is_answered() {
    ends_well(RealClient::Curl);
}

#[test]
fn python_requests_tries_again_until_it_is_answered() {
    ends_well(RealClient::Python);
}

#[test]
fn go_tries_again_until_it_is_answered() {
    ends_well(RealClient::Go);
}

#[test]
fn node_tries_again_until_it_is_answered() {
    ends_well(RealClient::Node);
}

#[test]
fn java_tries_again_until_it_is_answered() {
    ends_well(RealClient::Java);
}

#[track_caller]
fn ends_well(client: RealClient) {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Refuse);
    let syns = lab.count_syns(PORT);
    let command = client.command(&format!("http://127.0.0.1:{PORT}/"), 8);
    let mut process = Process::start(command, &lab.place());
    // Wakes the server only after a real refusal: a slow start of the client must not pass as a retry.
    while syns.count() == 0 && process.is_running() {
        thread::sleep(Duration::from_millis(20));
    }
    server.set(Behaviour::Answer);
    process.finish(LIMIT).expect_success();
    assert!(syns.count() >= 2, "no retry was seen");
    assert_eq!(server.counts().answers.count(), 1);
}

#[test]
fn a_client_that_is_never_answered_ends_with_a_failure() {
    let lab = Lab::new();
    let command = RealClient::Curl.command(&format!("http://127.0.0.1:{PORT}/"), 1);
    assert!(!lab.run(command, LIMIT).status.success());
}
