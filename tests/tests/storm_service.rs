//! The service under load does what the lab says of it: its figures are only worth what it is.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use governor_tests::lab::Lab;
use governor_tests::service::{Service, Slot};
use governor_tests::storm::report::{Outcome, Report};

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(60);

fn service(lab: &Lab, options: &str) -> Service {
    Service::start(PORT, options, &lab.place())
}

fn crowd(lab: &Lab, options: &str) -> Report {
    lab.storm(&format!("crowd 127.0.0.1:{PORT} {options}"), LIMIT)
}

fn sum(slots: &[Slot], of: fn(&Slot) -> u64) -> u64 {
    slots.iter().map(of).sum()
}

fn connect(lab: &Lab) -> TcpStream {
    let stream = lab.netns().run(|| {
        let stream = TcpStream::connect(lab.address(PORT))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        std::io::Result::Ok(stream)
    });
    stream.expect("the service accepts")
}

/// What comes until there is an answer's end, or the end.
fn answer(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    let mut byte = [0];
    while !heard.ends_with(b"ok\n") && matches!(stream.read(&mut byte), Ok(1)) {
        heard.push(byte[0]);
    }
    String::from_utf8_lossy(&heard).into_owned()
}

/// Time that a process had on a CPU, in ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    // utime and stime, counted after the name in parentheses, which may hold anything.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields.skip(11).take(2).map(str::parse::<u64>);
    ticks.map(|it| it.expect("a number of ticks")).sum()
}

#[test]
fn connections_are_kept_or_closed_as_the_caller_wants() {
    let lab = Lab::new();
    let service = service(&lab, "--capacity 1000");
    let mut stream = connect(&lab);
    // Two at once, then a last one in two parts.
    write!(
        stream,
        "GET /1 HTTP/1.1\r\nUser-Agent: a\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"
    )
    .unwrap();
    for _ in 0..2 {
        let answer = answer(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.contains("Connection: close"), "{answer}");
    }
    write!(stream, "POST /1 HTTP/1.1\r\nUser-Agent: a\r\nConnec").unwrap();
    sleep(Duration::from_millis(20));
    write!(stream, "tion: close\r\nContent-Length: 4\r\n\r\nbody").unwrap();
    assert!(answer(&mut stream).contains("Connection: close"));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let slots = service.slots();
    assert_eq!(sum(&slots, |it| it.answered), 3);
    assert_eq!(sum(&slots, |it| it.repeats), 1);
    let of_a = |slot: &Slot| slot.arrived.get("a").copied().unwrap_or(0);
    assert_eq!(sum(&slots, of_a), 2);
}

#[test]
fn requests_of_callers_at_fault_fail_after_their_work_and_those_of_others_do_not() {
    let lab = Lab::new();
    let _service = service(&lab, "--capacity 20 --fails broken:100");
    let broken = crowd(&lab, "--name broken-1 --at-once 5");
    assert_eq!(broken.count(Outcome::Status), 5);
    // Five turns in the queue, 50 ms each.
    let longest = broken.tries.iter().map(|it| it.micros).max();
    assert!(longest >= Some(200_000), "{longest:?}");
    let healthy = crowd(&lab, "--name healthy-1 --at-once 5");
    assert_eq!(healthy.count(Outcome::Ok), 5);
}

#[test]
fn slots_are_aligned_and_without_a_gap_until_it_is_asked() {
    let lab = Lab::new();
    let service = service(&lab, "--capacity 1000");
    sleep(Duration::from_millis(500));
    let slots = service.slots();
    assert!(slots.len() >= 10, "{}", slots.len());
    assert!(slots.iter().all(|slot| slot.t % 50_000 == 0));
    assert!(slots.windows(2).all(|pair| pair[1].t == pair[0].t + 50_000));
    assert!(slots.iter().all(|slot| slot.capacity == 1_000.0));
}

