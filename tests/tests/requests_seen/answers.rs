//! Answers: their status is read, whatever precedes it and however it is cut; bodies are passed over.

use super::{OK, get, on_stage};

#[test]
fn an_answer_is_read_wherever_it_is_cut() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nServer: nginx\r\nContent-Length: 4\r\n\r\nbusy";
    on_stage(|stage| {
        let (good, bad) = (OK.len() - 1, busy.len() - 1);
        let mut wire = stage.wire(format!(
            "{} sent, {} well, {} status 503",
            good + bad + 2,
            good + 1,
            bad + 1
        ));
        let mut number = 0;
        let mut request = || {
            number += 1;
            get(&format!("/{number}"))
        };
        for answer in [OK, busy] {
            for cut in 1..answer.len() {
                wire.say(&[request()]);
                let (begin, rest) = answer.split_at(cut);
                wire.answer(&[begin, rest]);
            }
            wire.say(&[request()]);
            wire.answer(&answer.as_bytes().chunks(1).collect::<Vec<_>>());
        }
    });
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    on_stage(|stage| {
        let mut wire = stage.wire("5 sent, 4 well, 1 status 503");
        let head = "HEAD / HTTP/1.1\r\nHost: shop\r\n\r\n";
        wire.exchange(head, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        wire.exchange(
            get("/1"),
            "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 7\r\n\r\n",
        );
        wire.exchange(get("/2"), "HTTP/1.1 204 No Content\r\n\r\n");
        wire.exchange(head, "HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\n");
        wire.exchange(get("/3"), OK);
    });
}

#[test]
fn the_body_of_an_answer_is_passed_over_even_where_it_looks_like_answers() {
    let busy = "HTTP/1.1 503 Busy\r\n\r\n";
    on_stage(|stage| {
        let mut wire = stage.wire("3 sent, 3 well");
        let size = format!("{:x}\r\n", busy.len());
        wire.say(&[get("/1")]);
        wire.answer(&[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            &size,
            busy,
            "\r\n",
            &size,
            busy,
            "\r\n0\r\n\r\n",
        ]);
        wire.say(&[get("/2")]);
        wire.answer(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n".to_owned(),
            "y".repeat(600_000),
        ]);
        wire.exchange(get("/3"), OK);
        // Until the connection ends.
        let mut wire = stage.wire("1 sent, 1 well");
        wire.say(&["GET / HTTP/1.0\r\n\r\n"]);
        wire.answer(&[
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n",
            busy,
            busy,
        ]);
        drop(wire.server);
    });
}

#[test]
fn answers_before_the_last_one_are_none() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let processing = "HTTP/1.1 102 Processing\r\n\r\n";
    on_stage(|stage| {
        let mut wire = stage.wire("5 sent, 4 well, 1 status 503");
        wire.say(&[get("/1")]);
        wire.answer(&[hints, OK]);
        wire.exchange(get("/2"), hints.to_owned() + OK);
        wire.exchange(get("/3"), format!("{processing}{hints}{OK}"));
        wire.say(&[get("/4")]);
        wire.answer(&[&hints[..30], &hints[30..], processing]);
        wire.answer(&["HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n", "\r\n"]);
        wire.exchange(get("/5"), OK);
    });
}

#[test]
fn a_failed_answer_whose_head_never_ends_counts_by_its_status() {
    on_stage(|stage| {
        let mut wire = stage.wire("1 sent, 1 status 502");
        wire.say(&[get("/")]);
        wire.answer(&["HTTP/1.1 502 Bad Gateway\r\nServer: ngi"]);
        drop(wire.server);
    });
}

#[test]
fn an_answer_that_nobody_asked_for_is_none() {
    on_stage(|stage| {
        let mut wire = stage.wire("2 sent, 2 well");
        wire.exchange(get("/1"), OK);
        wire.exchange(get("/2"), OK);
        wire.answer(&["HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"]);
        drop(wire.server);
    });
}
