//! Requests that are refused: by filters of clsact, as this kernel knows no TCX.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::dial::{Dialler, under_exec};
use governor_tests::governed::PolicyFile;

use crate::report::{Checks, remark};
use crate::wire::{BUSY, Fate, OK, PORT, Pair, Wire};

/// Each with a target of its own: an equal request is then known for a retry.
const HEALTHY: usize = 40;
/// More than a tenth of the healthy ones, and the whole reserve of an interval.
const RETRIES: usize = 40;
/// As many failures as open a breaker after so long without a success.
const CALLERS: usize = 20;
const SILENCE: Duration = Duration::from_millis(2_200);
/// Emulated; on a real machine it is microseconds.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Runs the checks.
pub fn check(checks: &mut Checks, wire: &Wire) {
    checks.check(
        "retries beyond the budget are answered 503 on lo and over a wire, their servers reset",
        || budget(wire),
    );
    checks.check(
        "while a breaker is open requests on live connections are answered 503",
        || breaker(wire),
    );
}

fn get(number: usize) -> String {
    format!("GET /orders/{number} HTTP/1.1\r\nHost: shop\r\nUser-Agent: till\r\n\r\n")
}

fn refusal(why: &str) -> Fate {
    Fate::Refused(format!(
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\
         Retry-After:   1\r\nx-retry-governor: {why}\r\n\r\n"
    ))
}

fn budget(wire: &Wire) {
    let spec = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}";
    let policy = PolicyFile::enforce(spec);
    let [v4, v6] = wire.addresses();
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let options = ["--policy", &policy.path()];
    let (all, executed) = under_exec(&wire.lab, &options, |callers| {
        [loopback, v4, v6].map(|address| (address, beyond_the_budget(wire, callers, address)))
    });
    for (address, reached) in all {
        let seen = executed.destination(&address.to_string());
        assert_eq!(seen["denied"]["budget"], 1, "{seen}");
        assert_eq!(seen["retries"], reached, "{seen}");
        let sent = HEALTHY + 2 * reached + 1;
        assert_eq!(seen["requests"]["sent"], sent, "{seen}");
    }
}

/// Healthy operations, then ones whose first try fails and that are tried again at once; how many
/// of these retries passed before one was refused.
fn beyond_the_budget(wire: &Wire, callers: &Dialler, address: SocketAddr) -> usize {
    let listener = wire.listen(address.ip());
    let mut pair = Pair::new(callers, &listener, address);
    for number in 0..HEALTHY {
        assert_eq!(pair.send(&get(number)), Fate::Reached);
        pair.answer(OK);
    }
    for reached in 0..RETRIES {
        let request = get(HEALTHY + reached);
        assert_eq!(pair.send(&request), Fate::Reached, "a first try");
        pair.answer(BUSY);
        let started = Instant::now();
        let fate = pair.send(&request);
        if fate == Fate::Reached {
            pair.answer(OK);
            continue;
        }
        let took = started.elapsed();
        assert_eq!(fate, refusal("budget"));
        assert!(took < AT_ONCE, "{took:?}");
        remark(format_args!(
            "{address}: {reached} retries passed, the next was refused in {took:?}"
        ));
        return reached;
    }
    panic!("no retry of {RETRIES} was refused");
}

/// Connections that are open already, and nothing but failures on them. That they were opened is a
/// success, so the breaker opens once that is long enough ago.
fn breaker(wire: &Wire) {
    // For long, so that none is let through as a probe on a slow machine.
    let spec = "circuitBreaker: {openDuration: {base: 5s, max: 5s}}, concurrency: {mode: Disabled}";
    let policy = PolicyFile::enforce(spec);
    let [address, _] = wire.addresses();
    let options = ["--policy", &policy.path()];
    let ((), executed) = under_exec(&wire.lab, &options, |callers| {
        let listener = wire.listen(address.ip());
        let pair = |_| Pair::new(callers, &listener, address);
        let mut pairs: Vec<_> = (0..CALLERS).map(pair).collect();
        thread::sleep(SILENCE);
        for (number, pair) in pairs.iter_mut().enumerate() {
            assert_eq!(pair.send(&get(number)), Fate::Reached);
            pair.answer(BUSY);
        }
        // Of a connection, the first request is paid for by its connect.
        for (number, pair) in pairs.iter_mut().enumerate() {
            assert_eq!(pair.send(&get(CALLERS + number)), refusal("breaker"));
        }
    });
    let seen = executed.destination(&address.to_string());
    assert_eq!(seen["denied"]["breaker"], CALLERS, "{seen}");
}
