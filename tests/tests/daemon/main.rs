//! The daemon on a node of its own.

mod calm;
mod clients;
mod exempt;
mod gain;
mod left;
mod lifecycle;
mod orders;
mod policies;
mod restore;

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::caller::Caller;
use governor_tests::governor::{destination_of, retry_governor};
use governor_tests::lab::Lab;
use governor_tests::node::Node;
use governor_tests::place::Place;
use governor_tests::process::{self, Finished, Process};
use governor_tests::server::Behaviour;
use governor_tests::storm::exchange::Speech;
use governor_tests::storm::report::Outcome;
use serde_json::Value;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(30);
/// How long the daemon may take to notice a change.
const NOTICED: Duration = Duration::from_secs(10);

const ENFORCE: &str = "\
apiVersion: governor.dev/v1alpha1
kind: RetryPolicy
metadata: {name: auth}
spec:
  mode: Enforce
  destinations: [{name: auth, cidrs: [127.0.0.1/32], ports: [8080]}]
";

/// Forty tries of four processes, ten each, against the port.
fn storm(lab: &Lab) -> usize {
    let storm =
        format!("fleet --processes 4 --rate 100 -- tries 127.0.0.1:{PORT} --tries 10 --delay 10ms");
    lab.storm(&storm, LIMIT).tries.len()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + NOTICED;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {NOTICED:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn code(finished: &Finished) -> Option<i32> {
    finished.status.code()
}

/// The one line of an error.
#[track_caller]
fn error(finished: &Finished) -> &str {
    let line = finished.stderr.trim_end();
    assert!(
        line.starts_with("error: ") && !line.contains('\n'),
        "not one line: {line}"
    );
    line
}

fn argument(node: &Node<'_>, name: &str) -> PathBuf {
    let command = node.run_command();
    let mut arguments = command.get_args();
    arguments
        .find(|argument| *argument == OsStr::new(name))
        .expect("the argument is given");
    PathBuf::from(arguments.next().expect("it has a value"))
}

/// One request on the control socket, as a foreign client makes it.
fn request(node: &Node<'_>, head: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(argument(node, "--socket")).expect("a control socket");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let length = body.len();
    // The daemon may refuse before it has read all.
    let _ = write!(
        stream,
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

fn events(node: &Node<'_>) -> Vec<Value> {
    let events = node.ctl(["events", "--json"]).expect_success();
    events
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

fn heard(node: &Node<'_>, kind: &str, words: &str) -> bool {
    let told = |event: &Value| {
        event["kind"] == kind
            && event["message"]
                .as_str()
                .is_some_and(|text| text.contains(words))
    };
    events(node).iter().any(told)
}
