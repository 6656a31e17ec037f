//! A refused request, carried out by the programs of tc: what its caller hears, what its server
//! hears, and that nothing is left of the connection.

#![expect(
    clippy::unwrap_used,
    reason = "what a test needs and cannot have fails it"
)]

mod clients;
#[path = "../kernel/mod.rs"]
mod kernel;
mod pacing;
mod path;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};
use bytemuck::Zeroable;
use governor_core::key::loss;
use governor_core::record::{Record, flag};
use governor_core::verdict::Reason;
use governor_tests::sockets::connections_of;
use kernel::executor::{Means, refusal};
use path::{Address, Connection, Hole, Path, Way};

const REQUEST: &[u8] = b"GET /orders HTTP/1.1\r\nHost: shop\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Unnoticed on a quiet machine; less than the first retransmission of a lost packet.
const AT_ONCE: Duration = Duration::from_millis(150);
/// An emulated machine is slow to let answers through again, and TCP waits twice as long each time.
const AT_LAST: Duration = Duration::from_secs(5);
const EVERYWHERE: [(Way, Address); 14] = [
    (Way::Loopback, Address::V4),
    (Way::Loopback, Address::V6),
    (Way::Pod, Address::V4),
    (Way::Pod, Address::V6),
    (Way::Pod, Address::ServiceV4),
    (Way::Pod, Address::ServiceV6),
    (Way::Pod, Address::OwnServiceV4),
    (Way::Pod, Address::OwnServiceV6),
    (Way::Host, Address::V4),
    (Way::Host, Address::V6),
    (Way::Host, Address::ServiceV4),
    (Way::Host, Address::ServiceV6),
    (Way::Host, Address::OwnServiceV4),
    (Way::Host, Address::OwnServiceV6),
];

fn answer(why: &str, seconds: u32) -> String {
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\
         Retry-After: {seconds:>3}\r\nx-retry-governor: {why}\r\n\r\n"
    )
}

impl Connection {
    /// A request and its answer, as between friends.
    fn exchange(&mut self) {
        self.caller.write_all(REQUEST).unwrap();
        let mut request = [0; REQUEST.len()];
        self.server.read_exact(&mut request).unwrap();
        self.server.write_all(ANSWER).unwrap();
        let mut answer = [0; ANSWER.len()];
        self.caller.read_exact(&mut answer).unwrap();
        assert_eq!(answer, ANSWER);
    }

    /// All that the caller hears until the end of the connection.
    fn heard(&mut self) -> String {
        let mut heard = String::new();
        self.caller.read_to_string(&mut heard).unwrap();
        heard
    }

    /// What reached the server before it was reset.
    fn reached(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let error = self.server.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        bytes
    }

    /// Closes both ends; within a moment the kernel knows nothing of it.
    fn vanishes(self, path: &Path, address: Address) {
        let port = path.addresses(address).1.port();
        drop(self);
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let mut left = connections_of(&path.caller, port);
            left.extend(connections_of(
                path.server(),
                path.addresses(address).0.port(),
            ));
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{left:?}");
            sleep(Duration::from_millis(5));
        }
    }
}

/// What became of a refused request.
struct Refused {
    heard: String,
    took: Duration,
}

/// Refuses `request` on a connection that was used before.
fn refused(path: &mut Path, address: Address, record: &Record, request: &[u8]) -> Refused {
    let mut connection = path.connect(address);
    connection.exchange();
    assert!(path.executor.record(&connection.caller).has(flag::REACHED));
    path.executor.refuse(&connection.caller, record);
    let started = Instant::now();
    connection.caller.write_all(request).unwrap();
    let heard = connection.heard();
    let took = started.elapsed();
    assert!(path.executor.record(&connection.caller).has(flag::REPLIED));
    assert_eq!(connection.reached(), b"");
    connection.vanishes(path, address);
    well(path);
    Refused { heard, took }
}

/// Nothing went wrong in the programs, and no packet was strange to the router.
fn well(path: &Path) {
    assert_eq!(path.executor.kernel().losses(loss::NOT_ANSWERED), 0);
    assert_eq!(path.invalid(), 0);
}

fn post(length: usize) -> Vec<u8> {
    let head = format!("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: {length}\r\n\r\n");
    let mut request = head.into_bytes();
    // A body of requests: none of them is one.
    request.extend(REQUEST.iter().cycle().take(length));
    request
}

