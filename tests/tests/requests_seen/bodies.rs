//! Bodies of requests: passed over, whatever they look like and however they come.

use super::{BUSY, OK, get, on_stage};

fn post(body: &str) -> String {
    format!(
        "POST /in HTTP/1.1\r\nHost: shop\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
}

const CHUNKED: &str = "POST /in HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

#[test]
fn large_bodies_are_passed_over() {
    on_stage(|stage| {
        let mut wire = stage.wire("7 sent, 7 well");
        for size in [64_000, 200_000, 1_000_000] {
            let body = get("/not-a-request").repeat(size / 50);
            wire.exchange(post(&body) + &body, OK);
            wire.exchange(get("/"), OK);
        }
        let body = "x".repeat(300_000);
        wire.say(&[post(&body), body]);
        wire.answer(&[OK]);
    });
}

#[test]
fn a_body_that_looks_like_a_request_is_none_not_even_where_a_segment_begins() {
    on_stage(|stage| {
        let mut wire = stage.wire("3 sent, 3 well");
        let inner = get("/inner");
        let body = inner.repeat(3);
        wire.say(&[post(&body), inner.clone(), inner.clone(), inner.clone()]);
        wire.answer(&[OK]);
        // Head and the first of it together.
        wire.say(&[post(&body) + &inner, inner.clone() + &inner]);
        wire.answer(&[OK]);
        wire.exchange(get("/"), OK);

        let mut wire = stage.wire("3 sent, 3 well");
        wire.say(&[CHUNKED, &chunk(&inner), &chunk(&inner), END]);
        wire.answer(&[OK]);
        let size = format!("{:x}\r\n", inner.len());
        wire.say(&[
            CHUNKED,
            &size,
            &inner,
            "\r\n",
            &size,
            &inner,
            "\r\n0\r\n\r\n",
        ]);
        wire.answer(&[OK]);
        wire.exchange(get("/"), OK);
    });
}

#[test]
fn the_end_of_a_chunked_body_is_seen_wherever_it_is_cut() {
    on_stage(|stage| {
        let mut wire = stage.wire("13 sent, 13 well");
        let body = chunk("some data") + &chunk("and more");
        let whole = format!("{CHUNKED}{body}{END}");
        wire.exchange(&whole, OK);
        for cut in 0..=END.len() {
            let (begin, rest) = END.split_at(cut);
            if begin.is_empty() || rest.is_empty() {
                wire.say(&[CHUNKED.to_owned(), body.clone(), END.to_owned()]);
            } else {
                wire.say(&[
                    CHUNKED.to_owned(),
                    format!("{body}{begin}"),
                    rest.to_owned(),
                ]);
            }
            wire.answer(&[OK]);
        }
        // A byte each, and an empty one.
        wire.say(&whole.as_bytes().chunks(1).collect::<Vec<_>>());
        wire.answer(&[OK]);
        wire.exchange(format!("{CHUNKED}{END}"), OK);
        wire.say(&[CHUNKED, END]);
        wire.answer(&[OK]);
        wire.say(&[
            format!("{CHUNKED}{}", chunk(&"d".repeat(150_000))),
            END.to_owned(),
        ]);
        wire.answer(&[OK]);
        wire.exchange(get("/"), OK);
        wire.exchange(get("/"), OK);
    });
}

#[test]
fn what_follows_a_chunked_body_whose_end_was_not_seen_passes_unread() {
    on_stage(|stage| {
        // With trailers.
        let mut wire = stage.wire("1 sent, 1 unread, 3 well");
        wire.say(&[CHUNKED, &chunk("data"), "0\r\nDigest: abc\r\n\r\n"]);
        wire.answer(&[OK]);
        wire.exchange(get("/"), OK);
        wire.exchange(get("/"), OK);
        // Answered before its end.
        let mut wire = stage.wire("1 sent, 1 unread, 1 well, 1 status 503");
        wire.say(&[CHUNKED, &chunk("data")]);
        wire.answer(&[BUSY]);
        wire.say(&[&chunk("data"), END]);
        wire.exchange(get("/"), OK);
    });
}

#[test]
fn a_body_may_wait_for_100_continue() {
    on_stage(|stage| {
        let mut wire = stage.wire("3 sent, 3 well");
        let head =
            "PUT /in HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
        wire.exchange(head, "HTTP/1.1 100 Continue\r\n\r\n");
        wire.exchange("data", OK);
        // Cut, and with the answer in one segment.
        wire.say(&[head]);
        wire.answer(&["HTTP/1.1 10", "0 Continue\r\n\r", "\n"]);
        wire.say(&["da", "ta"]);
        wire.answer(&["HTTP/1.1 100 Continue\r\n\r\n".to_owned() + OK]);
        wire.exchange(get("/"), OK);
    });
}

#[test]
fn a_body_that_goes_on_after_its_answer_is_no_request() {
    on_stage(|stage| {
        let mut wire = stage.wire("2 sent, 1 well, 1 status 503");
        let body = get("/inner").repeat(4);
        let (begin, rest) = body.split_at(get("/inner").len());
        wire.say(&[post(&body) + begin]);
        wire.answer(&[BUSY]);
        wire.say(&[rest]);
        wire.exchange(get("/"), OK);
    });
}
