//! The harness tested by itself: a guard that leaks or a server that only pretends would make
//! every other test worthless.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use governor_tests::bpffs::BpfFs;
use governor_tests::caller::Storm;
use governor_tests::cgroup::{self, Cgroup};
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::place::Place;
use governor_tests::process::{self, Process};
use governor_tests::server::{Behaviour, Percent, Protocol, Server};
use governor_tests::storm::exchange::Speech;
use governor_tests::storm::report::Outcome;
use governor_tests::sweep;
use governor_tests::veth::Veth;

const PORT: u16 = 8080;
/// Generous: two cores, shared with other tests.
const LIMIT: Duration = Duration::from_secs(30);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn a_dead_server_refuses_and_the_syn_is_counted() {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Refuse);
    let syns = lab.count_syns(PORT);
    let mut caller = lab.caller(PORT, Speech::Http);
    assert_eq!(caller.call().outcome, Outcome::Refused);
    assert_eq!(syns.count(), 1);

    server.set(Behaviour::Answer);
    assert_eq!(caller.call().outcome, Outcome::Ok);
    server.set(Behaviour::Refuse);
    assert_eq!(caller.call().outcome, Outcome::Refused);
    assert_eq!(syns.count(), 3);
    assert_eq!(server.counts().connects.count(), 1);
}

#[test]
fn a_blackhole_swallows_syns_until_it_is_closed() {
    let lab = Lab::new();
    let server = lab.line_server(PORT, Behaviour::Answer);
    let syns = lab.count_syns(PORT);
    let hole = lab.blackhole(PORT);
    let report = lab.storm(
        &format!("tries 127.0.0.1:{PORT} --connect-timeout 300ms"),
        LIMIT,
    );
    assert_eq!(report.tries[0].outcome, Outcome::ConnectTimeout);
    assert!(report.tries[0].latency() >= ms(300));
    assert_eq!(syns.count(), 1);
    assert_eq!(server.counts().connects.count(), 0);

    drop(hole);
    assert_eq!(lab.caller(PORT, Speech::Line).call().outcome, Outcome::Ok);
}

#[test]
fn two_hundred_short_lived_processes_make_eight_hundred_tries() {
    let lab = Lab::new();
    let syns = lab.count_syns(PORT);
    let began = Instant::now();
    let fleet = format!(
        "fleet --processes 200 --rate 200 -- tries 127.0.0.1:{PORT} --tries 4 --delay 50ms"
    );
    let report = lab.storm(&fleet, LIMIT);
    println!("200 processes took {:?}", began.elapsed());
    let summary = report.summary();
    assert_eq!(
        (summary.processes, summary.operations, summary.retries),
        (200, 200, 600)
    );
    assert_eq!(report.count(Outcome::Refused), 800);
    assert_eq!(syns.count(), 800);
}

#[test]
fn guards_remove_everything_also_after_a_panic() {
    let lab = Lab::new();
    drop(lab);
    let mut left = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let cgroup = Cgroup::create("doomed");
        let netns = Netns::create();
        let bpffs = BpfFs::mount();
        let pod = cgroup.child("pod");
        left = vec![
            cgroup.path().to_owned(),
            Path::new("/run/netns").join(netns.name()),
            bpffs.path(),
        ];
        // Nobody waits for this one: its cgroup must take it along.
        let stray = Process::start(sleeper(), &Place::new(&netns, &pod));
        left.push(format!("/proc/{}/ns", stray.pid()).into());
        std::mem::forget(stray);
        assert!(left.iter().all(|path| path.exists()));
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    for path in &left[..3] {
        assert!(!path.exists(), "{} stayed", path.display());
    }
    // Killed, and a zombie until this process ends: a zombie has no namespaces.
    assert!(
        std::fs::read_link(left[3].join("net")).is_err(),
        "the process survived"
    );
}

#[test]
fn the_sweep_removes_what_a_dead_process_left_and_nothing_else() {
    let lab = Lab::new();
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let name = format!("governor-test-{}-0", dead.id());
    let leftover = cgroup::root().unwrap().join(format!("{name}-pod"));
    std::fs::create_dir_all(leftover.join("leaf")).unwrap();
    let netns = Path::new("/run/netns").join(&name);
    std::fs::write(&netns, "").unwrap();

    sweep::now();
    assert!(!leftover.exists() && !netns.exists());
    assert!(lab.cgroup().path().exists());
    assert!(Path::new("/run/netns").join(lab.netns().name()).exists());
}

#[test]
fn a_process_is_born_in_its_cgroup_and_namespace() {
    let lab = Lab::new();
    let pod = lab.cgroup().child("pod");
    let mut show = Command::new("cat");
    show.arg("/proc/self/cgroup");
    let shown = process::run(show, &lab.place().in_cgroup(&pod), LIMIT).expect_success();
    assert!(
        shown.stdout.contains(&format!("0::{}\n", pod.name())),
        "{}",
        shown.stdout
    );

    let mut link = Command::new("readlink");
    link.arg("/proc/self/ns/net");
    let inside = lab.run(link, LIMIT).expect_success().stdout;
    let expected = lab
        .netns()
        .run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap());
    assert_eq!(inside.trim(), expected.to_str().unwrap());
    assert_ne!(expected, std::fs::read_link("/proc/self/ns/net").unwrap());
}

