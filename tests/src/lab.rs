//! The usual set of a test: one network namespace, one cgroup, callers and servers in them.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use crate::caller::{Caller, Storm};
use crate::cgroup::Cgroup;
use crate::netns::Netns;
use crate::nft::{Blackhole, PortCounter};
use crate::place::Place;
use crate::preflight;
use crate::process::{self, Finished};
use crate::server::{Behaviour, Protocol, Server};
use crate::storm::exchange::Speech;
use crate::storm::report::Report;

/// A namespace with loopback only and a cgroup for the callers. Servers run in the test's own
/// cgroup, so that what is attached to the lab's cgroup sees callers alone.
#[derive(Debug)]
pub struct Lab {
    cgroup: Cgroup,
    netns: Netns,
}

impl Lab {
    /// Checks the machine, then makes both.
    #[track_caller]
    pub fn new() -> Self {
        preflight::require_kernel();
        Self::unchecked()
    }

    /// On a machine that was made for the test, and has what it needs.
    pub fn unchecked() -> Self {
        Self {
            cgroup: Cgroup::create("callers"),
            netns: Netns::create(),
        }
    }

    /// The callers' cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// The network.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Where callers live.
    pub fn place(&self) -> Place<'_> {
        Place::new(&self.netns, &self.cgroup)
    }

    /// A loopback address of the lab.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    /// An HTTP server.
    pub fn http_server(&self, port: u16, behaviour: Behaviour) -> Server {
        Server::start(&self.netns, port, Protocol::Http, behaviour)
    }

    /// A server of an opaque protocol.
    pub fn line_server(&self, port: u16, behaviour: Behaviour) -> Server {
        Server::start(&self.netns, port, Protocol::Line, behaviour)
    }

    /// Counts the SYNs that reach `port` from now on.
    pub fn count_syns(&self, port: u16) -> PortCounter<'_> {
        PortCounter::start(&self.netns, port)
    }

    /// Swallows the SYNs to `port` until the guard is dropped.
    pub fn blackhole(&self, port: u16) -> Blackhole<'_> {
        Blackhole::dig(&self.netns, port)
    }

    /// Runs the storm client among the callers to its end.
    #[track_caller]
    pub fn storm(&self, arguments: &str, limit: Duration) -> Report {
        Storm::start(arguments, &self.place()).finish(limit)
    }

    /// Starts the storm client among the callers.
    pub fn start_storm(&self, arguments: &str) -> Storm {
        Storm::start(arguments, &self.place())
    }

    /// Starts a caller that the test leads step by step.
    pub fn caller(&self, port: u16, speech: Speech) -> Caller {
        Caller::start(self.address(port), speech, &self.place())
    }

    /// The same, for an address of any family: `[::1]:80`, `[::ffff:127.0.0.1]:80`.
    pub fn caller_of(&self, address: SocketAddr, speech: Speech) -> Caller {
        Caller::start(address, speech, &self.place())
    }

    /// Runs any program among the callers to its end.
    #[track_caller]
    pub fn run(&self, command: Command, limit: Duration) -> Finished {
        process::run(command, &self.place(), limit)
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}
