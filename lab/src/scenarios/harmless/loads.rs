//! Who calls whom.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use governor_tests::process::Process;
use governor_tests::real_clients::{RealClient, Targets, Work};
use governor_tests::server::{Behaviour, Server};
use governor_tests::service::Service;

use crate::late::Load;
use crate::scenario::Length;
use crate::stage::{Stage, document};

/// Of the story.
pub const NAMED: &str = "bursts, a tenfold growth, pools that warm up at once, idle connections that are closed, long \
                         polls, streams, receivers that never answer, last words that nobody answers, cancelled hedges, \
                         a slow endpoint, latency that grows a hundredfold, a mix of calls that shifts to slow ones, a \
                         host that moves, curl, Python, Go, Node and Java";
/// Named by the policy: two ports of one destination each.
pub const CALLS: u16 = 8081;
const POLLS: u16 = 8082;
const QUICK: u16 = 8083;
const REPORTS: u16 = 8084;
const WEB: u16 = 8080;
const SHIFT: u16 = 8085;
const MOVED: u16 = 8086;
const DEPLOYED: u16 = 8087;
const PARTIAL: u16 = 8088;
const POOLED: u16 = 8089;
const HALF: u16 = 8095;
const THIRDS: u16 = 8096;
const GUESSED: u16 = 8097;
const REAL: u16 = 8094;
/// The host that moves, and its addresses.
pub const HOST: &str = "auth.internal";
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 2, 1), Ipv4Addr::new(127, 0, 2, 2)];
/// Backends of a destination that something happens to.
pub const BACKENDS: usize = 3;

/// How late a long poll is answered.
const POLL: Duration = Duration::from_secs(25);
const REPORT: Duration = Duration::from_millis(1500);
/// Connections that are silent for so long are closed; their callers' next request is due much later. A
/// close that is late, on a busy machine, meets it: of 24,000 requests 400 ms after it one was lost.
const IDLE: Duration = Duration::from_secs(1);
/// A service that is never short of capacity.
const PLENTY: &str = "--capacity 5000";
/// The port that peers.py opens last.
const LAST_PEER: u16 = 8093;
const STARTS_WITHIN: Duration = Duration::from_secs(20);
const PEERS: &str = include_str!("peers.py");
const PEER_LOADS: [&str; 4] = ["listeners", "senders", "talkers", "hedgers"];

/// The default policy for all, and names for what belongs together.
pub fn policy() -> String {
    let named = |name: &str, ports: &str| {
        format!("{{name: {name}, cidrs: [127.0.0.0/8], ports: [{ports}]}}")
    };
    let named_alone = [("half", HALF), ("thirds", THIRDS), ("guessed", GUESSED)];
    let named_alone = named_alone.map(|(name, port)| named(name, &port.to_string()));
    let destinations = [
        named("polls-and-calls", &format!("{CALLS}, {POLLS}")),
        named("mix", &format!("{QUICK}, {REPORTS}")),
        named("deployed", &DEPLOYED.to_string()),
        named("partial", &PARTIAL.to_string()),
        format!("{{name: moved, hosts: [{HOST}], ports: [{MOVED}]}}"),
    ];
    let spec = format!(
        "destinations: [{}, {}]",
        destinations.join(", "),
        named_alone.join(", ")
    );
    format!(
        "{}---\n{}",
        document("named", "Enforce", &[], &spec),
        document("rest", "Enforce", &[], "")
    )
}

/// Who is called.
pub struct Services {
    /// The one of the chart.
    pub web: Service,
    /// Short calls, beside long polls.
    pub calls: Service,
    /// Latency grows here.
    pub shift: Server,
    /// Restarted one by one.
    pub deployed: Vec<Service>,
    /// The second refuses, the third hangs for a while.
    pub partial: Vec<Service>,
    /// The second refuses.
    pub half: Vec<Service>,
    /// The second and the third refuse, where 300 a second are asked.
    pub thirds: Vec<Service>,
    /// The third refuses, where 1,000 a second are asked, and nobody tries again.
    pub guessed: Vec<Service>,
    _others: (Vec<Service>, Vec<Server>, Process),
}