#[test]
fn a_private_bpf_file_system_is_seen_inside_only_and_outlives_its_users() {
    let lab = Lab::new();
    let bpffs = BpfFs::mount();
    let place = lab.place().with_bpffs(&bpffs);
    let mut make = Command::new("mkdir");
    make.arg("/sys/fs/bpf/governor-pins");
    process::run(make, &place, LIMIT).expect_success();
    let mut kind = Command::new("stat");
    kind.args(["--file-system", "--format=%T", "/sys/fs/bpf/governor-pins"]);
    assert_eq!(
        process::run(kind, &place, LIMIT)
            .expect_success()
            .stdout
            .trim(),
        "bpf_fs"
    );
    assert!(bpffs.path().join("governor-pins").exists());
    assert!(!Path::new("/sys/fs/bpf/governor-pins").exists());
}

#[test]
fn a_process_that_takes_too_long_is_reported_and_killed() {
    let lab = Lab::new();
    let sleeper = Process::start(sleeper(), &lab.place());
    let pid = sleeper.pid();
    let waited = catch_unwind(AssertUnwindSafe(|| sleeper.finish(ms(50))));
    assert!(waited.is_err());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_share_of_requests_is_closed_unanswered() {
    let lab = Lab::new();
    let server = lab.line_server(PORT, Behaviour::CloseUnanswered(Percent(30)));
    let report = lab.storm(
        &format!("loop 127.0.0.1:{PORT} --speak line --rate 200 --count 100"),
        LIMIT,
    );
    assert_eq!(report.count(Outcome::NoAnswer), 30);
    assert_eq!(report.count(Outcome::Ok), 70);
    assert_eq!(server.counts().requests.count(), 100);
    assert_eq!(server.counts().answers.count(), 70);
}

#[test]
fn a_hang_loses_its_requests_and_a_stall_serves_them_late() {
    let lab = Lab::new();
    let patient = format!("tries 127.0.0.1:{PORT} --speak http --answer-timeout 10s");
    let server = lab.http_server(PORT, Behaviour::Stall);
    let syns = lab.count_syns(PORT);
    let waiting = lab.start_storm(&patient);
    while syns.count() == 0 {
        std::thread::sleep(ms(10));
    }
    std::thread::sleep(ms(100));
    assert_eq!(server.counts().connects.count(), 0);
    server.set(Behaviour::Answer);
    let served = waiting.finish(LIMIT);
    assert_eq!(served.count(Outcome::Ok), 1);
    assert!(served.tries[0].latency() >= ms(100));

    server.set(Behaviour::Hang);
    let impatient = format!("tries 127.0.0.1:{PORT} --speak http --answer-timeout 200ms");
    assert_eq!(
        lab.storm(&impatient, LIMIT).count(Outcome::AnswerTimeout),
        1
    );
    assert_eq!(server.counts().requests.count(), 2);
    assert_eq!(server.counts().answers.count(), 1);
}

#[test]
fn a_caller_tells_reset_status_and_slowness_apart() {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Reset);
    let mut caller = lab.caller(PORT, Speech::Http);
    assert_eq!(caller.call().outcome, Outcome::Reset);
    server.set(Behaviour::Status(503));
    assert_eq!(caller.call().status, Some(503));
    server.set(Behaviour::AnswerAfter(ms(200)));
    let slow = caller.call();
    assert_eq!(slow.outcome, Outcome::Ok);
    assert!(slow.latency() >= ms(200));
}

#[test]
fn a_server_may_speak_first() {
    let lab = Lab::new();
    let server = lab.line_server(PORT, Behaviour::SpeakFirst);
    assert_eq!(lab.caller(PORT, Speech::Banner).call().outcome, Outcome::Ok);
    assert_eq!(server.counts().requests.count(), 1);
}

#[test]
fn a_half_closed_request_is_still_answered() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::AnswerAfter(ms(50)));
    let mut caller = lab.caller(PORT, Speech::Http);
    caller.open("a");
    assert_eq!(caller.exchange("a").outcome, Outcome::Ok);
    assert_eq!(caller.finish("a").outcome, Outcome::Ok);
    caller.close("a");
    let report = lab.storm(
        &format!(
            "keepalive 127.0.0.1:{PORT} --speak http --connections 5 --exchanges 2 --half-close"
        ),
        LIMIT,
    );
    // Each connection: one connect, two exchanges.
    assert_eq!(report.count(Outcome::Ok), 15);
}

