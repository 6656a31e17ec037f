//! Connections that are used without a pause: what is settled together is counted to the last exchange,
//! and what is not like the rest of it is seen at once.

use std::thread::sleep;

use super::outcomes::{A_WHILE, reset};
use super::{BUSY, OK, get, on_stage};

/// Enough for several stretches.
const MANY: usize = 600;

#[test]
fn requests_without_a_pause_are_counted_to_the_last_one() {
    on_stage(|stage| {
        for count in [1, 2, 3, 4, 5, 256, 257, 258, 259, 260, 800] {
            let mut wire = stage.wire(format!("{count} sent, {count} well"));
            for _ in 0..count {
                wire.exchange(get("/poll"), OK);
            }
        }
    });
}

#[test]
fn turns_without_a_pause_are_counted_to_the_last_one() {
    on_stage(|stage| {
        for count in [1, 2, 3, 4, 257, 258, 800] {
            let mut wire = stage.wire(format!("{count} well"));
            for _ in 0..count {
                wire.exchange([1, 2, 3], [4, 5, 6]);
            }
        }
        // Of several segments each, in both directions.
        let mut wire = stage.wire("600 well");
        for _ in 0..600 {
            wire.say(&[[1, 2], [3, 4]]);
            wire.answer(&[[5, 6], [7, 8]]);
        }
    });
}

#[test]
fn a_failed_answer_among_calm_ones_is_seen_and_so_is_the_retry() {
    on_stage(|stage| {
        let sent = 2 * MANY + 1;
        // Equal requests that come by themselves: the second try is no retry for sure.
        let mut wire = stage.wire(format!("{sent} sent, {} well, 1 status 503", sent - 1));
        for _ in 0..MANY {
            wire.exchange(get("/poll"), OK);
        }
        wire.exchange(get("/poll"), BUSY);
        for _ in 0..MANY {
            wire.exchange(get("/poll"), OK);
        }
        // An attempt that says so is one.
        let mut wire = stage.wire(format!(
            "{} sent, {MANY} well, 1 status 503, 1 retries",
            MANY + 1
        ));
        for _ in 0..MANY - 1 {
            wire.exchange(get("/poll"), OK);
        }
        wire.exchange(get("/poll"), BUSY);
        let again = get("/poll").replace("\r\n\r\n", "\r\nX-Envoy-Attempt-Count: 2\r\n\r\n");
        wire.exchange(again, OK);
    });
}

#[test]
fn a_calm_request_that_is_never_answered_is_seen() {
    on_stage(|stage| {
        for kind in ["noAnswer", "reset"] {
            let mut wire = stage.wire(format!("{} sent, {MANY} well, 1 {kind}", MANY + 1));
            for _ in 0..MANY {
                wire.exchange(get("/poll"), OK);
            }
            wire.say(&[get("/poll")]);
            if kind == "reset" {
                reset(&wire);
            }
            drop(wire.server);
            sleep(A_WHILE);
        }
        let mut wire = stage.wire(format!("{MANY} well, 1 reset"));
        for _ in 0..MANY {
            wire.exchange([1, 2, 3], [4, 5, 6]);
        }
        wire.say(&[[1, 2, 3]]);
        reset(&wire);
        drop(wire.server);
        sleep(A_WHILE);
    });
}

#[test]
fn what_differs_among_calm_requests_is_read() {
    on_stage(|stage| {
        let sent = 4 * MANY;
        let mut wire = stage.wire(format!("{sent} sent, {sent} well"));
        let body = "POST /o HTTP/1.1\r\nHost: shop\r\nContent-Length: 4\r\n\r\n";
        let halves = [body, "abcd"];
        for round in 0..MANY {
            wire.exchange(get("/poll"), OK);
            wire.exchange(get("/poll"), OK);
            wire.exchange(get(&format!("/{}", round / 9)), OK);
            wire.say(&halves[..]);
            wire.answer(&[OK]);
        }
        // Cut where nothing is known yet, and another status that is as good.
        let sent = 3 * MANY;
        let mut wire = stage.wire(format!("{sent} sent, {sent} well"));
        for round in 0..MANY {
            wire.exchange(get("/poll"), OK);
            wire.say(&[get("/poll")]);
            let (begin, rest) = OK.split_at(round % (OK.len() - 1) + 1);
            wire.answer(&[begin, rest]);
            let none = "HTTP/1.1 204 No Content\r\n\r\n";
            wire.exchange(get("/poll"), if round % 20 < 10 { none } else { OK });
        }
        // Interim answers are none.
        let mut wire = stage.wire(format!("{MANY} sent, {MANY} well"));
        for round in 0..MANY {
            wire.say(&[get("/poll")]);
            if round % 10 == 9 {
                wire.answer(&["HTTP/1.1 103 Early Hints\r\n\r\n"]);
            }
            wire.answer(&[OK]);
        }
    });
}

#[test]
fn pipelined_among_calm_requests_pass_unread() {
    on_stage(|stage| {
        let sent = MANY + 1;
        let mut wire = stage.wire(format!("{sent} sent, 1 unread, {} well", sent + 1));
        for _ in 0..MANY {
            wire.exchange(get("/poll"), OK);
        }
        wire.say(&[get("/poll"), get("/poll")]);
        wire.answer(&[OK, OK]);
        wire.exchange(get("/poll"), OK);
    });
}
