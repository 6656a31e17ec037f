//! What the scan of an answer tells.

mod http_common;

use bytemuck::Zeroable;
use governor_core::http::answer::flag;
use governor_core::http::{AnswerScan, state};
use http_common::{answer, chunk, failure, feed_answer};

/// Flags that say something to others.
const TOLD: u32 = flag::NO_RETRY | flag::OURS;

#[test]
fn the_status_is_known_with_its_last_digit_and_the_scan_stops_there() {
    let mut scan = AnswerScan::zeroed();
    assert_eq!(scan.chunk(&chunk(b"HTTP/1.1 50"), 11), 11);
    assert_eq!((scan.status, scan.state), (0, state::HEAD));
    assert_eq!(scan.chunk(&chunk(b"3 Busy\r\n"), 8), 1);
    assert_eq!((scan.status, scan.state), (503, state::HEAD));
    assert!(scan.has_more_to_say());
    assert_eq!(scan.chunk(&chunk(b" Busy\r\n\r\nbody"), 13), 9);
    assert_eq!((scan.status, scan.state), (503, state::DONE));
    assert!(!scan.has_more_to_say());
}

#[test]
fn only_failures_and_answers_before_the_last_one_have_more_to_say() {
    let said = |status: u32| {
        let mut scan = AnswerScan::zeroed();
        scan.chunk(&chunk(format!("HTTP/1.1 {status}").as_bytes()), 12);
        assert_eq!(scan.status, status);
        scan.has_more_to_say()
    };
    assert!(
        [100, 101, 103, 400, 404, 429, 500, 503]
            .into_iter()
            .all(said)
    );
    assert!(![200, 204, 206, 301, 304].into_iter().any(said));
}

#[test]
fn a_status_line_without_reason_is_one() {
    for line in [
        "HTTP/1.1 200",
        "HTTP/1.0 200 ",
        "HTTP/1.1 200 OK",
        "HTTP/1.1  200 OK",
    ] {
        for end in ["\r\n\r\n", "\n\n"] {
            let bytes = format!("{line}{end}");
            let (scan, taken) = answer(bytes.as_bytes());
            assert_eq!((scan.state, scan.status), (state::DONE, 200), "{line}");
            assert_eq!(taken, bytes.len(), "{line}");
        }
    }
}

#[test]
fn a_beginning_that_is_taken_at_once_leaves_what_its_bytes_leave_one_by_one() {
    for line in [
        "HTTP/1.1 200 OK",
        "HTTP/1.0 503 Busy",
        "HTTP/1.9 100 Go on",
        "HTTP/1.1 099 Low",
        "HTTP/1.1 2x0 Odd",
        "HTTP/1.1 2000",
        "HTTP/1.1\t200 OK",
        "HTTP/1.: 200 OK",
        "HTTP/2.0 200 OK",
        "\r\nHTTP/1.1 200 OK",
    ] {
        let bytes = chunk(line.as_bytes());
        let mut whole = AnswerScan::zeroed();
        let taken = whole.chunk(&bytes, line.len() as u32);
        let mut singly = AnswerScan::zeroed();
        for byte in line.bytes().take(taken as usize) {
            assert_eq!(singly.chunk(&chunk(&[byte]), 1), 1, "{line}");
        }
        assert_eq!(whole, singly, "{line}");
    }
}

#[test]
fn what_is_not_http_1_is_foreign_as_soon_as_that_shows() {
    let others: [(&[u8], usize); 9] = [
        (b"\x16\x03\x03", 1),
        (b"+PONG\r\n", 1),
        (b"SSH-2.0-x\r\n", 1),
        (b"HTTP/2 200\r\n", 6),
        (b"HTTP/2.0 200\r\n", 6),
        (b"HTTP/1.x 200\r\n", 8),
        (b"HTTP/1.1\r\n", 9),
        (b"ICY 200 OK\r\n", 1),
        (b"http/1.1 200 OK", 1),
    ];
    for (bytes, after) in others {
        let (scan, taken) = answer(bytes);
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!((scan.state, taken), (state::FOREIGN, after), "{shown}");
    }
}

