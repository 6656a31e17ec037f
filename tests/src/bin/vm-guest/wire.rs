//! Callers behind a device whose queue keeps times, and a server at the other end of the wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use governor_tests::dial::Dialler;
use governor_tests::lab::Lab;
use governor_tests::netns::Netns;
use governor_tests::place::Place;
use governor_tests::process;
use governor_tests::veth::Veth;

use crate::load::LIMIT;

/// Where servers listen.
pub const PORT: u16 = 8080;
pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
pub const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
/// Patience with a segment.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two networks joined by a wire.
#[derive(Debug)]
pub struct Wire {
    /// Of the callers.
    pub lab: Lab,
    /// Of the server.
    pub elsewhere: Netns,
    veth: Veth,
}

impl Wire {
    /// Up, with `fq` at the callers' end.
    pub fn new() -> Self {
        let (lab, elsewhere) = (Lab::unchecked(), Netns::create());
        let veth = Veth::between(lab.netns(), &elsewhere);
        let wire = Self {
            lab,
            elsewhere,
            veth,
        };
        wire.tc(&["qdisc", "add", "dev", wire.device(), "root", "fq"]);
        wire
    }

    /// The callers' end.
    pub fn device(&self) -> &str {
        &self.veth.left.device
    }

    /// The server's addresses.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        let end = &self.veth.right;
        [end.v4, end.v6].map(|address| SocketAddr::new(address, PORT))
    }

    /// Our filters at the callers' end.
    pub fn filters(&self) -> Vec<u32> {
        filters(&self.tc(&["filter", "show", "dev", self.device(), "egress"]))
    }

    fn tc(&self, arguments: &[&str]) -> String {
        tc(arguments, &Place::default().in_netns(self.lab.netns()))
    }

    /// A server for whatever comes to this address, over the wire or on the callers' own loopback.
    pub fn listen(&self, address: IpAddr) -> TcpListener {
        let at = match address.is_loopback() {
            true => self.lab.netns(),
            false => &self.elsewhere,
        };
        let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
        at.run(|| TcpListener::bind(everywhere))
            .expect("the port is not in use")
    }
}

/// The programs of ours at the egress of a device of the machine itself.
pub fn filters_at(device: &str) -> Vec<u32> {
    let shown = tc(
        &["filter", "show", "dev", device, "egress"],
        &Place::default(),
    );
    filters(&shown)
}

fn tc(arguments: &[&str], place: &Place<'_>) -> String {
    let mut command = Command::new("tc");
    command.args(arguments);
    process::run(command, place, LIMIT).expect_success().stdout
}

/// Numbers of programs: `... handle 0x52470000 act_egress direct-action not_in_hw id 41 tag ...`.
fn filters(shown: &str) -> Vec<u32> {
    let ours = shown.lines().filter(|line| line.contains("act_egress"));
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| *word == "id")?;
        words.next()?.parse().ok()
    };
    ours.map(|line| number(line).expect("it has a number"))
        .collect()
}

/// Both ends of a connection.
#[derive(Debug)]
pub struct Pair {
    /// The governed one.
    pub caller: TcpStream,
    server: TcpStream,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server has it.
    Reached,
    /// The caller has heard this, to the end of the connection, and the server was reset.
    Refused(String),
}

impl Pair {
    /// A new one.
    pub fn new(callers: &Dialler, listener: &TcpListener, address: SocketAddr) -> Self {
        let caller = callers.connect(address);
        let (server, _) = listener.accept().expect("it has connected");
        for end in [&caller, &server] {
            end.set_read_timeout(Some(PATIENCE)).expect("it is open");
        }
        Self { caller, server }
    }

    /// Sends a request.
    pub fn send(&mut self, request: &str) -> Fate {
        self.caller
            .write_all(request.as_bytes())
            .expect("it is open");
        let mut arrived = vec![0; request.len()];
        match self.server.read_exact(&mut arrived) {
            Ok(()) => {
                assert_eq!(arrived, request.as_bytes());
                return Fate::Reached;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        let mut heard = String::new();
        self.caller.read_to_string(&mut heard).expect("an answer");
        Fate::Refused(heard)
    }

    /// The server's answer.
    pub fn answer(&mut self, answer: &str) {
        self.server
            .write_all(answer.as_bytes())
            .expect("it is open");
        let mut heard = vec![0; answer.len()];
        self.caller.read_exact(&mut heard).expect("an answer");
        assert_eq!(heard, answer.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_filters_are_found_in_what_tc_shows() {
        let shown = "filter protocol all pref 1 bpf chain 0 \n\
            filter protocol all pref 1 bpf chain 0 handle 0x52470001 act_egress direct-action not_in_hw id 41 tag 1f2e jited \n\
            filter protocol all pref 2 bpf chain 0 handle 0x1 other direct-action not_in_hw id 42 tag 1f2f jited \n";
        assert_eq!(filters(shown), [41]);
        assert!(filters("").is_empty());
    }
}
