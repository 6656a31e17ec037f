//! Where nothing is wrong nothing is denied, and nothing is taken for a failure: the default policy,
//! in Enforce mode, on loads that look alarming to simpler laws.

use std::thread;
use std::time::Duration;

use governor_tests::governed::{self, Governed, denied, failures};
use governor_tests::lab::Lab;
use governor_tests::server::Behaviour;
use governor_tests::storm::report::Outcome;

const PORT: u16 = 8080;
const POLLS: u16 = 8081;
const LIMIT: Duration = Duration::from_secs(90);

/// Every try ended well, none was denied, and none counted as a failure or a retry.
#[track_caller]
fn expect_unharmed(governed: &Governed, ports: &[u16]) {
    let report = &governed.report;
    let bad = report.tries.iter().find(|each| each.outcome != Outcome::Ok);
    assert!(bad.is_none(), "{bad:?}");
    assert!(!report.tries.is_empty(), "nothing was tried");
    for port in ports {
        let destination = governed.executed.destination(&format!("127.0.0.1:{port}"));
        assert_eq!(destination["mode"], "Enforce");
        assert_eq!(denied(destination), 0, "{destination}");
        assert_eq!(failures(destination), 0, "{destination}");
        for count in [
            "deniedFirstTries",
            "deniedAgain",
            "retries",
            "suspectedRetries",
        ] {
            assert_eq!(destination[count], 0, "{count} in {destination}");
        }
    }
}

/// One storm client against a line server.
#[track_caller]
fn unharmed(behaviour: Behaviour, load: &str) -> Governed {
    let lab = Lab::new();
    let _server = lab.line_server(PORT, behaviour);
    let governed = governed::storm(&lab, &[], load, LIMIT);
    expect_unharmed(&governed, &[PORT]);
    governed
}

#[test]
fn a_pool_that_warms_up_with_500_connects_at_once_is_left_alone() {
    let pool = format!("pool 127.0.0.1:{PORT} --connections 500 --for 2s");
    let governed = unharmed(Behaviour::Answer, &pool);
    assert_eq!(governed.report.tries.len(), 500);
    // At once: all of them within the hold time of the first.
    let began = |index: usize| governed.report.tries[index].t;
    assert!(began(499) - began(0) < 2_000_000);
}

#[test]
fn long_polls_of_30_s_and_the_calls_beside_them_are_left_alone() {
    let lab = Lab::new();
    let _calls = lab.http_server(PORT, Behaviour::Answer);
    let _polls = lab.http_server(POLLS, Behaviour::AnswerAfter(Duration::from_secs(30)));
    let script = format!(
        "storm-client longpoll 127.0.0.1:{POLLS} --connections 200 & polls=$!; \
         storm-client loop 127.0.0.1:{PORT} --speak http --rate 50 --for 31s; wait $polls"
    );
    let governed = governed::script(&lab, &[], &script, LIMIT);
    expect_unharmed(&governed, &[PORT, POLLS]);
    let long = |latency: Duration| latency >= Duration::from_secs(30);
    let polls = governed
        .report
        .tries
        .iter()
        .filter(|each| long(each.latency()));
    assert_eq!(polls.count(), 200);
}

#[test]
fn an_endpoint_that_grows_slow_is_left_alone() {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Answer);
    let load = format!(
        "loop 127.0.0.1:{PORT} --speak http --rate 50 --threads 64 --answer-timeout 10s --for 6s"
    );
    let governed = thread::scope(|scope| {
        let storm = scope.spawn(|| governed::storm(&lab, &[], &load, LIMIT));
        thread::sleep(Duration::from_secs(3));
        server.set(Behaviour::AnswerAfter(Duration::from_millis(600)));
        storm.join().expect("the load ended")
    });
    expect_unharmed(&governed, &[PORT]);
    assert_eq!(governed.report.tries.len(), 300);
    let slow = |latency: Duration| latency >= Duration::from_millis(600);
    let slow = governed
        .report
        .tries
        .iter()
        .filter(|each| slow(each.latency()));
    assert!(slow.count() > 100);
}

#[test]
fn a_tenfold_step_in_rate_is_left_alone() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::Answer);
    let load = |rate: u32| {
        format!("storm-client loop 127.0.0.1:{PORT} --speak http --rate {rate} --for 3s")
    };
    let script = format!("{}; {}", load(30), load(300));
    let governed = governed::script(&lab, &[], &script, LIMIT);
    expect_unharmed(&governed, &[PORT]);
    assert_eq!(governed.report.tries.len(), 3 * 330);
}

#[test]
fn servers_that_speak_first_are_left_alone() {
    let load = format!("loop 127.0.0.1:{PORT} --speak banner --rate 50 --for 3s");
    unharmed(Behaviour::SpeakFirst, &load);
}

#[test]
fn idle_connections_that_the_server_closed_are_redialled_unharmed() {
    let load = format!(
        "keepalive 127.0.0.1:{PORT} --speak line --connections 50 --exchanges 5 --gap 700ms"
    );
    let governed = unharmed(Behaviour::IdleClose(Duration::from_millis(300)), &load);
    // Five exchanges on each of fifty, and each of them on a connection of its own.
    assert_eq!(governed.report.tries.len(), 50 * 5 * 2);
    let destination = governed.executed.destination("127.0.0.1:8080");
    assert_eq!(destination["attempts"], 50 * 5);
}

#[test]
fn callers_that_half_close_before_the_answer_are_left_alone() {
    let load = format!(
        "keepalive 127.0.0.1:{PORT} --speak line --connections 50 --exchanges 3 --gap 100ms --half-close"
    );
    let slow_enough_to_be_seen = Behaviour::AnswerAfter(Duration::from_millis(150));
    let governed = unharmed(slow_enough_to_be_seen, &load);
    assert_eq!(governed.report.tries.len(), 50 + 50 * 3);
}

#[test]
fn callers_that_connect_and_say_nothing_are_left_alone() {
    let load = format!("loop 127.0.0.1:{PORT} --rate 200 --for 3s");
    unharmed(Behaviour::Answer, &load);
}
