//! Admitted retries are spread over time where the device's queue is `fq`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::dial::under_exec;
use governor_tests::governed::PolicyFile;
use governor_tests::governor::retry_governor;
use governor_tests::server::faults::Plan;
use governor_tests::server::faulty::FaultyServer;
use governor_tests::storm::wire::http_answer;
use serde_json::Value;

use crate::load::LIMIT;
use crate::machine::{out_of_order, sent_again};
use crate::report::{Checks, remark};
use crate::wire::{PORT, Wire};

/// An exchange takes some 10 ms here, emulated: little of this.
const MOST: Duration = Duration::from_secs(3);
const SPEC: &str = "retryConstraint: {mode: Disabled}, circuitBreaker: {mode: Disabled}, \
    concurrency: {mode: Disabled}, retry: {nonIdempotent: Allow}, pacing: {maxDelay: 3s}";
const CALLERS: usize = 100;
const ROUNDS: usize = 3;
/// What an issue asks for: no share of the retries takes a time that is off by more than this part
/// of the longest delay. Chance alone makes 300 of them exceed it once in 300,000 runs.
const TOLERANCE: f64 = 0.15;
const POSTS: usize = 20;
const BODY: usize = 60_000;

/// Runs the checks.
pub fn check(checks: &mut Checks, wire: &Wire) {
    checks.check(
        "doctor finds nothing missing, and that retries are paced",
        || doctor(wire),
    );
    checks.check(
        "admitted retries leave at times that are uniform over maxDelay, first tries at once",
        || spread(wire),
    );
    checks.check(
        "the segments of a large request that is held back keep their order",
        || in_order(wire),
    );
}

fn doctor(wire: &Wire) {
    let doctor = retry_governor(["doctor", "--json"]);
    let report = wire.lab.run(doctor, LIMIT).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let not_ok: Vec<_> = checks.iter().filter(|it| it["state"] != "Ok").collect();
    assert!(not_ok.is_empty(), "{not_ok:?}");
    let pacing = checks.iter().find(|it| it["check"] == "pacing");
    let pacing = pacing.expect("a line of its own");
    assert_eq!(pacing["found"], format!("fq: {}", wire.device()));
}

/// A try of an operation, which says itself how many there were before.
fn request(operation: usize, number: usize) -> String {
    format!(
        "GET /orders/{operation} HTTP/1.1\r\nHost: shop\r\nx-envoy-attempt-count: {number}\r\n\r\n"
    )
}

/// A request and its answer; how long that took.
fn exchange(stream: &mut TcpStream, request: &[&[u8]]) -> Duration {
    let started = Instant::now();
    for part in request {
        stream.write_all(part).expect("it is open");
    }
    let mut heard = Vec::new();
    let mut some = [0; 4096];
    loop {
        let length = stream.read(&mut some).expect("an answer");
        assert!(length > 0, "no answer");
        heard.extend_from_slice(&some[..length]);
        if let Some(answer) = http_answer(&heard) {
            assert_eq!(answer.status, 200);
            return started.elapsed();
        }
    }
}

/// What `work` measured on so many connections at a time, each of a thread of its own.
fn on_connections<T: Send>(
    wire: &Wire,
    count: usize,
    work: impl Fn(usize, TcpStream) -> T + Sync,
) -> Vec<T> {
    let [address, _]: [SocketAddr; 2] = wire.addresses();
    let _server = FaultyServer::start(&wire.elsewhere, PORT, Plan::healthy());
    let policy = PolicyFile::enforce(SPEC);
    let options = ["--policy", &policy.path()];
    let (measured, executed) = under_exec(&wire.lab, &options, |callers| {
        let connect = |_| {
            let stream = callers.connect(address);
            stream.set_read_timeout(Some(LIMIT)).expect("it is open");
            stream
        };
        let streams: Vec<_> = (0..count).map(connect).collect();
        thread::scope(|scope| {
            let start = |(number, stream)| {
                let work = &work;
                scope.spawn(move || work(number, stream))
            };
            let running: Vec<_> = streams.into_iter().enumerate().map(start).collect();
            let ended = running.into_iter().map(|it| it.join().expect("it ends"));
            ended.collect()
        })
    });
    let seen = executed.destination(&address.to_string());
    assert_eq!(seen["deniedFirstTries"], 0, "{seen}");
    measured
}

