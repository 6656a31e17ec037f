//! What real clients and servers send: read right, and the same however it is cut.

mod http_common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytemuck::Zeroable;
use governor_core::http::request::flag;
use governor_core::http::{AnswerScan, RequestScan, method, state};
use http_common::{answer, feed_answer, feed_request, request};

fn captures(what: &str) -> BTreeMap<String, Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/captures")
        .join(what);
    let files = fs::read_dir(&directory).expect("captures are in the tree");
    let read = files.map(|file| {
        let path = file.expect("a file").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        (name, fs::read(&path).expect("a capture"))
    });
    let captures: BTreeMap<_, _> = read.collect();
    assert!(captures.len() > 10, "{}", captures.len());
    captures
}

/// Where the head ends, found another way.
fn head_of(bytes: &[u8]) -> usize {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    end.expect("a head") + 4
}

/// A header's value, found another way.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (this, value) = line.split_once(':')?;
        this.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[test]
fn every_captured_request_is_read() {
    for (name, bytes) in captures("requests") {
        let (scan, taken) = request(&bytes);
        let end = head_of(&bytes);
        let head = std::str::from_utf8(&bytes[..end]).expect("text");
        assert_eq!((scan.state, taken), (state::DONE, end), "{name}");
        let (verb, _) = head.split_once(' ').expect("a request line");
        let number = match verb {
            "GET" => method::GET,
            "HEAD" => method::HEAD,
            "POST" => method::POST,
            "PUT" => method::PUT,
            other => unreachable!("{name}: {other}"),
        };
        assert_eq!(scan.method, number, "{name}");
        let length = header(head, "content-length").map_or(0, |it| it.parse().expect("a number"));
        assert_eq!(scan.length, length, "{name}");
        let chunked = header(head, "transfer-encoding") == Some("chunked");
        assert_eq!(scan.flags & flag::CHUNKED != 0, chunked, "{name}");
        assert_eq!(
            scan.flags & flag::UPGRADE != 0,
            header(head, "upgrade").is_some(),
            "{name}"
        );
        let key = header(head, "amz-sdk-invocation-id").or(header(head, "idempotency-key"));
        assert_eq!(scan.key != 0, key.is_some(), "{name}");
        let attempt = header(head, "amz-sdk-request").map_or(0, |value| {
            let (_, attempt) = value.split_once("attempt=").expect("its number");
            attempt[..1].parse().expect("a digit")
        });
        let declared =
            header(head, "x-envoy-attempt-count").map_or(0, |it| it.parse().expect("a number"));
        assert_eq!(scan.attempt, attempt.max(declared), "{name}");
        assert_eq!(
            scan.weak_key != 0,
            header(head, "x-request-id").is_some(),
            "{name}"
        );
    }
}

#[test]
fn the_second_try_of_every_client_has_the_fingerprint_and_the_key_of_the_first() {
    let captures = captures("requests");
    let mut compared = 0;
    for (name, first) in &captures {
        let Some(client) = name.strip_suffix(".1") else {
            continue;
        };
        let Some(second) = captures.get(&format!("{client}.2")) else {
            continue;
        };
        let (first, second) = (request(first).0, request(second).0);
        assert_eq!(first.fingerprint, second.fingerprint, "{client}");
        assert_eq!(first.key, second.key, "{client}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn another_operation_of_a_client_has_another_fingerprint() {
    for (name, bytes) in captures("requests") {
        let other = String::from_utf8_lossy(&bytes).replacen(" HTTP/1.1", "0 HTTP/1.1", 1);
        let (scan, other) = (request(&bytes).0, request(other.as_bytes()).0);
        assert_ne!(scan.fingerprint, other.fingerprint, "{name}");
    }
}

#[test]
fn no_two_clients_have_one_fingerprint() {
    let mut seen = BTreeMap::new();
    for (name, bytes) in captures("requests") {
        let client = name.split('.').next().expect("a name").to_owned();
        let other = seen.insert(request(&bytes).0.fingerprint, client.clone());
        assert!(other.is_none_or(|other| other == client), "{name}");
    }
}

#[test]
fn every_split_of_every_captured_request_is_read_alike() {
    for (name, bytes) in captures("requests") {
        let (whole, taken) = request(&bytes);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let mut scan = RequestScan::zeroed();
            let took = feed_request(&mut scan, first) + feed_request(&mut scan, second);
            assert_eq!((scan, took), (whole, taken), "{name} at {at}");
        }
        let mut scan = RequestScan::zeroed();
        let took: usize = bytes
            .chunks(1)
            .map(|byte| feed_request(&mut scan, byte))
            .sum();
        assert_eq!((scan, took), (whole, taken), "{name}, byte by byte");
    }
}

/// The last answer, after those that come before it.
fn last(bytes: &[u8]) -> AnswerScan {
    let (scan, taken) = answer(bytes);
    if scan.status < 200 {
        return last(&bytes[taken..]);
    }
    scan
}

#[test]
fn every_captured_answer_is_read() {
    let answers = captures("answers");
    for (name, bytes) in &answers {
        let (scan, taken) = answer(bytes);
        assert_eq!((scan.state, taken), (state::DONE, head_of(bytes)), "{name}");
        let text = String::from_utf8_lossy(bytes);
        let status = text[9..12].parse().expect("a status");
        assert_eq!(scan.status, status, "{name}");
        if status >= 200 && header(&text, "date").is_some() {
            // 30 November 2026.
            assert_eq!(scan.date / 86_400, 20_787, "{name}");
        }
    }
    assert_eq!(last(&answers["go-continue"]).status, 201);
    assert_eq!(last(&answers["node-early-hints"]).status, 200);
    assert_eq!(last(&answers["go-busy"]).retry_after, 7_000);
    assert_eq!(last(&answers["java-busy"]).retry_after, 9_000);
    assert_eq!(last(&answers["node-ms"]).retry_after, 250);
    let dated = last(&answers["node-busy"]);
    assert_eq!((dated.status, dated.retry_at), (429, 1_796_083_200));
    assert_ne!(dated.flags, 0);
}

#[test]
fn every_split_of_every_captured_answer_is_read_alike() {
    for (name, bytes) in captures("answers") {
        let (whole, taken) = answer(&bytes);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let mut scan = AnswerScan::zeroed();
            let took = feed_answer(&mut scan, first) + feed_answer(&mut scan, second);
            assert_eq!((scan, took), (whole, taken), "{name} at {at}");
        }
        let mut scan = AnswerScan::zeroed();
        let took: usize = bytes
            .chunks(1)
            .map(|byte| feed_answer(&mut scan, byte))
            .sum();
        assert_eq!((scan, took), (whole, taken), "{name}, byte by byte");
    }
}
