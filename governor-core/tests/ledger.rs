//! What ledgers remember.

mod common;

use std::sync::atomic::Ordering::SeqCst;

use common::{Node, at};
use governor_core::params::Params;
use governor_core::verdict::Outcome;

/// A pool of connections to a database makes no attempt for hours; collected for
/// unused, its ledgers would begin anew every minute.
#[test]
fn an_answer_on_an_old_connection_is_a_use_of_its_ledgers() {
    const HOUR: u64 = 3_600_000;
    for outcome in [Outcome::Success, Outcome::NoAnswer, Outcome::Cancelled] {
        let node = Node::new(Params::DEFAULT, 1);
        let going = node.first(0, at(0)).expect("nothing has failed yet");
        node.end(going, at(HOUR), outcome);
        let l = node.ledgers(0);
        let touched = [
            l.endpoint.touched.load(SeqCst),
            l.workload.touched.load(SeqCst),
            l.destination.touched.load(SeqCst),
        ];
        assert_eq!(touched, [at(HOUR).stamp().0; 3], "{outcome:?}");
    }
}
