//! How requests end.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::Linger};

use super::{OK, Wire, get, on_stage};

/// Longer than what a caller says last before it goes.
pub const A_WHILE: Duration = Duration::from_millis(250);

/// The server resets the connection.
pub fn reset(wire: &Wire) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&wire.server, Linger, &at_once).unwrap();
}

fn answer(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn answers_fail_by_the_codes_of_the_policy() {
    on_stage(|stage| {
        let mut wire = stage.wire(
            "11 sent, 6 well, 1 status 429, 1 status 500, 1 status 502, 1 status 503, 1 status 504",
        );
        for (number, status) in [
            "200 OK",
            "302 Found",
            "404 Not Found",
            "409 Conflict",
            "401 Who",
            "501 Not Implemented",
            "429 Slow",
            "500 Oops",
            "502 Bad",
            "503 Busy",
            "504 Late",
        ]
        .iter()
        .enumerate()
        {
            wire.exchange(get(&format!("/{number}")), answer(status));
        }
    });
}

#[test]
fn a_request_without_an_answer_ends_as_its_connection_does() {
    on_stage(|stage| {
        // The server closes.
        let mut wire = stage.wire("2 sent, 1 well, 1 noAnswer");
        wire.exchange(get("/1"), OK);
        wire.say(&[get("/2")]);
        drop(wire.server);
        sleep(Duration::from_millis(20));
        // The server resets.
        let mut wire = stage.wire("1 sent, 1 reset");
        wire.say(&[get("/1")]);
        reset(&wire);
        drop(wire.server);
        sleep(Duration::from_millis(20));
        // The caller gives up; also in the midst of its request's body.
        let mut wire = stage.wire("1 sent, 1 timeout");
        wire.say(&[get("/1")]);
        sleep(A_WHILE);
        drop(wire.caller);
        let mut wire = stage.wire("1 sent, 1 timeout");
        wire.say(&[
            "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 100\r\n\r\n",
            "some",
        ]);
        sleep(A_WHILE);
        drop(wire.caller);
        // The caller changes its mind at once.
        let mut wire = stage.wire("2 sent, 1 well");
        wire.exchange(get("/0"), OK);
        wire.say(&[get("/1")]);
        drop(wire.caller);
        // The caller half-closes, and is answered.
        let mut wire = stage.wire("1 sent, 1 well");
        wire.say(&[get("/1")]);
        wire.caller.shutdown(std::net::Shutdown::Write).unwrap();
        sleep(A_WHILE);
        wire.answer(&[OK]);
    });
}

/// I1: what a governor said, here or beyond, is no evidence, however it is cut.
#[test]
fn the_refusal_of_another_governor_is_no_outcome() {
    let relayed = "HTTP/1.1 503 Service Unavailable\r\nServer: proxy\r\nx-retry-governor: budget\r\n\
         Retry-After: 30\r\nContent-Length: 0\r\n\r\n";
    on_stage(|stage| {
        let cuts = relayed.len();
        let mut wire = stage.wire(format!("{cuts} sent, 1 well"));
        wire.exchange(get("/"), OK);
        for cut in 1..cuts {
            wire.say(&[get(&format!("/{cut}"))]);
            let (begin, rest) = relayed.split_at(cut);
            wire.answer(&[begin, rest]);
        }
    });
}

#[test]
fn latency_is_from_the_request_to_the_status() {
    let late = Duration::from_millis(80);
    let summary = on_stage(|stage| {
        let mut wire = stage.wire("9 sent, 9 well");
        for _ in 0..9 {
            wire.say(&[get("/")]);
            sleep(late);
            // The body takes its time.
            wire.answer(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"]);
            sleep(late);
            wire.answer(&["ok"]);
        }
    });
    let latency = &summary["destinations"][0]["latencySeconds"];
    let median = Duration::from_secs_f64(latency["p50"].as_f64().unwrap());
    // As exact as a histogram is.
    assert!((late * 9 / 10..late * 3 / 2).contains(&median), "{latency}");
}
