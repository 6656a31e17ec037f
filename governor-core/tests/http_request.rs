//! What the scan of a request tells, header by header.

mod http_common;

use bytemuck::Zeroable;
use governor_core::http::request::{VISIBLE, flag};
use governor_core::http::{RequestScan, line, method, state};
use http_common::{chunk, feed_request, read, request, with};

#[test]
fn the_method_is_known_by_its_name() {
    let methods = [
        ("GET", method::GET),
        ("HEAD", method::HEAD),
        ("POST", method::POST),
        ("PUT", method::PUT),
        ("DELETE", method::DELETE),
        ("PATCH", method::PATCH),
        ("OPTIONS", method::OPTIONS),
        ("TRACE", method::TRACE),
        ("CONNECT", method::CONNECT),
        ("PROPFIND", method::OTHER),
        ("M-SEARCH", method::OTHER),
        ("VERSION-CONTROL", method::OTHER),
    ];
    for (name, number) in methods {
        let scan = read(format!("{name} / HTTP/1.1\r\n\r\n").as_bytes());
        assert_eq!(scan.method, number, "{name}");
    }
}

#[test]
fn a_known_method_is_recognised_at_its_blank_and_an_unknown_one_at_the_version() {
    assert_eq!(request(b"GET").0.state, state::START);
    assert_eq!(request(b"GET ").0.state, state::HEAD);
    assert_eq!(request(b"PROPFIND /a HTTP/1.1\r").0.state, state::START);
    assert_eq!(request(b"PROPFIND /a HTTP/1.1\r\n").0.state, state::HEAD);
}

#[test]
fn what_is_not_http_1_is_foreign_as_soon_as_that_shows() {
    let others: [(&[u8], usize); 16] = [
        (b"\x16\x03\x01\x02\x00", 1),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 4),
        (b"*1\r\n$4\r\nPING\r\n", 1),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 5),
        (b"get key\r\n", 1),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", 1),
        (b" GET / HTTP/1.1\r\n", 1),
        (b"EHLO mail.example\r\n", 19),
        (b"GET key\r\n", 9),
        (b"GET /\r\n", 7),
        (b"OPTIONS sip:a SIP/2.0\r\n", 23),
        (b"GET / HTTP/2.0\r\n", 16),
        (b"GET / HTTP/1.\r\n", 15),
        (b"GET / HTTP/1.10\r\n", 17),
        (b"G{}", 2),
        (b"ABCDEFGHIJKLMNOPQRSTU /", 21),
    ];
    for (bytes, after) in others {
        let (scan, taken) = request(bytes);
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!((scan.state, taken), (state::FOREIGN, after), "{shown}");
    }
}

#[test]
fn a_byte_that_can_not_begin_a_request_is_foreign_at_once_and_no_other() {
    for byte in 0..=u8::MAX {
        let foreign = request(&[byte]).0.state == state::FOREIGN;
        assert_eq!(foreign, !RequestScan::may_begin_with(byte), "{byte:#x}");
    }
}

#[test]
fn every_minor_version_is_http_1() {
    for minor in 0..10 {
        read(format!("GET / HTTP/1.{minor}\r\n\r\n").as_bytes());
    }
}

#[test]
fn it_stops_right_after_the_blank_line() {
    let head = b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 4\r\n\r\n";
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(b"body and more, and even more than a chunk of bytes");
    let (scan, taken) = request(&bytes);
    assert_eq!((scan.state, taken), (state::DONE, head.len()));
    assert_eq!(scan.length, 4);
}

