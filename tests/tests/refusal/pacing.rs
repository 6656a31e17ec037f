//! A request that is to be held back is not, where the device's queue keeps no times. Where it does
//! (fq), `cargo xtask vmtest` looks: Debian's kernel has one.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::{post, well};
use crate::kernel::executor::{Means, retransmissions};
use crate::path::{Address, Path, Way};

/// Shorter than the least time after which TCP sends again what is not acknowledged, 200 ms.
const DELAY: Duration = Duration::from_millis(120);

/// A large request in two writes, held back as it leaves; how long its first byte took.
fn held_back(path: &mut Path, address: Address) -> Duration {
    let mut connection = path.connect(address);
    connection.exchange();
    let request = post(60_000);
    let (head, body) = request.split_at(request.len() - 60_000);
    path.executor.hold(&connection.caller, DELAY);
    let started = Instant::now();
    connection.caller.write_all(head).unwrap();
    connection.caller.write_all(body).unwrap();
    let mut arrived = vec![0; request.len()];
    connection.server.read_exact(&mut arrived[..1]).unwrap();
    let took = started.elapsed();
    connection.server.read_exact(&mut arrived[1..]).unwrap();
    assert_eq!(arrived, request);
    // One that overtakes another looks like a loss.
    assert_eq!(retransmissions(&connection.caller), 0);
    // What comes later is not held back.
    path.executor.hold(&connection.caller, Duration::ZERO);
    let started = Instant::now();
    connection.exchange();
    assert!(started.elapsed() < DELAY);
    well(path);
    took
}

#[test]
fn where_the_queue_keeps_no_times_nothing_is_held_back() {
    for way in [Way::Loopback, Way::Pod, Way::Host] {
        let mut path = Path::new(way, Means::usual());
        let took = held_back(&mut path, Address::V4);
        assert!(took < DELAY, "{way:?}: {took:?}");
    }
}