impl Services {
    /// Starts them.
    pub fn start(stage: &Stage<'_>) -> Self {
        let lab = stage.lab();
        // Callers take their own ports from all the others: a server that comes back must find its own free.
        lab.netns()
            .sysctl("ipv4/ip_local_reserved_ports", "8080-8099");
        let one = |name: &str, port: u16| stage.service(name, port, PLENTY);
        let at = |name: &str, address: Ipv4Addr, port: u16| {
            let address = SocketAddr::from((address, port));
            stage.within(name, |place| Service::start_at(address, PLENTY, place))
        };
        let each = |name: &str, net: u8, port: u16| -> Vec<_> {
            let hosts = (1..=BACKENDS as u8).map(|host| Ipv4Addr::new(127, 0, net, host));
            hosts.map(|address| at(name, address, port)).collect()
        };
        let moved = ADDRESSES.map(|address| at("moved", address, MOVED));
        stage.name_host(HOST, ADDRESSES[0].into());
        let peers = stage.within("peers", |place| Process::start(peer(&["serve"]), place));
        until_listening(stage, LAST_PEER);
        Self {
            web: one("web-service", WEB),
            calls: one("calls-service", CALLS),
            shift: lab.http_server(SHIFT, Behaviour::AnswerAfter(Duration::from_millis(6))),
            deployed: each("deployed", 3, DEPLOYED),
            partial: each("partial", 4, PARTIAL),
            half: each("half", 5, HALF),
            thirds: each("thirds", 6, THIRDS),
            guessed: each("guessed", 7, GUESSED),
            _others: (
                [one("quick", QUICK), one("real", REAL)]
                    .into_iter()
                    .chain(moved)
                    .collect(),
                vec![
                    lab.http_server(POLLS, Behaviour::AnswerAfter(POLL)),
                    lab.http_server(REPORTS, Behaviour::AnswerAfter(REPORT)),
                    lab.line_server(POOLED, Behaviour::IdleClose(IDLE)),
                ],
                peers,
            ),
        }
    }
}

/// Who calls, by the name of the load.
pub struct Loads {
    /// Storm clients. A load may be of several.
    pub storms: BTreeMap<String, Vec<Load>>,
    /// What speaks in peers.py.
    pub peers: BTreeMap<&'static str, Process>,
    /// Unmodified clients.
    pub real: Vec<(RealClient, Process)>,
    /// When servers of [`Services::deployed`] did not listen.
    pub away: Vec<Away>,
}

/// A server that is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Away {
    /// Which.
    pub server: usize,
    /// It was told to go: seconds of the day.
    pub from: f64,
    /// It listens again.
    pub to: f64,
}

impl Loads {
    /// Starts those that are there from the beginning.
    pub fn start(stage: &Stage<'_>, of: Length, length: f64) -> Self {
        let mut loads = Self {
            storms: BTreeMap::new(),
            peers: BTreeMap::new(),
            real: Vec::new(),
            away: Vec::new(),
        };
        let pool = "--retry none --connections pool --pool 100";
        let burst = |at: f64| format!("--at-once 200 --at {}", span(length * at));
        loads.crowd(
            stage,
            "web",
            (Ipv4Addr::LOCALHOST, WEB),
            10.0,
            length,
            &format!("{pool} {}", burst(0.1)),
        );
        loads.crowd(
            stage,
            "fresh",
            (Ipv4Addr::LOCALHOST, WEB),
            10.0,
            length,
            &format!("--retry none {}", burst(0.25)),
        );
        loads.crowd(
            stage,
            "calls",
            (Ipv4Addr::LOCALHOST, CALLS),
            400.0,
            length,
            "--retry none",
        );
        loads.crowd(
            stage,
            "mix",
            (Ipv4Addr::LOCALHOST, QUICK),
            40.0,
            length / 2.0,
            pool,
        );
        loads.crowd(
            stage,
            "shift",
            (Ipv4Addr::LOCALHOST, SHIFT),
            20.0,
            length - 1.0,
            &format!("{pool} --answer-timeout 10s"),
        );
        for backend in 1..=BACKENDS {
            let at = |net: u8, port: u16| (Ipv4Addr::new(127, 0, net, backend as u8), port);
            let with_retries = "--retry exponential --tries 4 --connections pool";
            loads.crowd(
                stage,
                &format!("deployed-{backend}"),
                at(3, DEPLOYED),
                10.0,
                length,
                with_retries,
            );
            loads.crowd(
                stage,
                &format!("partial-{backend}"),
                at(4, PARTIAL),
                20.0,
                length,
                "--retry none",
            );
        }
        loads.at_each(stage, "half", (5, HALF), &[10.0; 2], length);
        let rounds = (length / POLL.as_secs_f64()) as usize;
        if rounds > 0 {
            // Of the same workload as the calls beside them.
            let polls = format!(
                "longpoll 127.0.0.1:{POLLS} --speak http --connections 200 --rounds {rounds} --for {}",
                span(length)
            );
            loads.add(stage, "calls", "polls", &polls);
        }
        let seconds = length - 2.0;
        let pools = format!("pool 127.0.0.1:{POOLED} --connections 300 --for 2s");
        loads.add(stage, "warm-up", "warm-up", &pools);
        let churn = format!(
            "keepalive 127.0.0.1:{POOLED} --speak line --connections 60 --exchanges {} --gap {} --answer-timeout 5s --for {}",
            (seconds / IDLE.as_secs_f64()) as usize,
            span(IDLE.as_secs_f64() * 4.0),
            span(seconds),
        );
        loads.add(stage, "churn", "churn", &churn);
        for name in PEER_LOADS {
            let command = peer(&[name, &seconds.to_string()]);
            let load = stage.within(name, |place| Process::start(command, place));
            loads.peers.insert(name, load);
        }
        let work = Work {
            operations: (length * 0.6) as u32,
            targets: Targets::Hot,
            // Then each operation is one try, and what they print of it is the log of a first try.
            retries: 0,
            timeout: Duration::from_secs(10),
            pause: Duration::from_secs(1),
        };
        let all = &RealClient::OF_EACH_LANGUAGE;
        // The others take longer to start than a fast day lasts.
        for client in of.pick(&all[..2], all, all) {
            let command = client.command(&format!("http://127.0.0.1:{REAL}"), &work);
            let workload = format!("real-{client:?}").to_lowercase();
            let load = stage.within(&workload, |place| Process::start(command, place));
            loads.real.push((*client, load));
        }
        loads
    }

