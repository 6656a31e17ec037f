//! What the kernel sees of HTTP/1 on real sockets: each request once, whatever the segments, and how
//! it ended. The test holds both ends of each connection, so that every segment is as it says.

#![expect(
    clippy::unwrap_used,
    reason = "what a test needs and cannot have fails it"
)]

mod adoption;
mod answers;
mod bodies;
mod calm;
mod equal;
mod heads;
mod healthy;
mod hops;
mod loss;
mod opaque;
mod outcomes;
mod pushback;

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use governor_tests::dial::{Dialler, under_exec};
use governor_tests::governed::PolicyFile;
use governor_tests::governor::destination_of;
use governor_tests::lab::Lab;
use serde_json::Value;

/// Patience with a segment: TCP may have to send it again.
const PATIENCE: Duration = Duration::from_secs(5);
/// More does not fit the buffers of a connection for sure: it is read while it is written.
const LARGE: usize = 16_000;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

/// A request for `path` without a body.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: shop\r\nUser-Agent: till\r\n\r\n")
}

/// Callers, and what is to be seen of them.
struct Stage<'a> {
    lab: &'a Lab,
    callers: &'a Dialler,
    next: Cell<u16>,
    expected: RefCell<Vec<(SocketAddr, String)>>,
}

impl<'a> Stage<'a> {
    fn new(lab: &'a Lab, callers: &'a Dialler) -> Self {
        Self {
            lab,
            callers,
            next: Cell::new(8000),
            expected: RefCell::default(),
        }
    }

    /// A connection to a destination of its own, of which this will be seen: [`seen`].
    fn wire(&self, expected: impl Into<String>) -> Wire {
        self.wire_to(|port| self.lab.address(port), expected)
    }

    /// The same, to an address of the lab.
    fn wire_to(&self, address: impl Fn(u16) -> SocketAddr, expected: impl Into<String>) -> Wire {
        let port = self.destination(&address, expected);
        let listener = listen(self.lab, port);
        Wire::new(&listener, self.callers, address(port))
    }

    /// Connections to one destination.
    fn wires(&self, count: usize, expected: impl Into<String>) -> Vec<Wire> {
        let address = |port| self.lab.address(port);
        let port = self.destination(address, expected);
        let listener = listen(self.lab, port);
        let wire = |_| Wire::new(&listener, self.callers, address(port));
        (0..count).map(wire).collect()
    }

    fn destination(&self, address: impl Fn(u16) -> SocketAddr, expected: impl Into<String>) -> u16 {
        let port = self.next.replace(self.next.get() + 1);
        let mut all = self.expected.borrow_mut();
        all.push((address(port), expected.into()));
        port
    }
}

/// Compares what was expected with a summary or a status.
#[track_caller]
fn check(expected: RefCell<Vec<(SocketAddr, String)>>, status: &Value) {
    for (address, expected) in expected.into_inner() {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let destination = destination_of(status, &address.to_string());
        assert_eq!(seen(destination), expected, "{destination}");
    }
}

fn listen(lab: &Lab, port: u16) -> TcpListener {
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    lab.netns().run(|| TcpListener::bind(everywhere)).unwrap()
}

/// `work` on a new stage under the default policy, less the rules that stop whole endpoints: what
/// they do is not what is tested here. Then what was expected is compared with what was seen: the
/// summary.
#[track_caller]
fn on_stage(work: impl FnOnce(&Stage<'_>)) -> Value {
    let spec = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}";
    on_stage_of(&PolicyFile::enforce(spec), work)
}

/// The same under any policy.
#[track_caller]
fn on_stage_of(policy: &PolicyFile, work: impl FnOnce(&Stage<'_>)) -> Value {
    let lab = Lab::new();
    let (expected, executed) = under_exec(&lab, &["--policy", &policy.path()], |callers| {
        let stage = Stage::new(&lab, callers);
        work(&stage);
        stage.expected
    });
    println!("{}", executed.finished.stderr);
    let summary = executed.summary.expect("a summary");
    check(expected, &summary);
    summary
}

/// What a status has of a destination, in words: `3 sent, 2 well, 1 status 503`.
fn seen(destination: &Value) -> String {
    let mut words = Vec::new();
    let mut word = |count: &Value, what: &str| {
        let count = count.as_u64().unwrap_or(0);
        if count > 0 {
            words.push(format!("{count} {what}"));
        }
    };
    let requests = &destination["requests"];
    word(&requests["sent"], "sent");
    word(&requests["unread"], "unread");
    word(&requests["unreached"], "out of reach");
    word(&destination["successes"], "well");
    let failures = destination["failures"].as_object().unwrap();
    for (kind, count) in failures.iter().filter(|(_, count)| count.is_u64()) {
        word(count, kind);
    }
    for (code, count) in failures["status"].as_object().unwrap() {
        word(count, &format!("status {code}"));
    }
    word(&destination["retries"], "retries");
    for denied in ["denied", "wouldDeny"] {
        for (reason, count) in destination[denied].as_object().unwrap() {
            word(count, &format!("{denied} {reason}"));
        }
    }
    words.join(", ")
}

/// Both ends of a connection.
struct Wire {
    caller: TcpStream,
    server: TcpStream,
}

impl Wire {
    fn new(listener: &TcpListener, callers: &Dialler, address: SocketAddr) -> Self {
        let caller = callers.connect(address);
        let (server, _) = listener.accept().unwrap();
        for end in [&caller, &server] {
            end.set_nodelay(true).unwrap();
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Self { caller, server }
    }

    fn port(&self) -> u16 {
        self.server.local_addr().unwrap().port()
    }

    /// The caller sends each part, which the server reads before the next is sent: a segment each.
    fn say<P: AsRef<[u8]>>(&mut self, parts: &[P]) {
        pass(&mut self.caller, &mut self.server, parts);
    }

    /// The server answers, in the same way.
    fn answer<P: AsRef<[u8]>>(&mut self, parts: &[P]) {
        pass(&mut self.server, &mut self.caller, parts);
    }

    /// A request and its answer, a segment each.
    fn exchange(&mut self, request: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
        self.say(&[request]);
        self.answer(&[answer]);
    }

    /// A request that is refused: what the caller hears, to the end.
    fn refused(mut self, request: &str) -> String {
        self.caller.write_all(request.as_bytes()).unwrap();
        let mut heard = String::new();
        self.caller.read_to_string(&mut heard).unwrap();
        heard
    }
}

fn pass<P: AsRef<[u8]>>(from: &mut TcpStream, to: &mut TcpStream, parts: &[P]) {
    for part in parts {
        let part = part.as_ref();
        let mut heard = vec![0; part.len()];
        thread::scope(|scope| {
            if part.len() > LARGE {
                scope.spawn(|| from.write_all(part).unwrap());
            } else {
                from.write_all(part).unwrap();
            }
            to.read_exact(&mut heard).unwrap();
        });
        assert!(heard == part, "something else arrived");
    }
}

fn v6(port: u16) -> SocketAddr {
    (Ipv6Addr::LOCALHOST, port).into()
}

fn mapped(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port).into()
}
