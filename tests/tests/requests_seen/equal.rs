//! Equal requests: a retry after an answer that will not change, a poller, a hedge.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::outcomes::A_WHILE;
use super::{OK, get, on_stage};

const FORM: &str = "POST /form HTTP/1.1\r\nHost: shop\r\nContent-Length: 2\r\n\r\n{}";
const WRONG: &str = "HTTP/1.1 422 Wrong\r\nContent-Length: 0\r\n\r\n";
/// So long after the answer an equal request is refused; and a little more.
const SECOND: Duration = Duration::from_millis(1_050);

#[test]
fn what_was_told_that_it_is_wrong_is_refused_for_a_second_and_once() {
    on_stage(|stage| {
        let mut pool = stage.wires(3, "23 sent, 23 well, 1 denied notRetryable");
        let (mut wire, retry, mut poller) = (pool.remove(0), pool.remove(0), pool.remove(0));
        for number in 0..20 {
            wire.exchange(get(&format!("/{number}")), OK);
        }
        wire.exchange(FORM, WRONG);
        let answered = Instant::now();
        let heard = retry.refused(FORM);
        assert!(
            heard.contains("x-retry-governor: not-retryable\r\n"),
            "{heard:?}"
        );
        sleep(SECOND.saturating_sub(answered.elapsed()));
        wire.exchange(FORM, WRONG);
        // It came by itself, and may come as often as it likes.
        poller.exchange(FORM, WRONG);
    });
}

#[test]
fn a_hedge_that_is_not_needed_any_more_is_no_failure() {
    on_stage(|stage| {
        // The one that was sent first, then the other.
        for answered in [0, 1] {
            let mut pair = stage.wires(2, "2 sent, 1 well");
            for wire in &mut pair {
                wire.say(&[get("/1")]);
            }
            sleep(A_WHILE);
            pair[answered].answer(&[OK]);
            drop(pair.remove(1 - answered).caller);
        }
        // On a hot target someone is always answered.
        let mut all = stage.wires(4, "4 sent, 3 well, 1 timeout");
        let mut late = all.remove(3);
        for wire in &mut all[..2] {
            wire.exchange(get("/1"), OK);
        }
        all[2].say(&[get("/1")]);
        late.say(&[get("/1")]);
        sleep(A_WHILE);
        all[2].answer(&[OK]);
        drop(late.caller);
    });
}