#[test]
fn a_connection_closed_in_its_rest_is_dialled_anew_without_a_failure() {
    let lab = Lab::new();
    let server = lab.line_server(PORT, Behaviour::IdleClose(ms(100)));
    let keepalive = format!(
        "keepalive 127.0.0.1:{PORT} --speak line --connections 3 --exchanges 3 --gap 300ms"
    );
    let report = lab.storm(&keepalive, LIMIT);
    assert_eq!(server.counts().connects.count(), 9);
    assert_eq!(server.counts().requests.count(), 9);
    assert_eq!(report.count(Outcome::Ok), report.tries.len());
}

#[test]
fn a_pool_of_five_hundred_is_dialled_at_once_and_held() {
    let lab = Lab::new();
    let server = lab.line_server(PORT, Behaviour::Answer);
    let pool = lab.start_storm(&format!(
        "pool 127.0.0.1:{PORT} --connections 500 --connect-timeout 5s --for 1s"
    ));
    let report = pool.finish(LIMIT);
    assert_eq!(report.count(Outcome::Ok), 500);
    assert_eq!(server.counts().connects.count(), 500);
}

#[test]
fn long_polls_wait_for_a_distant_answer() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::AnswerAfter(ms(1500)));
    let report = lab.storm(
        &format!("longpoll 127.0.0.1:{PORT} --connections 20 --patience 10s"),
        LIMIT,
    );
    assert_eq!(report.count(Outcome::Ok), 40);
    assert!(report.latency(100.0) >= ms(1500));
}

#[test]
fn an_open_loop_keeps_its_rate_and_retries_each_operation() {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Refuse);
    let load =
        format!("loop 127.0.0.1:{PORT} --speak http --rate 100 --for 2s --tries 3 --delay 10ms");
    let storm = lab.start_storm(&load);
    std::thread::sleep(ms(1000));
    server.set(Behaviour::Answer);
    let report = storm.finish(LIMIT);
    let summary = report.summary();
    assert_eq!(summary.operations, 200);
    assert!(report.count(Outcome::Refused) >= 90, "{summary:?}");
    assert!(summary.succeeded >= 50, "{summary:?}");
    assert_eq!(summary.succeeded, server.counts().answers.count());
}

#[test]
fn callers_reach_a_server_over_every_kind_of_loopback_address() {
    let lab = Lab::new();
    let server = lab.http_server(PORT, Behaviour::Answer);
    for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let address = format!("{host}:{PORT}").parse().unwrap();
        assert_eq!(
            lab.caller_of(address, Speech::Http).call().outcome,
            Outcome::Ok,
            "{address}"
        );
    }
    assert_eq!(server.counts().connects.count(), 3);
}

#[test]
fn a_kernel_parameter_is_set_in_its_namespace_only() {
    let lab = Lab::new();
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_syn_retries").unwrap();
    let outside = read();
    lab.netns().sysctl("ipv4/tcp_syn_retries", "1");
    assert_eq!(lab.netns().run(read).trim(), "1");
    assert_eq!(read(), outside);
}

#[test]
fn an_exchange_that_has_begun_is_not_cut_off_at_the_end_of_the_load() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::AnswerAfter(ms(400)));
    let load = format!("keepalive 127.0.0.1:{PORT} --speak http --exchanges 10 --for 200ms");
    let report = lab.storm(&load, LIMIT);
    // One connect and one exchange, which outlives the end.
    assert_eq!(report.count(Outcome::Ok), 2);
    assert_eq!(report.tries.len(), 2);
}

#[test]
fn a_storm_is_killed_with_its_fleet() {
    let lab = Lab::new();
    let fleet = format!("fleet --processes 3 -- loop 127.0.0.1:{PORT} --rate 5 --for 60s");
    let storm = lab.start_storm(&fleet);
    while lab.cgroup().pids().len() < 4 {
        std::thread::sleep(ms(10));
    }
    let pids = lab.cgroup().pids();
    storm.kill();
    drop(lab);
    for pid in pids {
        assert!(
            std::fs::read_link(format!("/proc/{pid}/ns/net")).is_err(),
            "{pid} survived"
        );
    }
}

#[test]
fn two_namespaces_talk_over_a_wire_in_both_families() {
    let lab = Lab::new();
    let far = Netns::create();
    let wire = Veth::between(lab.netns(), &far);
    let server = Server::start(&far, PORT, Protocol::Http, Behaviour::Answer);
    for address in [wire.right.v4, wire.right.v6] {
        let target = std::net::SocketAddr::new(address, PORT);
        let report =
            Storm::start(&format!("tries {target} --speak http"), &lab.place()).finish(LIMIT);
        assert_eq!(report.count(Outcome::Ok), 1, "{target}: {report:?}");
    }
    assert_eq!(server.counts().requests.count(), 2);
}

#[test]
fn what_is_not_built_names_the_command_that_builds_it() {
    let error = governor_tests::artifact::program("no-such-program").unwrap_err();
    assert!(error.to_string().contains("cargo xtask test"), "{error}");
}

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("60");
    command
}
