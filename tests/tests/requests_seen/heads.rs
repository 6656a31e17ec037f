//! Requests: their heads, wherever they are cut, in each version and form, over each address.

use std::net::SocketAddr;

use super::{OK, get, mapped, on_stage, v6};

const ORDER: &str = "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Type: text/plain\r\n\
     Content-Length: 11\r\nAccept: */*\r\n\r\nhello there";

#[test]
fn a_request_is_one_wherever_it_is_cut() {
    on_stage(|stage| {
        let cuts = ORDER.len() - 1;
        let mut wire = stage.wire(format!("{cuts} sent, {cuts} well"));
        for cut in 1..=cuts {
            let (begin, rest) = ORDER.split_at(cut);
            wire.say(&[begin, rest]);
            wire.answer(&[OK]);
        }
        // A byte each.
        let mut wire = stage.wire("2 sent, 2 well");
        for _ in 0..2 {
            wire.say(&ORDER.as_bytes().chunks(1).collect::<Vec<_>>());
            wire.answer(&[OK]);
        }
        // Head and body apart, as many clients send them.
        let mut wire = stage.wire("2 sent, 2 well");
        let (head, body) = ORDER.split_at(ORDER.len() - 11);
        for _ in 0..2 {
            wire.say(&[head, body]);
            wire.answer(&[OK]);
        }
    });
}

#[test]
fn a_request_like_the_one_before_is_known_and_one_that_differs_in_a_byte_is_read() {
    on_stage(|stage| {
        // Read as the one before it, the end of a longer body would be taken for a second request.
        let lengths = [
            11, 11, 11, 13, 11, 11, 13, 13, 13, 11, 13, 11, 13, 11, 11, 11,
        ];
        let count = lengths.len();
        let mut wire = stage.wire(format!("{count} sent, {count} well"));
        for length in lengths {
            let begin = ORDER.replace("11", &length.to_string());
            let rest = &"!!"[..length - 11];
            let parts = [begin.as_str(), rest];
            wire.say(&parts[..if rest.is_empty() { 1 } else { 2 }]);
            wire.answer(&[OK]);
        }
    });
}

#[test]
fn every_version_and_form_of_a_request_is_read() {
    on_stage(|stage| {
        for request in [
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET http://shop.example/orders?id=1 HTTP/1.1\r\nHost: shop.example\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: shop\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: shop\r\n\r\n",
            "PROPFIND /dav HTTP/1.1\r\nHost: shop\r\nDepth: 1\r\n\r\n",
        ] {
            let mut wire = stage.wire("2 sent, 2 well");
            wire.exchange(request, OK);
            wire.exchange(request, OK);
        }
    });
}

#[test]
fn a_head_of_many_segments_is_read_and_one_that_is_too_long_passes_unread() {
    on_stage(|stage| {
        let long = |length: usize| {
            let cookie = "c".repeat(length);
            format!("GET / HTTP/1.1\r\nHost: shop\r\nCookie: {cookie}\r\n\r\n")
        };
        let mut wire = stage.wire("2 sent, 2 well");
        wire.exchange(long(12_000), OK);
        let long_one = long(30_000);
        wire.say(&long_one.as_bytes().chunks(8_000).collect::<Vec<_>>());
        wire.answer(&[OK]);
        // It goes on as turns.
        let mut wire = stage.wire("1 unread, 2 well");
        wire.exchange(long(40_000), OK);
        wire.exchange(get("/"), OK);
    });
}

#[test]
fn requests_are_seen_over_both_families() {
    on_stage(|stage| {
        for address in [v6 as fn(u16) -> SocketAddr, mapped] {
            let mut wire = stage.wire_to(address, "3 sent, 3 well");
            wire.exchange(get("/1"), OK);
            wire.exchange(ORDER, OK);
            wire.say(&ORDER.as_bytes().chunks(7).collect::<Vec<_>>());
            wire.answer(&[OK]);
        }
    });
}
