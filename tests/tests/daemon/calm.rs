//! Connections that are used without a pause, under a daemon: what they do is told late, and what is
//! ordered or goes wrong meanwhile counts for them at once.

use std::net::{TcpListener, TcpStream};

use governor_tests::dial::Dialler;

use super::*;

const POLL: &[u8] = b"GET /poll HTTP/1.1\r\nHost: shop\r\nUser-Agent: till\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

/// Both ends of a kept connection.
struct Pair {
    caller: TcpStream,
    server: TcpStream,
}

impl Pair {
    fn new(lab: &Lab, callers: &Dialler, listener: &TcpListener) -> Self {
        let caller = callers.connect(lab.address(PORT));
        let (server, _) = listener.accept().expect("a connection");
        for end in [&caller, &server] {
            end.set_nodelay(true).expect("a live socket");
            end.set_read_timeout(Some(LIMIT)).expect("a live socket");
        }
        Self { caller, server }
    }

    fn exchange(&mut self, answer: &[u8]) {
        self.caller.write_all(POLL).expect("it is sent");
        self.server
            .read_exact(&mut [0; POLL.len()])
            .expect("it arrives");
        self.server.write_all(answer).expect("it is answered");
        let mut heard = vec![0; answer.len()];
        self.caller.read_exact(&mut heard).expect("that arrives");
    }

    fn many(&mut self) {
        for _ in 0..MANY {
            self.exchange(OK);
        }
    }

    /// What the caller hears of one more request that does not reach the server.
    fn refused(mut self) -> String {
        self.caller.write_all(POLL).expect("it is sent");
        let mut heard = String::new();
        self.caller
            .read_to_string(&mut heard)
            .expect("it is answered");
        heard
    }
}

const MANY: usize = 400;

fn sent(node: &Node<'_>) -> u64 {
    let status = node.status();
    let requests = &destination_of(&status, "auth")["requests"]["sent"];
    requests.as_u64().expect("a count")
}

fn on_a_node(work: impl FnOnce(&Node<'_>, Pair, Pair)) {
    let lab = Lab::new();
    let node = Node::new(&lab);
    node.write_policy("auth.yaml", ENFORCE);
    let _daemon = node.start_daemon();
    let listener = lab
        .netns()
        .run(|| TcpListener::bind(lab.address(PORT)))
        .expect("a free port");
    let callers = Dialler::start(&lab.place());
    let pairs = [(); 2].map(|()| Pair::new(&lab, &callers, &listener));
    let [one, other] = pairs;
    work(&node, one, other);
}

#[test]
fn the_last_exchanges_of_a_connection_that_falls_idle_are_told_with_its_end() {
    on_a_node(|node, mut one, other| {
        one.many();
        let told = sent(node);
        // Else nothing here was calm, and the tests below show nothing.
        assert!((3..MANY as u64).contains(&told), "{told} were told");
        assert!(told + 255 >= MANY as u64, "{told} were told");
        drop((one, other));
        eventually("all are told", || sent(node) == MANY as u64);
        let status = node.status();
        let destination = destination_of(&status, "auth");
        assert_eq!(destination["successes"], MANY as u64, "{destination}");
        eventually("nothing is in flight", || {
            destination_of(&node.status(), "auth")["concurrency"]["inFlight"] == 0
        });
    });
}

#[test]
fn an_order_counts_for_the_next_exchange_of_a_calm_connection() {
    on_a_node(|node, mut one, mut other| {
        one.many();
        other.many();
        let shed = ["shed", "100", "--destination", "auth", "--for", "1m"];
        node.ctl(shed).expect_success();
        for pair in [one, other] {
            let heard = pair.refused();
            assert!(heard.contains("x-retry-governor: shed"), "{heard}");
        }
    });
}

#[test]
fn a_failure_on_one_connection_is_known_on_the_others_at_once() {
    on_a_node(|node, mut one, mut other| {
        one.many();
        other.many();
        let before = sent(node);
        other.exchange(BUSY);
        // From now on each of them is settled when it ends.
        one.many();
        assert_eq!(sent(node), 3 * MANY as u64 + 1, "{before} before it");
    });
}