#[test]
fn a_refused_request_is_answered_503_wherever_it_is_met() {
    for &means in Means::of_this_kernel() {
        for (way, address) in EVERYWHERE {
            let mut path = Path::new(way, means);
            let record = refusal(Reason::Budget, 1);
            let Refused { heard, took } = refused(&mut path, address, &record, REQUEST);
            println!("{means:?} {way:?} {address:?}: {took:?}");
            assert_eq!(heard, answer("budget", 1), "{way:?} {address:?}");
            assert!(took < AT_ONCE, "{way:?} {address:?}: {took:?}");
        }
    }
}

#[test]
fn the_answer_says_why_and_when_to_come_back() {
    let mut path = Path::new(Way::Loopback, Means::usual());
    for (reason, seconds, why) in [
        (Reason::Breaker, 5, "breaker"),
        (Reason::RetryAfter, 30, "retry-after"),
        (Reason::NotRetryable, 120, "not-retryable"),
        (Reason::Shed, 0, "shed"),
    ] {
        let record = refusal(reason, seconds);
        let Refused { heard, .. } = refused(&mut path, Address::V4, &record, REQUEST);
        assert_eq!(heard, answer(why, seconds));
    }
}

#[test]
fn a_request_with_a_large_body_is_answered_once_and_none_of_it_arrives() {
    for (way, address) in EVERYWHERE {
        let mut path = Path::new(way, Means::usual());
        for length in [3_000, 200_000, 5_000_000] {
            let record = refusal(Reason::Concurrency, 1);
            let Refused { heard, took } = refused(&mut path, address, &record, &post(length));
            println!("{way:?} {address:?} {length} bytes: {took:?}");
            assert_eq!(
                heard,
                answer("concurrency", 1),
                "{way:?} {address:?} {length}"
            );
        }
    }
}

/// As curl and http.client do it. What follows the refused segment is not forwarded.
#[test]
fn a_body_that_follows_its_head_by_itself_does_not_arrive_either() {
    for (way, address) in EVERYWHERE {
        let mut path = Path::new(way, Means::usual());
        let mut connection = path.connect(address);
        let record = refusal(Reason::Budget, 1);
        path.executor.refuse(&connection.caller, &record);
        let request = post(200_000);
        let (head, body) = request.split_at(request.len() - 200_000);
        connection.caller.write_all(head).unwrap();
        // The answer is here by now, and the caller has not looked.
        sleep(Duration::from_millis(20));
        connection.caller.write_all(body).unwrap();
        assert_eq!(connection.heard(), answer("budget", 1));
        assert_eq!(connection.reached(), b"");
        connection.vanishes(&path, address);
        well(&path);
    }
}

/// Its head comes in pieces: judged when the last one is here, the others are with the server.
#[test]
fn a_request_in_pieces_is_refused_at_its_last_one() {
    for (way, address) in EVERYWHERE {
        let mut path = Path::new(way, Means::usual());
        let mut connection = path.connect(address);
        let (first, rest) = REQUEST.split_at(9);
        connection.caller.write_all(first).unwrap();
        let mut arrived = [0; 9];
        connection.server.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, first);
        let record = refusal(Reason::Attempts, 1);
        path.executor.refuse(&connection.caller, &record);
        connection.caller.write_all(rest).unwrap();
        assert_eq!(connection.heard(), answer("attempts", 1));
        assert_eq!(connection.reached(), b"");
        connection.vanishes(&path, address);
        well(&path);
    }
}

/// As a rule a checksum is left to the device; else those of what is made must be right.
#[test]
fn where_checksums_are_complete_those_of_an_answer_are_right() {
    for (way, address) in EVERYWHERE {
        if way == Way::Loopback {
            continue;
        }
        let mut path = Path::new(way, Means::usual());
        path.complete_checksums();
        for request in [REQUEST.to_vec(), post(3_000), post(200_000)] {
            let record = refusal(Reason::Deadline, 20);
            let Refused { heard, took } = refused(&mut path, address, &record, &request);
            assert_eq!(heard, answer("deadline", 20), "{way:?} {address:?}");
            assert!(took < AT_ONCE, "{way:?} {address:?}: {took:?}");
        }
    }
}

#[test]
fn an_answer_that_is_lost_is_given_again() {
    for (way, address) in EVERYWHERE {
        let mut path = Path::new(way, Means::usual());
        let mut connection = path.connect(address);
        let record = refusal(Reason::Budget, 1);
        path.executor.refuse(&connection.caller, &record);
        let hole = Hole::for_answers(&path.caller);
        let started = Instant::now();
        connection.caller.write_all(REQUEST).unwrap();
        sleep(Duration::from_millis(50));
        drop(hole);
        assert_eq!(connection.heard(), answer("budget", 1));
        let took = started.elapsed();
        println!("{way:?} {address:?}: {took:?}");
        assert!(took > AT_ONCE && took < AT_LAST, "{took:?}");
        assert_eq!(connection.reached(), b"");
        connection.vanishes(&path, address);
        well(&path);
    }
}

