//! The law in the kernel under load: at any number of CPUs, through real connects, and where attempts
//! never report.

mod kernel;

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use governor_core::breaker::{Move, State};
use governor_core::event::kind;
use governor_core::evidence::Evidence;
use governor_core::judge::Decision;
use governor_core::key::{EndpointKey, loss, map};
use governor_core::ledger::{EndpointLedger, count};
use governor_core::params::{Params, concurrency};
use governor_core::trace::Step;
use governor_core::units::Nanos;
use governor_core::verdict::Outcome;
use governor_tests::lab::Lab;
use governor_tests::server::Behaviour;
use governor_tests::storm::exchange::Speech;
use governor_tests::storm::report::{Outcome as Seen, Report};
use kernel::gate::Gate;
use kernel::hammer::{Run, hammer};
use kernel::spending::{BUDGET_ALONE, Log, RESERVE, attempt, end_of_exchange, spend};
use kernel::{Kernel, WORKLOADS, now};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(30);
const MILLI: u64 = 1_000_000;

/// With exact evidence retries stay within 10 % of successes + reserve.
#[test]
fn exact_retries_of_all_cpus_stay_within_a_tenth_of_successes_and_the_reserve() {
    for retries_per_success in [4, 2_000] {
        let kernel = Kernel::law_alone(&BUDGET_ALONE);
        let log = spend(&kernel, retries_per_success, Nanos::from_secs(2));
        let (retries, allowed) = log.fullest(10, RESERVE);
        println!(
            "{} successes, {} retries wanted, {} admitted; the fullest window: {retries} of {allowed}",
            log.successes.len(),
            log.asked,
            log.retries.len()
        );
        assert!(retries <= allowed, "{retries} of {allowed}");
        // What is allowed can be had. Paced by eighths, a busy machine misses some of it.
        assert!(retries * 2 >= allowed, "{retries} of {allowed}");
        assert!(log.asked > 10 * log.retries.len() as u64);
    }
}

#[test]
fn one_retry_too_many_in_a_window_is_seen() {
    let at = |millis: u64| Run {
        before: millis * MILLI,
        after: millis * MILLI + 1,
        result: 0,
    };
    let mut log = Log {
        successes: (0..100).map(|n| at(5_000 + n)).collect(),
        retries: (0..90).map(|n| at(5_200 + n * 5)).collect(),
        asked: 0,
    };
    assert_eq!(log.fullest(10, RESERVE), (90, 90));
    // A second later another, when what has earned is about to expire.
    log.retries.push(at(5_999));
    assert_eq!(log.fullest(10, RESERVE), (91, 90));
    // After the window it is one of its own.
    log.retries.pop();
    log.retries.push(at(6_700));
    assert_eq!(log.fullest(10, RESERVE), (90, 90));
}

const QUICK_BREAKER: Params = Params {
    open_base: 10,
    open_max: 10,
    open_jitter: 0,
    probe_timeout: 60_000,
    concurrency: concurrency::DISABLED,
    ..Params::DEFAULT
};