#[test]
fn a_status_that_is_none_is_unreadable() {
    for line in [
        "HTTP/1.1 OK",
        "HTTP/1.1 20x",
        "HTTP/1.1 020",
        "HTTP/1.1 \r\n",
    ] {
        assert_eq!(answer(line.as_bytes()).0.state, state::UNREADABLE, "{line}");
    }
}

#[test]
fn an_interim_answer_ends_like_others_and_the_next_one_follows() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n";
    let (mut scan, taken) = answer(bytes);
    assert_eq!((scan.state, scan.status, taken), (state::DONE, 100, 25));
    scan.begin();
    feed_answer(&mut scan, &bytes[taken..]);
    assert_eq!((scan.state, scan.status), (state::DONE, 503));
    assert_eq!(scan.retry_after, 1_000);
}

#[test]
fn retry_after_is_read_in_seconds_and_as_a_date_of_every_form() {
    assert_eq!(failure("").retry_after, 0);
    assert_eq!(failure("Retry-After: 120\r\n").retry_after, 120_000);
    assert_eq!(failure("retry-after:1.5\r\n").retry_after, 1_000);
    assert_eq!(failure("Retry-After: 9999999999\r\n").retry_after, u32::MAX);
    assert_eq!(failure("Retry-After: 120 s\r\n").retry_after, 0);
    for date in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        let scan = failure(&format!("Retry-After: {date}\r\nDate: {date}\r\n"));
        assert_eq!(
            (scan.retry_at, scan.date),
            (784_111_777, 784_111_777),
            "{date}"
        );
        assert_eq!(scan.retry_after, 0);
    }
}

#[test]
fn dates_are_right_at_the_edges_of_the_calendar() {
    let dates = [
        ("Thu, 01 Jan 1970 00:00:01 GMT", 1),
        ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
        ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
        ("Fri, 31 Dec 2027 23:59:59 GMT", 1_830_297_599),
        ("Sat, 01 Jan 2028 00:00:00 GMT", 1_830_297_600),
        ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ("Friday, 31-Dec-69 23:59:59 GMT", 3_155_759_999),
    ];
    for (date, seconds) in dates {
        let scan = failure(&format!("Date: {date}\r\n"));
        assert_eq!(scan.date, seconds, "{date}");
    }
}

#[test]
fn a_date_that_is_none_says_nothing() {
    let none = [
        "soon",
        "-1",
        "Sun, 06 Nov 1994",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 19940 08:49:37 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 01 GMT",
        "",
    ];
    for value in none {
        let scan = failure(&format!("Retry-After: {value}\r\nDate: {value}\r\n"));
        assert_eq!(
            (scan.retry_at, scan.date, scan.retry_after),
            (0, 0, 0),
            "{value}"
        );
    }
}

#[test]
fn a_wait_in_milliseconds_counts_more_than_one_in_seconds() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"] {
        assert_eq!(
            failure(&format!("{name}: 250\r\n")).retry_after,
            250,
            "{name}"
        );
        let first = format!("{name}: 250\r\nRetry-After: 1\r\n");
        let last = format!("Retry-After: 1\r\n{name}: 250\r\n");
        assert_eq!(failure(&first).retry_after, 250, "{name}");
        assert_eq!(failure(&last).retry_after, 250, "{name}");
    }
    assert_eq!(failure("retry-after-ms: 250.75\r\n").retry_after, 250);
    assert_eq!(
        failure("retry-after-ms: 99999999999\r\n").retry_after,
        u32::MAX
    );
}

#[test]
fn a_server_may_say_not_to_try_again() {
    for name in ["x-should-retry", "Stripe-Should-Retry"] {
        let flags = |value: &str| failure(&format!("{name}: {value}\r\n")).flags & TOLD;
        assert_eq!(flags("false"), flag::NO_RETRY);
        assert_eq!(flags("False "), flag::NO_RETRY);
        assert_eq!((flags("true"), flags("falsey"), flags("")), (0, 0, 0));
    }
}

#[test]
fn a_refusal_of_a_governor_is_known_also_when_relayed() {
    assert_eq!(
        failure("X-Retry-Governor: budget\r\n").flags & TOLD,
        flag::OURS
    );
    assert_eq!(failure("X-Retry-Governors: budget\r\n").flags & TOLD, 0);
}

#[test]
fn it_stays_small() {
    assert!(size_of::<AnswerScan>() <= 96);
}
