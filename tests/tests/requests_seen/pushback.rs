//! `Retry-After` in every form: the retry that comes before its time is refused, and says why.

use std::thread::sleep;
use std::time::Duration;

use super::{OK, Wire, get, on_stage};

const RETRY: &str =
    "GET / HTTP/1.1\r\nHost: shop\r\nUser-Agent: till\r\nx-envoy-attempt-count: 2\r\n\r\n";

/// A 503 with these headers, and another first try in between that says nothing.
fn busy(headers: &str) -> String {
    format!("HTTP/1.1 503 Busy\r\n{headers}\r\nContent-Length: 0\r\n\r\n")
}

fn is_refused(wire: Wire) {
    let heard = wire.refused(RETRY);
    assert!(heard.starts_with("HTTP/1.1 503 "), "{heard:?}");
    assert!(
        heard.contains("x-retry-governor: retry-after\r\n"),
        "{heard:?}"
    );
}

#[test]
fn a_retry_waits_as_the_answer_asks_in_seconds_milliseconds_or_dates() {
    on_stage(|stage| {
        for headers in [
            "Retry-After: 2",
            "retry-after:   120  ",
            "Retry-After-Ms: 1500",
            "x-ms-retry-after-ms: 1500",
            // Three seconds, by the server's clock.
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:40 GMT",
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sunday, 06-Nov-94 08:49:40 GMT",
            "Retry-After: Sun Nov  6 08:49:40 1994\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT",
            // By this node's clock.
            "Retry-After: Thu, 31 Dec 2099 23:59:59 GMT",
        ] {
            let mut wire = stage.wire("1 sent, 1 status 503, 1 denied retryAfter");
            wire.exchange(get("/"), busy(headers));
            is_refused(wire);
        }
        // Wherever the answer is cut.
        let answer = busy("Retry-After: 2");
        for cut in 18..answer.len() {
            let mut wire = stage.wire("1 sent, 1 status 503, 1 denied retryAfter");
            wire.say(&[get("/")]);
            let (begin, rest) = answer.split_at(cut);
            wire.answer(&[begin, rest]);
            is_refused(wire);
        }
    });
}

#[test]
fn a_retry_goes_where_the_answer_asks_for_nothing_or_the_time_is_over() {
    on_stage(|stage| {
        for headers in [
            "Server: shop",
            "Retry-After: 0",
            "Retry-After: soon",
            "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT",
            "X-Retry-After: 20",
        ] {
            let mut wire = stage.wire("2 sent, 1 well, 1 status 503, 1 retries");
            wire.exchange(get("/"), busy(headers));
            wire.exchange(RETRY, OK);
        }
        let mut wire = stage.wire("2 sent, 1 well, 1 status 503, 1 retries");
        wire.exchange(get("/"), busy("Retry-After: 1"));
        sleep(Duration::from_millis(1_100));
        wire.exchange(RETRY, OK);
    });
}