#[test]
fn a_scan_that_is_complete_takes_nothing_more_until_it_begins_anew() {
    let (mut scan, _) = request(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(feed_request(&mut scan, b"GET / HTTP/1.1\r\n\r\n"), 0);
    let first = scan;
    scan.begin();
    assert_eq!(feed_request(&mut scan, b"GET / HTTP/1.1\r\n\r\n"), 18);
    assert_eq!(scan, first);
}

#[test]
fn blank_lines_before_a_request_are_left_out() {
    let plain = read(b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n");
    let (scan, taken) = request(b"\r\n\r\nGET /a HTTP/1.1\r\nHost: b\r\n\r\n");
    assert_eq!((scan.state, taken), (state::DONE, 32));
    assert_eq!(scan.fingerprint, plain.fingerprint);
    assert_eq!(request(b"\r\n").0.state, state::START);
}

#[test]
fn a_bare_line_feed_ends_a_line() {
    let plain = read(b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n");
    let bare = read(b"GET /a HTTP/1.1\nHost: b\n\n");
    assert_eq!(bare.fingerprint, plain.fingerprint);
}

#[test]
fn every_form_of_target_is_read() {
    let targets = [
        "/",
        "http://a.example/b?c=d%20e",
        "a.example:443",
        "*",
        "/a b",
    ];
    let mut seen: Vec<_> = targets
        .iter()
        .map(|target| read(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).fingerprint)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), targets.len());
}

#[test]
fn the_fingerprint_is_of_method_target_and_lasting_headers() {
    let base = read(b"GET /a HTTP/1.1\r\nHost: b\r\nAccept: */*\r\n\r\n");
    let others: [&[u8]; 9] = [
        b"HEAD /a HTTP/1.1\r\nHost: b\r\nAccept: */*\r\n\r\n",
        b"GET /A HTTP/1.1\r\nHost: b\r\nAccept: */*\r\n\r\n",
        b"GET /a? HTTP/1.1\r\nHost: b\r\nAccept: */*\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: c\r\nAccept: */*\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: b\r\nAccept: * /*\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: b\r\nAccept: */*\r\nCookie: d\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: b\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: b\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    for other in others {
        let shown = String::from_utf8_lossy(other);
        assert_ne!(read(other).fingerprint, base.fingerprint, "{shown}");
    }
    let same: [&[u8]; 3] = [
        b"GET /a HTTP/1.0\r\nHost: b\r\nAccept: */*\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost:b\r\nACCEPT: \t*/* \t\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost:  b\r\nDate: now\r\nAccept: */*\r\nTraceparent: c\r\n\r\n",
    ];
    for other in same {
        let shown = String::from_utf8_lossy(other);
        assert_eq!(read(other).fingerprint, base.fingerprint, "{shown}");
    }
}

#[test]
fn what_each_sending_changes_is_not_in_the_fingerprint() {
    let base = with("");
    let headers = [
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature=c",
        "X-Amz-Date: 20260101T000000Z",
        "X-Request-Id: 1",
        "Request-Id: |1.",
        "X-Correlation-Id: 1",
        "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "Tracestate: a=b",
        "B3: 1-2-1",
        "X-B3-SpanId: a",
        "X-Datadog-Parent-Id: 1",
        "Amz-Sdk-Request: attempt=1; max=3",
        "Amz-Sdk-Invocation-Id: 1",
        "X-Envoy-Attempt-Count: 2",
        "X-Envoy-Expected-Rq-Timeout-Ms: 2",
        "X-Stainless-Retry-Count: 1",
        "Grpc-Timeout: 1S",
        "Connection: keep-alive",
        "Expect: 100-continue",
        "X-Goog-Api-Client: gl-go/1 gccl-attempt-count/2",
        "Idempotency-Key: 1",
    ];
    for header in headers {
        let scan = with(&format!("{header}\r\n"));
        assert_eq!(scan.fingerprint, base.fingerprint, "{header}");
    }
}

/// What one user may not see or breaks is not what another asks for.
#[test]
fn requests_of_two_users_are_not_equal() {
    let with = |credentials: &str| with(&format!("Authorization:{credentials}\r\n")).fingerprint;
    for scheme in ["Bearer", "bearer", "Basic", "Token", "token"] {
        let (one, other) = (with(&format!(" {scheme} 1")), with(&format!(" {scheme} 2")));
        assert_ne!(one, other, "{scheme}");
        assert_eq!(one, with(&format!("\t {scheme}  1 ")), "{scheme}");
    }
    for scheme in ["AWS4-HMAC-SHA256", "Digest", "OAuth", "SharedKey", "Hawk"] {
        let (one, other) = (with(&format!(" {scheme} 1")), with(&format!(" {scheme} 2")));
        assert_eq!(one, other, "{scheme}");
    }
    assert_eq!(with(""), with(" "));
}

#[test]
fn every_header_that_says_which_try_it_is_is_understood() {
    let tries = [
        ("X-Envoy-Attempt-Count: 1", 1),
        ("x-envoy-attempt-count: 3", 3),
        ("grpc-previous-rpc-attempts: 1", 2),
        ("amz-sdk-request: attempt=1", 1),
        ("amz-sdk-request: attempt=2; max=3", 2),
        (
            "Amz-Sdk-Request: ttl=20260101T000000Z; attempt=12; max=50",
            12,
        ),
        ("amz-sdk-request: max=3;attempt=4", 4),
        ("x-stainless-retry-count: 0", 1),
        ("x-stainless-retry-count: 2", 3),
        ("Retry-Attempt: 1", 2),
        ("armeria-retry-count: 1", 2),
        (
            "x-goog-api-client: gl-go/1.26.0 gccl/1.5 gccl-invocation-id/ab-c gccl-attempt-count/2",
            2,
        ),
        ("X-Goog-Api-Client: gccl-attempt-count/5 gl-node/22", 5),
        ("X-Goog-Api-Client: strange gccl-attempt-count/5", 5),
        ("X-Slack-Retry-Num: 1", 2),
        ("X-CloudTasks-TaskRetryCount: 0", 1),
        ("X-CloudTasks-TaskRetryCount: 7", 8),
        ("Finagle-Ctx-com.twitter.finagle.Retries: 1", 2),
        ("x-envoy-attempt-count: 2\r\nx-stainless-retry-count: 4", 5),
        ("x-stainless-retry-count: 4\r\nx-envoy-attempt-count: 2", 5),
        ("x-envoy-attempt-count: 100000", 65_535),
    ];
    for (headers, attempt) in tries {
        assert_eq!(
            with(&format!("{headers}\r\n")).attempt,
            attempt,
            "{headers}"
        );
    }
}

#[test]
fn a_number_that_is_none_says_nothing() {
    let headers = [
        "x-envoy-attempt-count: 0",
        "x-envoy-attempt-count:",
        "x-envoy-attempt-count: -1",
        "x-envoy-attempt-count: 2x",
        "x-envoy-attempt-count: 2 3",
        "x-envoy-attempt-count: 2, 3",
        "x-envoy-attempt-count: two",
        "x-envoy-attempt-count: 9999999999999999999999999999",
        "amz-sdk-request: attempt=; max=3",
        "amz-sdk-request: attempt=0",
        "amz-sdk-request: attempts=2",
        "x-goog-api-client: gccl-attempt-count/",
        "x-goog-api-client: gccl-attempt-count/x",
    ];
    for header in headers {
        assert_eq!(with(&format!("{header}\r\n")).attempt, 0, "{header}");
    }
}

#[test]
fn a_key_names_the_operation_whatever_else_differs() {
    let names = [
        "Idempotency-Key",
        "Amz-Sdk-Invocation-Id",
        "X-Goog-Gcs-Idempotency-Token",
    ];
    for name in names {
        let key = |value: &str| with(&format!("{name}: {value}\r\n")).key;
        assert_ne!(key("abc"), 0, "{name}");
        assert_eq!(key("abc"), key("abc "), "{name}");
        assert_ne!(key("abc"), key("ABC"), "{name}");
        assert_eq!(key(""), 0, "{name}");
    }
    let google = |value: &str| {
        let header = format!("X-Goog-Api-Client: gl-go/1 {value} gccl-attempt-count/2\r\n");
        with(&header).key
    };
    assert_ne!(google("gccl-invocation-id/a-b"), 0);
    assert_ne!(
        google("gccl-invocation-id/a-b"),
        google("gccl-invocation-id/a-c")
    );
    assert_eq!(google("gccl/a-b"), 0);
    assert_eq!(with("Cookie: a\r\n").key, 0);
}

/// Callers of Azure often keep one for a session of many calls.
#[test]
fn an_id_that_may_cover_many_calls_names_none_by_itself() {
    let request = with("X-Ms-Client-Request-Id: a\r\n");
    assert_eq!(request.key, 0);
    assert_ne!(request.weak_key, 0);
}

#[test]
fn an_idempotency_key_counts_more_than_an_id_of_the_client() {
    let alone = with("Idempotency-Key: a\r\n");
    let first = with("Amz-Sdk-Invocation-Id: b\r\nIdempotency-Key: a\r\n");
    let last = with("Idempotency-Key: a\r\nAmz-Sdk-Invocation-Id: b\r\n");
    assert_eq!((first.key, last.key), (alone.key, alone.key));
    assert_eq!(alone.flags, flag::IDEMPOTENT);
    assert_eq!(with("X-Ms-Client-Request-Id: b\r\n").flags, 0);
}

#[test]
fn the_trace_counts_and_not_the_span() {
    let trace = |value: &str| with(&format!("traceparent: {value}\r\n")).weak_key;
    let one = trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_ne!(one, 0);
    assert_eq!(
        one,
        trace("00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-00")
    );
    assert_ne!(
        one,
        trace("00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    );
    assert_eq!(trace("00"), 0);
    let id = with("X-Request-Id: a\r\n").weak_key;
    let both = "traceparent: 00-a-b-01\r\nX-Request-Id: a\r\n";
    assert_eq!(with(both).weak_key, id);
    let both = "X-Request-Id: a\r\ntraceparent: 00-a-b-01\r\n";
    assert_eq!(with(both).weak_key, id);
}

#[test]
fn how_long_its_caller_waits_is_read_in_every_unit() {
    let waits = [
        ("x-envoy-expected-rq-timeout-ms: 250", 250),
        ("grpc-timeout: 2H", 7_200_000),
        ("grpc-timeout: 2M", 120_000),
        ("grpc-timeout: 3S", 3_000),
        ("grpc-timeout: 100m", 100),
        ("grpc-timeout: 1500u", 2),
        ("grpc-timeout: 99999999n", 100),
        ("grpc-timeout: 99999999H", u32::MAX),
        ("grpc-timeout: 5", 0),
        ("grpc-timeout: 5x", 0),
        ("grpc-timeout: S", 0),
        ("X-Server-Timeout: 30", 30_000),
        ("X-Server-Timeout: 30.5", 30_000),
        ("X-Server-Timeout: soon", 0),
        ("x-envoy-expected-rq-timeout-ms: 0", 0),
        (
            "x-server-timeout: 30\r\nx-envoy-expected-rq-timeout-ms: 250",
            250,
        ),
        (
            "x-envoy-expected-rq-timeout-ms: 250\r\nx-server-timeout: 30",
            250,
        ),
    ];
    for (headers, patience) in waits {
        assert_eq!(
            with(&format!("{headers}\r\n")).patience,
            patience,
            "{headers}"
        );
    }
}

#[test]
fn when_its_caller_stops_waiting_is_read_from_aws() {
    let ttl = |value: &str| with(&format!("amz-sdk-request: ttl={value}; attempt=1\r\n"));
    assert_eq!(ttl("20260101T000000Z").expires, 1_767_225_600);
    assert_eq!(ttl("20240229T235959Z").expires, 1_709_251_199);
    assert_eq!(ttl("20260101T000000Z").attempt, 1);
    for none in [
        "20261301T000000Z",
        "20260101T250000Z",
        "2026",
        "",
        "20260101T000000",
    ] {
        assert_eq!(ttl(none).expires, 0, "{none}");
        assert_eq!(ttl(none).attempt, 1, "{none}");
    }
}

#[test]
fn how_long_the_body_is_and_how_it_is_framed() {
    let length = |headers: &str| {
        let scan = with(headers);
        (scan.length, scan.flags)
    };
    assert_eq!(length(""), (0, 0));
    assert_eq!(length("Content-Length: 0\r\n"), (0, 0));
    assert_eq!(
        length("content-length:12345678901\r\n"),
        (12_345_678_901, 0)
    );
    assert_eq!(length("Transfer-Encoding: chunked\r\n"), (0, flag::CHUNKED));
    assert_eq!(
        length("Transfer-Encoding: gzip,Chunked \r\n"),
        (0, flag::CHUNKED)
    );
    assert_eq!(
        length("Transfer-Encoding: gzip, chunked\r\n"),
        (0, flag::CHUNKED)
    );
    assert_eq!(length("Transfer-Encoding: identity\r\n"), (0, 0));
    assert_eq!(length("Transfer-Encoding: chunkedx\r\n"), (0, 0));
    // RFC 9112 6.3: the coding counts.
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(length(both), (0, flag::CHUNKED));
}

#[test]
fn a_head_whose_body_has_no_known_end_is_unreadable() {
    for value in ["", "x", "-1", "5 6", "5, 6", "0x10", "99999999999999999999"] {
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {value}\r\n\r\n");
        assert_eq!(
            request(head.as_bytes()).0.state,
            state::UNREADABLE,
            "{value}"
        );
    }
}

#[test]
fn an_upgrade_is_told() {
    assert_eq!(
        with("Connection: Upgrade\r\nUpgrade: websocket\r\n").flags,
        flag::UPGRADE
    );
    assert_eq!(with("Upgrade-Insecure-Requests: 1\r\n").flags, 0);
}

#[test]
fn a_line_that_goes_on_belongs_to_the_header_before() {
    let lasting = with("Cookie: a\r\n b\r\n");
    assert_ne!(lasting.fingerprint, with("Cookie: a\r\n").fingerprint);
    let volatile = with("Authorization: a\r\n\tb: c\r\n");
    assert_eq!(volatile.fingerprint, with("").fingerprint);
    assert_eq!(with("amz-sdk-request: max=3;\r\n attempt=2\r\n").attempt, 2);
}

#[test]
fn a_line_without_colon_is_unreadable() {
    let (scan, taken) = request(b"GET / HTTP/1.1\r\nHost\r\n\r\n");
    assert_eq!((scan.state, taken), (state::UNREADABLE, 22));
}

#[test]
fn a_head_that_does_not_end_is_unreadable_at_the_limit() {
    let limit = line::LONGEST as usize;
    let mut head = b"GET / HTTP/1.1\r\nCookie: ".to_vec();
    head.resize(limit - 4, b'a');
    head.extend_from_slice(b"\r\n\r\n");
    assert_eq!(request(&head).0.state, state::DONE);
    head.insert(30, b'a');
    let (scan, taken) = request(&head);
    assert_eq!((scan.state, taken), (state::UNREADABLE, limit));
}

#[test]
fn the_body_bytes_that_are_seen_are_in_the_fingerprint() {
    let (head, _) = request(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n");
    let body = |bytes: &[u8]| {
        let mut scan = head;
        for part in bytes.chunks(32) {
            scan.body(&chunk(part), u32::try_from(part.len()).unwrap());
        }
        scan
    };
    let seen: Vec<_> = [
        b"a".as_slice(),
        b"b",
        b"a\0",
        b"12345678",
        b"123456789",
        &[7; 32],
        &[7; 33],
    ]
    .map(|bytes| body(bytes).fingerprint)
    .into();
    for (at, one) in seen.iter().enumerate() {
        assert_ne!(*one, head.fingerprint);
        assert!(!seen[..at].contains(one), "{at}");
    }
    assert_eq!(body(b"").fingerprint, head.fingerprint);
    assert_eq!(body(b"a").fingerprint, body(b"a").fingerprint);
    // No more than that.
    let most = body(&[7; VISIBLE as usize]);
    assert_eq!(most, body(&[7; VISIBLE as usize + 50]));
    assert_eq!(most.body, VISIBLE);
}

#[test]
fn it_stays_small() {
    assert!(size_of::<RequestScan>() <= 160);
    assert_eq!(RequestScan::zeroed().state, state::START);
}