#[test]
fn of_all_workloads_on_all_cpus_one_probe_is_on_its_way_at_a_time() {
    let kernel = Kernel::law_alone(&QUICK_BREAKER);
    let until = now() + 2_000 * MILLI;
    let outstanding = AtomicBool::new(false);
    let probes = hammer(&kernel, |hand| {
        let workload = WORKLOADS[hand.number / 2 % 2];
        let mut probes = Vec::new();
        while now() < until {
            let run = hand.run(attempt(workload, Evidence::None));
            match Decision::unpack(run.result) {
                // Closed still, at the beginning.
                Decision::Go => {
                    hand.run(end_of_exchange(workload, Outcome::Refused));
                }
                Decision::Probe(ticket) => {
                    let another = outstanding.swap(true, Ordering::SeqCst);
                    assert!(!another, "two probes at a time");
                    // On its way for a while, and the others knock.
                    sleep(Duration::from_millis(1));
                    outstanding.store(false, Ordering::SeqCst);
                    let ended = hand.run(Step {
                        latency: (now() - run.before) / 1_000,
                        probe: 1,
                        probe_breaker: ticket.breaker,
                        probe_lease: ticket.lease,
                        ..end_of_exchange(workload, Outcome::Refused)
                    });
                    assert_eq!(ended.result, Move::Reopened as u64);
                    probes.push((workload, run.before));
                }
                Decision::Deny(_) => {}
                other => panic!("{other:?}"),
            }
        }
        probes
    });
    let probes = probes.concat();
    for workload in WORKLOADS {
        let mut sent: Vec<u64> = probes
            .iter()
            .filter(|(of, _)| *of == workload)
            .map(|(_, at)| *at)
            .collect();
        sent.sort_unstable();
        println!("workload {workload}: {} probes", sent.len());
        assert!(sent.len() > 30, "workload {workload}: {}", sent.len());
        for pair in sent.windows(2) {
            // The open time counts from when the probe was sent, in whole milliseconds.
            let gap = (pair[1] - pair[0]) / 1_000;
            assert!(gap >= 8_900, "the next probe after {gap} us");
        }
    }
}

/// Open times of a breaker whose probes fail: the first two do not double it.
const SCHEDULE: [u64; 6] = [200, 200, 200, 400, 800, 800];

#[test]
fn a_port_that_refuses_gets_one_syn_for_each_open_period() {
    let lab = Lab::new();
    let params = Params {
        open_base: 200,
        open_max: 800,
        open_jitter: 0,
        ..Params::DEFAULT
    };
    let mut gate = Gate::new(Kernel::load(), lab.cgroup(), &params);
    let address = lab.address(PORT);
    let syns = lab.count_syns(PORT);
    let mode = format!("loop {address} --rate 300 --threads 4 --for 3s");
    let storm = format!("fleet --processes 8 --rate 200 --for 10s -- {mode}");
    let report = lab.storm(&storm, LIMIT);

    let moves: Vec<_> = gate
        .events()
        .into_iter()
        .filter(|event| event.kind == kind::BREAKER)
        .collect();
    let kinds: Vec<u32> = moves.iter().map(|event| event.what).collect();
    assert_eq!(kinds[0], Move::Tripped as u32);
    assert!(kinds[1..].iter().all(|it| *it == Move::Reopened as u32));
    let gaps: Vec<u64> = moves
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at) / MILLI)
        .collect();
    println!(
        "{:?}, SYNs {}, gaps {gaps:?} ms",
        report.summary(),
        syns.count()
    );
    assert!(gaps.len() >= 5, "{gaps:?}");
    for (gap, open) in gaps.iter().zip(SCHEDULE) {
        assert!(*gap + 2 >= open && *gap < open + 150, "{gaps:?}");
    }

    // A refused connect is one SYN; what was admitted before the breaker tripped may be as much as
    // was in flight beyond the seventh failure.
    let reached = gate.count(address, count::FIRST) + gate.count(address, count::RETRY);
    assert_eq!(syns.count(), reached);
    let probes = gate.count(address, count::PROBE_SENT);
    assert_eq!(probes, gaps.len() as u64);
    assert_eq!(probes, gate.count(address, count::PROBE_FAILURE));
    assert!(
        reached - probes <= 7 + 8 * 4,
        "{} before it tripped",
        reached - probes
    );
    assert_eq!(report.count(Seen::Refused), report.tries.len());
    assert!(report.tries.len() > 1_000);
}

/// Breaks after seven failures, opens for 100 ms, gives a probe 600 ms.
const LOSING: Params = Params {
    open_base: 100,
    open_max: 100,
    open_jitter: 0,
    probe_timeout: 600,
    ramp: 0,
    ..Params::DEFAULT
};
const OPEN: Duration = Duration::from_millis(130);
const PROBE_TIMEOUT: Duration = Duration::from_millis(620);

fn ip(lab: &Lab, arguments: &str) {
    let status = lab.netns().run(|| {
        let mut ip = Command::new("ip");
        ip.args(arguments.split(' ')).status()
    });
    assert!(status.is_ok_and(|it| it.success()), "ip {arguments}");
}

