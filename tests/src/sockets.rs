//! The TCP sockets of a network namespace, as the kernel lists them.

use std::fs;

use anyhow::{Context, Result};

use crate::must;
use crate::netns::Netns;

/// States of `/proc/net/tcp` (include/net/tcp_states.h).
const TIME_WAIT: &str = "06";
const LISTEN: &str = "0A";

/// The sockets with `port` at either end that still are connections: `local remote state`.
/// Listeners are none, and TIME_WAIT is only a memory of one.
pub fn connections_of(netns: &Netns, port: u16) -> Vec<String> {
    let end = format!(":{port:04X}");
    let of_this_port = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
        let ours = local.ends_with(&end) || remote.ends_with(&end);
        let alive = state != TIME_WAIT && state != LISTEN;
        (ours && alive).then(|| format!("{local} {remote} {state}"))
    };
    let listed = must(netns.run(list).context("cannot list sockets"));
    listed.lines().filter_map(of_this_port).collect()
}

fn list() -> Result<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    Ok(read("tcp")? + &read("tcp6")?)
}
