//! Segments that are lost, sent again, or come in another order.

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

use governor_tests::nft::Loss;

use super::{BUSY, OK, get, on_stage};

/// Less than the first retransmission takes, 200 ms.
const SOON: Duration = Duration::from_millis(20);

#[test]
fn a_request_that_is_sent_again_is_one() {
    on_stage(|stage| {
        let mut wire = stage.wire("5 sent, 5 well");
        let netns = stage.lab.netns();
        wire.exchange(get("/1"), OK);
        // Lost whole.
        let lost = Loss::to(netns, wire.port());
        wire.caller.write_all(get("/2").as_bytes()).unwrap();
        sleep(SOON);
        drop(lost);
        wire.server
            .read_exact(&mut vec![0; get("/2").len()])
            .unwrap();
        wire.answer(&[OK]);
        // Lost in two parts, which TCP sends again as one, and the rest behind it.
        let request = get("/3");
        let (one, two) = request.split_at(20);
        let (two, three) = two.split_at(10);
        let lost = Loss::to(netns, wire.port());
        wire.caller.write_all(one.as_bytes()).unwrap();
        wire.caller.write_all(two.as_bytes()).unwrap();
        sleep(SOON);
        drop(lost);
        wire.caller.write_all(three.as_bytes()).unwrap();
        wire.server.read_exact(&mut vec![0; request.len()]).unwrap();
        wire.answer(&[OK]);
        // The first part is lost, the second is not.
        let lost = Loss::to(netns, wire.port());
        wire.caller.write_all(one.as_bytes()).unwrap();
        sleep(SOON);
        drop(lost);
        wire.caller.write_all(two.as_bytes()).unwrap();
        wire.caller.write_all(three.as_bytes()).unwrap();
        wire.server.read_exact(&mut vec![0; request.len()]).unwrap();
        wire.answer(&[OK]);
        wire.exchange(get("/5"), OK);
    });
}

#[test]
fn an_answer_that_is_sent_again_is_one() {
    on_stage(|stage| {
        let mut wire = stage.wire("3 sent, 2 well, 1 status 503");
        let netns = stage.lab.netns();
        for (path, answer) in [("/1", OK), ("/2", BUSY), ("/3", OK)] {
            wire.say(&[get(path)]);
            let lost = Loss::from(netns, wire.port());
            wire.server.write_all(answer.as_bytes()).unwrap();
            sleep(SOON);
            drop(lost);
            wire.caller.read_exact(&mut vec![0; answer.len()]).unwrap();
        }
    });
}

/// On a new connection nothing was heard before: where its first answer begins must be known all the same.
#[test]
fn an_answer_in_another_order_is_read_also_the_first_on_a_connection() {
    let long = "HTTP/1.1 503 Service Unavailable\r\nServer: a-long-name-of-a-server\r\nContent-Length: 9\r\n\r\ntry later";
    on_stage(|stage| {
        let netns = stage.lab.netns();
        for cut in [14, 40, long.len() - 9, long.len() - 4] {
            let mut wire = stage.wire("4 sent, 2 well, 2 status 503");
            for round in 0..2 {
                wire.say(&[get(&format!("/{round}"))]);
                let (begin, rest) = long.split_at(cut);
                let lost = Loss::from(netns, wire.port());
                wire.server.write_all(begin.as_bytes()).unwrap();
                sleep(SOON);
                drop(lost);
                wire.server.write_all(rest.as_bytes()).unwrap();
                wire.caller.read_exact(&mut vec![0; long.len()]).unwrap();
                wire.exchange(get(&format!("/well/{round}")), OK);
            }
        }
    });
}