#[test]
fn it_answers_as_many_a_second_as_its_capacity_and_counts_the_work_for_nobody() {
    let lab = Lab::new();
    let service = service(&lab, "--capacity 300");
    let report = crowd(
        &lab,
        "--name herd --rate 600 --for 4s --answer-timeout 500ms --run-out 1s",
    );
    let slots = service.slots();
    let done = |slot: &Slot| slot.answered + slot.wasted;
    // Without the edges of the load.
    let busy = slots.iter().skip_while(|slot| slot.came() == 0).skip(20);
    let rate: u64 = busy.take(40).map(done).sum();
    assert!((590..=610).contains(&rate), "{rate} in 2 s");
    assert_eq!(sum(&slots, Slot::came), report.tries.len() as u64);
    // An answer may be on its way when its caller's patience ends.
    let (answered, well) = (
        sum(&slots, |it| it.answered),
        report.count(Outcome::Ok) as u64,
    );
    assert!((well..=well + 5).contains(&answered), "{answered}, {well}");
    let wasted = sum(&slots, |it| it.wasted);
    assert!(wasted > 400, "{wasted} for nobody");
    let last = slots.last().unwrap();
    let ended = sum(&slots, done) + sum(&slots, |it| it.failed);
    assert_eq!(ended + last.waiting, report.tries.len() as u64);
}

#[test]
fn a_cold_start_warms_up_by_work() {
    let lab = Lab::new();
    let service = service(&lab, "--capacity 500 --cold 20 --warm 2s");
    assert_eq!(service.slots().last().unwrap().capacity, 100.0);
    sleep(Duration::from_millis(300));
    assert_eq!(service.slots().last().unwrap().capacity, 100.0, "idle");
    crowd(&lab, "--rate 700 --for 3s --run-out 1s");
    let slots = service.slots();
    assert!(
        slots
            .windows(2)
            .all(|pair| pair[0].capacity <= pair[1].capacity)
    );
    assert_eq!(slots.last().unwrap().capacity, 500.0);
}