fn state(gate: &Gate, address: SocketAddr) -> State {
    gate.endpoint(address).view().breaker.view().state
}

/// Waits for what the kernel does by itself a moment later.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within 2 s");
        sleep(Duration::from_millis(2));
    }
}

/// No route: connect() fails before a SYN, and no callback ever comes.
#[test]
fn a_probe_that_finds_no_route_frees_itself() {
    let lab = Lab::new();
    let gate = Gate::new(Kernel::load(), lab.cgroup(), &LOSING);
    let address: SocketAddr = "10.1.2.3:8080".parse().unwrap();
    let mut caller = lab.caller_of(address, Speech::None);
    ip(&lab, "address add 10.1.2.3/32 dev lo");
    for _ in 0..7 {
        assert_eq!(caller.call().outcome, Seen::Refused);
    }
    assert_eq!(state(&gate, address), State::Open);
    ip(&lab, "address delete 10.1.2.3/32 dev lo");

    for lost in 1..3 {
        sleep(if lost == 1 { OPEN } else { PROBE_TIMEOUT });
        assert_eq!(caller.call().outcome, Seen::Unreachable, "the probe {lost}");
        assert_eq!(state(&gate, address), State::HalfOpen);
        assert_eq!(gate.count(address, count::PROBE_SENT), lost);
        // Refused by the governor: the network says unreachable.
        assert_eq!(caller.call().outcome, Seen::Refused, "beside the probe");
    }

    ip(&lab, "address add 10.1.2.3/32 dev lo");
    let listener = lab.netns().run(|| TcpListener::bind(address).unwrap());
    sleep(PROBE_TIMEOUT);
    assert_eq!(caller.call().outcome, Seen::Ok);
    assert_eq!(state(&gate, address), State::Closed);
    assert_eq!(caller.call().outcome, Seen::Ok);
    drop(listener);
}

/// Its process waits for ever: SYNs vanish, and nothing ends.
#[test]
fn a_probe_that_hangs_gives_way_after_its_timeout() {
    let lab = Lab::new();
    let gate = Gate::new(Kernel::load(), lab.cgroup(), &LOSING);
    let address = lab.address(PORT);
    trip(&lab, address);
    let hole = lab.blackhole(PORT);
    sleep(OPEN);
    let hanging = lab.start_storm(&format!("tries {address} --connect-timeout 60s"));
    eventually("the first probe", || {
        gate.count(address, count::PROBE_SENT) == 1
    });
    let mut caller = lab.caller(PORT, Speech::None);
    assert_eq!(caller.call().outcome, Seen::Refused);
    drop(hole);
    sleep(PROBE_TIMEOUT);
    assert_eq!(caller.call().outcome, Seen::Refused);
    assert_eq!(gate.count(address, count::PROBE_SENT), 2);
    hanging.kill();
}

/// A kill closes the socket: the caller went away early, which says nothing and frees the lease.
#[test]
fn a_probe_whose_process_is_killed_frees_itself_at_once() {
    let lab = Lab::new();
    let patient = Params {
        probe_timeout: 60_000,
        ..LOSING
    };
    let gate = Gate::new(Kernel::load(), lab.cgroup(), &patient);
    let address = lab.address(PORT);
    trip(&lab, address);
    let hole = lab.blackhole(PORT);
    sleep(OPEN);
    let hanging = lab.start_storm(&format!("tries {address} --connect-timeout 60s"));
    eventually("the first probe", || {
        gate.count(address, count::PROBE_SENT) == 1
    });
    hanging.kill();
    eventually("the lost probe", || state(&gate, address) == State::Open);
    drop(hole);
    let server = lab.http_server(PORT, Behaviour::Answer);
    let mut caller = lab.caller(PORT, Speech::Http);
    assert_eq!(caller.call().outcome, Seen::Ok);
    assert_eq!(gate.count(address, count::PROBE_SENT), 2);
    assert_eq!(state(&gate, address), State::Closed);
    drop(server);
}