    /// The host has moved: those who call it go where it is for so many seconds.
    pub fn move_to(&mut self, stage: &Stage<'_>, address: Ipv4Addr, seconds: f64) {
        self.crowd(
            stage,
            "moved",
            (address, MOVED),
            20.0,
            seconds,
            "--retry none",
        );
    }

    /// Many call three backends, two of which will refuse.
    pub fn thirds(&mut self, stage: &Stage<'_>, seconds: f64) {
        self.at_each(stage, "thirds", (6, THIRDS), &[100.0; BACKENDS], seconds);
    }

    /// Very many call three backends, one of which will refuse: who guesses retries by
    /// what a workload does takes half of the first tries for some.
    pub fn guessed(&mut self, stage: &Stage<'_>, seconds: f64) {
        self.at_each(stage, "guessed", (7, GUESSED), &[333.0; BACKENDS], seconds);
    }

    /// Calls each backend so often, without retries: `name-1` and so on.
    fn at_each(
        &mut self,
        stage: &Stage<'_>,
        name: &str,
        (net, port): (u8, u16),
        rates: &[f64],
        seconds: f64,
    ) {
        for (backend, rate) in (1..).zip(rates) {
            let crowd = format!(
                "crowd 127.0.{net}.{backend}:{port} --name {name}-{backend} --rate {rate} --for {} --retry none",
                span(seconds)
            );
            self.add(stage, name, &format!("{name}-{backend}"), &crowd);
        }
    }

    /// Ten times as many as before.
    pub fn grow(&mut self, stage: &Stage<'_>, seconds: f64) {
        let pool = "--retry none --connections pool --pool 100";
        self.crowd(
            stage,
            "web",
            (Ipv4Addr::LOCALHOST, WEB),
            90.0,
            seconds,
            pool,
        );
    }

    /// Fewer quick calls, and many that take long.
    pub fn shift_mix(&mut self, stage: &Stage<'_>, seconds: f64) {
        let pool = "--retry none --connections pool --pool 200";
        self.crowd(
            stage,
            "mix",
            (Ipv4Addr::LOCALHOST, QUICK),
            5.0,
            seconds,
            pool,
        );
        let patient = format!("{pool} --answer-timeout 10s");
        self.crowd(
            stage,
            "mix",
            (Ipv4Addr::LOCALHOST, REPORTS),
            35.0,
            seconds - 2.0,
            &patient,
        );
    }

    fn crowd(
        &mut self,
        stage: &Stage<'_>,
        name: &str,
        to: (Ipv4Addr, u16),
        rate: f64,
        seconds: f64,
        options: &str,
    ) {
        let (address, port) = to;
        let seconds = span(seconds);
        let crowd =
            format!("crowd {address}:{port} --name {name} --rate {rate} --for {seconds} {options}");
        self.add(stage, name, name, &crowd);
    }

    fn add(&mut self, stage: &Stage<'_>, workload: &str, name: &str, arguments: &str) {
        let storm = stage.load(workload, arguments);
        self.storms.entry(name.to_owned()).or_default().push(storm);
    }
}

/// Waits until somebody listens there.
#[track_caller]
fn until_listening(stage: &Stage<'_>, port: u16) {
    let asked = Instant::now();
    let address = (Ipv4Addr::LOCALHOST, port);
    while stage
        .lab()
        .netns()
        .run(|| TcpStream::connect(address))
        .is_err()
    {
        assert!(
            asked.elapsed() < STARTS_WITHIN,
            "nobody listens at port {port}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// As command lines have it.
fn span(seconds: f64) -> String {
    format!("{:.0}ms", seconds * 1e3)
}

fn peer(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", PEERS]).args(arguments);
    command
}