#[test]
fn a_dead_one_refuses_and_closes_and_is_back_at_once() {
    let lab = Lab::new();
    let service = service(&lab, "--capacity 1");
    let (mut idle, mut queued) = (connect(&lab), connect(&lab));
    for _ in 0..2 {
        write!(queued, "GET / HTTP/1.1\r\n\r\n").unwrap();
    }
    sleep(Duration::from_millis(100));
    service.order("refuse");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    answer(&mut queued);
    let refused = lab.netns().run(|| TcpStream::connect(lab.address(PORT)));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(service.slots().last().unwrap().capacity, 0.0);
    service.order("capacity 1000");
    service.order("serve");
    sleep(Duration::from_millis(20));
    let mut back = connect(&lab);
    write!(back, "GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(answer(&mut back).starts_with("HTTP/1.1 200 "));
    let slots = service.slots();
    assert_eq!(slots.last().unwrap().waiting, 0, "the queue died too");
    assert!(sum(&slots, |it| it.failed) >= 1);
}

#[test]
fn each_fault_is_what_its_callers_see() {
    let lab = Lab::new();
    let service = service(&lab, "--capacity 1000");
    let load = "--arrivals even --rate 100 --for 1s --answer-timeout 300ms";
    service.order("status 503 30");
    assert_eq!(crowd(&lab, load).count(Outcome::Status), 30);
    service.order("hang 30");
    assert_eq!(crowd(&lab, load).count(Outcome::AnswerTimeout), 30);
    service.order("stall");
    assert_eq!(crowd(&lab, load).count(Outcome::AnswerTimeout), 100);
    service.order("slow 20");
    let slowed = crowd(&lab, load).count(Outcome::Ok);
    assert!(slowed < 70, "{slowed} answered at 50 a second");
    service.order("serve");
    sleep(Duration::from_millis(300));
    assert_eq!(crowd(&lab, load).count(Outcome::Ok), 100);
    service.order("refuse");
    sleep(Duration::from_millis(50));
    assert_eq!(crowd(&lab, load).count(Outcome::Refused), 100);
    let slots = service.slots();
    let ended = sum(&slots, |it| it.answered + it.failed + it.wasted);
    assert_eq!((sum(&slots, Slot::came), ended), (500, 500));
}

#[test]
fn layers_multiply_their_tries_and_pass_on_what_came_of_them() {
    let lab = Lab::new();
    let start = |port: u16, name: &str, below: u16| {
        let options = format!(
            "--capacity 2000 --name {name} --backend 127.0.0.1:{below} --tries 3 --delay 5ms"
        );
        Service::start(port, &options, &lab.place())
    };
    let leaf = Service::start(8082, "--capacity 2000", &lab.place());
    let (mid, edge) = (start(8081, "mid", 8082), start(PORT, "edge", 8081));
    leaf.order("status 500");
    let load = "--name user --arrivals even --rate 50 --for 1s --retry naive --tries 3 --delay 5ms";
    let failed = crowd(&lab, load);
    assert!(failed.tries.iter().all(|each| each.status == Some(502)));
    let came = [&edge, &mid, &leaf].map(|it| sum(&it.slots(), Slot::came));
    assert_eq!(came, [150, 450, 1350]);
    let (called, first) = (
        sum(&mid.slots(), |it| it.called),
        sum(&mid.slots(), |it| it.called_first),
    );
    assert_eq!((called, first), (1350, 450));
    // Each of the leaf's callers' operations came 27 times: 26 repeats.
    assert_eq!(sum(&leaf.slots(), |it| it.repeats), 50 * 26);
    leaf.order("serve");
    assert_eq!(crowd(&lab, load).count(Outcome::Ok), 50);
    let slow = "--rate 50 --for 500ms --answer-timeout 20s --retry none";
    leaf.order("stall");
    assert!(
        crowd(&lab, slow)
            .tries
            .iter()
            .all(|each| each.status == Some(504))
    );
}

#[test]
fn a_killed_one_is_restarted_and_told_slots_stay() {
    let lab = Lab::new();
    let mut service = service(&lab, "--capacity 1000");
    crowd(&lab, "--arrivals even --rate 100 --for 500ms");
    assert_eq!(sum(&service.slots(), Slot::came), 50);
    service.kill();
    assert_eq!(service.pid(), None);
    assert_eq!(
        crowd(&lab, "--rate 100 --count 5").count(Outcome::Refused),
        5
    );
    service.restart("--capacity 1000", &lab.place());
    crowd(&lab, "--arrivals even --rate 100 --for 500ms");
    assert_eq!(sum(&service.slots(), Slot::came), 100);
}

#[test]
fn ten_thousand_callers_at_one_moment_are_all_answered() {
    let lab = Lab::new();
    for (name, value) in [
        ("core/somaxconn", "16384"),
        ("ipv4/tcp_max_syn_backlog", "16384"),
    ] {
        lab.netns().sysctl(name, value);
    }
    let service = service(&lab, "--capacity 5000");
    service.order("stall");
    let storm = lab.start_storm(&format!(
        "crowd 127.0.0.1:{PORT} --at-once 10000 --for 1s --connect-timeout 20s --answer-timeout 20s --run-out 30s"
    ));
    let asked = Instant::now();
    while service
        .slots()
        .last()
        .is_none_or(|last| last.waiting < 10_000)
    {
        assert!(asked.elapsed() < LIMIT, "{:?}", service.slots().last());
    }
    service.order("serve");
    assert_eq!(storm.finish(LIMIT).count(Outcome::Ok), 10_000);
}

#[test]
fn five_thousand_requests_a_second_cost_a_fraction_of_a_core() {
    let lab = Lab::new();
    lab.netns().sysctl("core/somaxconn", "16384");
    let service = service(&lab, "--capacity 10000");
    let pid = service.pid().unwrap();
    let before = cpu_ticks(pid);
    let load = "--rate 5000 --for 3s --connections fresh";
    let report = crowd(&lab, load);
    let ticks = cpu_ticks(pid) - before;
    println!("{ticks} ticks for {} requests", report.tries.len());
    assert_eq!(report.count(Outcome::Ok), report.tries.len());
    assert!(ticks < 240, "{ticks} ticks of 10 ms in 3 s");
}