fn trip(lab: &Lab, address: SocketAddr) {
    let report: Report = lab.storm(&format!("tries {address} --tries 8 --delay 1ms"), LIMIT);
    assert_eq!(report.tries.len(), 8);
}

/// Long polls, and exchanges of which nothing is heard, must not fill the limit for ever.
#[test]
fn an_exchange_that_never_ends_is_in_flight_for_two_seconds() {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Hang);
    let gate = Gate::new(Kernel::load(), lab.cgroup(), &Params::DEFAULT);
    let address = lab.address(PORT);
    let hanging = lab.start_storm(&format!("longpoll {address} --speak http --connections 5"));
    let in_flight = || {
        let ledger = gate.workload(address).view();
        ledger.limiter.in_flight(Nanos(now()))
    };
    eventually("five exchanges in flight", || in_flight() == 5);
    let began = Instant::now();
    while in_flight() > 0 {
        assert!(began.elapsed() < Duration::from_secs(3), "still in flight");
        sleep(Duration::from_millis(20));
    }
    assert!(began.elapsed() > Duration::from_millis(1_500));
    hanging.kill();
    drop(server);
}

#[test]
fn a_full_map_of_endpoints_lets_everything_pass_and_is_counted() {
    let lab = Lab::new();
    let kernel = Kernel::with_capacities(&[(map::ENDPOINTS, 1)]);
    let gate = Gate::new(kernel, lab.cgroup(), &LOSING);
    let (first, second) = (lab.address(PORT), lab.address(PORT + 1));
    let syns = lab.count_syns(PORT + 1);
    // The first has the one ledger, and is governed.
    trip(&lab, first);
    assert_eq!(state(&gate, first), State::Open);
    assert_eq!(gate.kernel().losses(loss::LEDGER_FULL), 0);
    // The second has none: every one of its SYNs reaches the port.
    let report = lab.storm(&format!("tries {second} --tries 30 --delay 1ms"), LIMIT);
    assert_eq!(report.count(Seen::Refused), 30);
    assert_eq!(syns.count(), 30);
    assert_eq!(gate.kernel().losses(loss::LEDGER_FULL), 30);
    let entries = gate
        .kernel()
        .keys::<EndpointKey, EndpointLedger>(map::ENDPOINTS)
        .len();
    assert_eq!(entries, 1);
}

#[test]
fn a_full_map_of_destinations_lets_everything_pass_and_is_counted() {
    for full in [map::DESTINATIONS, map::WORKLOADS] {
        let lab = Lab::new();
        let kernel = Kernel::with_capacities(&[(full, 1)]);
        let gate = Gate::new(kernel, lab.cgroup(), &LOSING);
        trip(&lab, lab.address(PORT));
        let syns = lab.count_syns(PORT + 1);
        let second = lab.address(PORT + 1);
        lab.storm(&format!("tries {second} --tries 30 --delay 1ms"), LIMIT);
        assert_eq!(syns.count(), 30, "{full}");
        assert!(gate.kernel().losses(loss::LEDGER_FULL) >= 30, "{full}");
    }
}

/// Without a lease the breaker alone keeps its probes to one at a time, and still closes.
#[test]
fn a_full_map_of_leases_leaves_the_breaker_at_work_and_is_counted() {
    let lab = Lab::new();
    let kernel = Kernel::with_capacities(&[(map::LEASES, 1)]);
    let gate = Gate::new(kernel, lab.cgroup(), &LOSING);
    let (first, second) = (lab.address(PORT), lab.address(PORT + 1));
    trip(&lab, first);
    let syns = lab.count_syns(PORT + 1);
    trip(&lab, second);
    assert_eq!(state(&gate, second), State::Open);
    assert_eq!(syns.count(), 7);
    assert!(gate.kernel().losses(loss::LEDGER_FULL) > 0);
    sleep(OPEN);
    let listener = lab.netns().run(|| TcpListener::bind(second).unwrap());
    let report = lab.storm(&format!("tries {second}"), LIMIT);
    assert_eq!(report.count(Seen::Ok), 1);
    assert_eq!(state(&gate, second), State::Closed);
    drop(listener);
}
