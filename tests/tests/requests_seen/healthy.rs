//! I3, for requests: where nothing fails nothing is denied, nor would be, whatever it looks like.

use std::thread::sleep;
use std::time::Duration;

use governor_tests::governed::PolicyFile;

use super::{OK, Stage, get, on_stage_of};

/// `count` requests that are all the same, and their answers.
fn repeats(stage: &Stage<'_>, count: usize, request: &str, answer: &str) {
    let mut wire = stage.wire(format!("{count} sent, {count} well"));
    for _ in 0..count {
        wire.exchange(request, answer);
    }
}

fn calm(stage: &Stage<'_>) {
    // A pool, each of whose requests is another.
    let mut pool = stage.wires(30, "600 sent, 600 well");
    for round in 0..20 {
        for (number, wire) in pool.iter_mut().enumerate() {
            wire.exchange(get(&format!("/{round}/{number}")), OK);
        }
    }
    // Bursts of the same one, all outstanding at once.
    let mut pool = stage.wires(30, "150 sent, 150 well");
    for _ in 0..5 {
        for wire in &mut pool {
            wire.say(&[get("/hot")]);
        }
        for wire in &mut pool {
            wire.answer(&[OK]);
        }
    }
    // Slow answers.
    let mut pool = stage.wires(20, "40 sent, 40 well");
    for _ in 0..2 {
        for wire in &mut pool {
            wire.say(&[get("/slow")]);
        }
        sleep(Duration::from_millis(700));
        for wire in &mut pool {
            wire.answer(&[OK]);
        }
    }
    // Pollers, races, locks.
    repeats(stage, 300, &get("/status"), OK);
    let put = "PUT /thing HTTP/1.1\r\nHost: shop\r\nIf-Match: \"1\"\r\nContent-Length: 2\r\n\r\n{}";
    let post = "POST /lock HTTP/1.1\r\nHost: shop\r\nContent-Length: 2\r\n\r\n{}";
    for (status, request) in [(404, &*get("/thing")), (412, put), (409, post), (423, post)] {
        let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno");
        repeats(stage, 100, request, &answer);
    }
    // The same operation again after it went well.
    let keyed =
        "POST /pay HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: 1\r\nContent-Length: 2\r\n\r\n{}";
    repeats(stage, 50, keyed, OK);
}

#[test]
fn calm_traffic_is_never_denied() {
    on_stage_of(&PolicyFile::enforce(""), calm);
}

#[test]
fn audit_has_nothing_against_calm_traffic() {
    on_stage_of(&PolicyFile::audit(""), calm);
}