#[test]
fn a_caller_that_loops_is_answered_at_its_retransmission() {
    for &means in Means::of_this_kernel() {
        for (way, address) in EVERYWHERE {
            let mut path = Path::new(way, means);
            for request in [REQUEST.to_vec(), post(200_000)] {
                let mut record = refusal(Reason::Budget, 1);
                record.flags |= flag::LATE;
                let Refused { heard, took } = refused(&mut path, address, &record, &request);
                println!(
                    "{means:?} {way:?} {address:?}, {} bytes: {took:?}",
                    request.len()
                );
                assert_eq!(heard, answer("budget", 1), "{way:?} {address:?}");
                assert!(took < Duration::from_secs(1), "{took:?}");
                assert!(took > AT_ONCE, "{way:?} {address:?}: {took:?}");
            }
        }
    }
}

#[test]
fn where_a_policy_says_so_both_ends_are_reset() {
    for (way, address) in EVERYWHERE {
        let mut path = Path::new(way, Means::usual());
        for request in [REQUEST.to_vec(), post(200_000)] {
            let mut connection = path.connect(address);
            let mut record = refusal(Reason::Budget, 1);
            record.flags |= flag::RESET;
            path.executor.refuse(&connection.caller, &record);
            // Writing may meet the reset, too.
            let written = connection.caller.write_all(&request);
            let error = written
                .and_then(|()| connection.caller.read(&mut [0; 1]))
                .unwrap_err();
            let reset = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(reset.contains(&error.kind()), "{error}");
            assert_eq!(connection.reached(), b"");
            connection.vanishes(&path, address);
            well(&path);
        }
    }
}

#[test]
fn what_is_not_refused_passes_unchanged() {
    for (way, address) in EVERYWHERE {
        let mut path = Path::new(way, Means::usual());
        let mut connection = path.connect(address);
        for _ in 0..3 {
            connection.exchange();
        }
        let request = post(200_000);
        let server = connection.server.try_clone().unwrap();
        let arrived = thread::spawn(move || {
            let mut arrived = Vec::new();
            (&server).read_to_end(&mut arrived).unwrap();
            arrived
        });
        connection.caller.write_all(&request).unwrap();
        connection.caller.shutdown(Shutdown::Write).unwrap();
        assert_eq!(arrived.join().unwrap(), request);
        assert!(!path.executor.record(&connection.caller).has(flag::REPLIED));
        well(&path);
    }
}

#[test]
fn a_socket_that_nobody_governs_is_left_alone() {
    for (way, address) in EVERYWHERE {
        let path = Path::new(way, Means::usual());
        let mut connection = path.dial(address);
        connection.exchange();
        assert_eq!(path.executor.record(&connection.caller), Record::zeroed());
    }
}

/// On lo a packet keeps what NAT knows of it, and an answer made of it would be translated like a
/// packet to the server. So it counts as out of reach, and nothing is refused there.
#[test]
fn a_caller_whose_own_namespace_translates_to_loopback_is_out_of_reach() {
    for address in [Address::OwnServiceV4, Address::OwnServiceV6] {
        let mut path = Path::new(Way::Loopback, Means::usual());
        let mut connection = path.connect(address);
        connection.exchange();
        assert!(!path.executor.record(&connection.caller).has(flag::REACHED));
    }
}

/// Whoever is attached behind us sees what passes, and the reset in place of what was refused.
#[test]
fn other_programs_on_the_same_hook_still_run() {
    let _counting = enable_stats(Stats::RunTime).unwrap();
    for &means in Means::of_this_kernel() {
        for (way, address) in EVERYWHERE {
            let mut path = Path::new(way, means);
            let witness = path.witness(means);
            let mut connection = path.connect(address);
            let before = witness.seen();
            connection.exchange();
            let exchanged = witness.seen();
            assert!(exchanged > before, "{means:?} {way:?}");
            path.executor
                .refuse(&connection.caller, &refusal(Reason::Budget, 1));
            connection.caller.write_all(REQUEST).unwrap();
            assert_eq!(connection.heard(), answer("budget", 1));
            assert_eq!(connection.reached(), b"");
            assert!(witness.seen() > exchanged, "{means:?} {way:?}");
        }
    }
}