fn spread(wire: &Wire) {
    let measured = on_connections(wire, CALLERS, |number, mut stream| {
        // No choir.
        thread::sleep(MOST / CALLERS as u32 * number as u32);
        let tries = (0..ROUNDS).map(|round| {
            let operation = number * ROUNDS + round;
            let mut once = |number| exchange(&mut stream, &[request(operation, number).as_bytes()]);
            (once(1), once(2))
        });
        tries.collect::<Vec<_>>()
    });
    let (first, retries): (Vec<_>, Vec<_>) = measured.into_iter().flatten().unzip();
    let (first, retries) = (shares(first), shares(retries));
    let median = |of: &[f64]| of[of.len() / 2];
    let off = off_uniform(&retries);
    let deciles: Vec<_> = (1..10).map(|n| decile(&retries, n)).collect();
    remark(format_args!(
        "{} retries, deciles in parts of {MOST:?}: {deciles:.2?}; off by {off:.3} at most; \
         the median of first tries: {:.3}",
        retries.len(),
        median(&first)
    ));
    assert_eq!(retries.len(), CALLERS * ROUNDS);
    assert!(off < TOLERANCE, "off by {off}");
    assert!(median(&first) < TOLERANCE / 3.0, "{}", median(&first));
}

/// In order, as parts of the longest delay.
fn shares(of: Vec<Duration>) -> Vec<f64> {
    let mut shares: Vec<_> = of.iter().map(|it| it.div_duration_f64(MOST)).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

fn decile(sorted: &[f64], number: usize) -> f64 {
    sorted[sorted.len() * number / 10]
}

/// How far the largest gap is between what was measured and a uniform distribution
/// (Kolmogorov-Smirnov).
fn off_uniform(sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let gaps = sorted.iter().enumerate().map(|(rank, share)| {
        let (below, up_to) = (rank as f64 / count, (rank + 1) as f64 / count);
        (share - below).abs().max((share - up_to).abs())
    });
    gaps.fold(0.0, f64::max)
}

fn in_order(wire: &Wire) {
    let before = (
        wire.elsewhere.run(out_of_order),
        wire.lab.netns().run(sent_again),
    );
    let body = vec![b'x'; BODY];
    let took = on_connections(wire, POSTS, |number, mut stream| {
        exchange(&mut stream, &[request(number, 1).as_bytes()]);
        let head = format!(
            "POST /orders HTTP/1.1\r\nHost: shop\r\nx-envoy-attempt-count: 2\r\n\
             Idempotency-Key: {number}\r\nContent-Length: {BODY}\r\n\r\n"
        );
        exchange(&mut stream, &[head.as_bytes(), &body])
    });
    let took = shares(took);
    let out_of_order = wire.elsewhere.run(out_of_order) - before.0;
    let sent_again = wire.lab.netns().run(sent_again) - before.1;
    remark(format_args!(
        "{POSTS} POSTs of {BODY} bytes, held back for {:.2} to {:.2} of {MOST:?}: \
         {out_of_order} segments out of order, {sent_again} sent again",
        took[0],
        took[POSTS - 1]
    ));
    // Half of them as good as never leave in the first fifth.
    assert!(decile(&took, 5) > 0.2, "{took:.2?}");
    // After 200 ms without an answer TCP takes what still waits in the queue for lost, and sends
    // its second segment again once the first has left.
    assert!(sent_again <= POSTS as u64, "{sent_again}");
    // On a busy machine one of those may overtake; were only the first segment of each held
    // back, all the others would come before it.
    let overtakes = sent_again.min(POSTS as u64 / 10);
    assert!(out_of_order <= overtakes, "{out_of_order} of {sent_again}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_uniform_is_told_from_what_is_not() {
        let even: Vec<_> = (0..500).map(|n| f64::from(n) / 500.0).collect();
        assert!(off_uniform(&even) < 0.01);
        let halved: Vec<_> = even.iter().map(|share| share / 2.0).collect();
        assert!(off_uniform(&halved) > 0.49);
        // A third leaves at once.
        let hasty: Vec<_> = even
            .iter()
            .map(|share| (share * 1.5 - 0.5).max(0.0))
            .collect();
        assert!(off_uniform(&hasty) > 0.3);
    }
}
