//! Packet rules inside a namespace: count what reaches a port, or swallow it, or some of it, or refuse it.
//!
//! Each guard owns one nft table, so that dropping the guard takes back exactly its rule.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::netns::Netns;
use crate::{must, names};

/// A SYN that opens a connection, not the SYN of an answer.
const OPENING: &str = "tcp flags & (syn | ack) == syn";

/// Counts the SYNs that reach a port of a namespace, open, closed or blackholed.
/// A refused connect never reaches user space; this is where it shows. A SYN that TCP
/// sends again counts again.
#[derive(Debug)]
pub struct PortCounter<'a> {
    table: Table<'a>,
}

impl<'a> PortCounter<'a> {
    /// Starts to count at zero.
    pub fn start(netns: &'a Netns, port: u16) -> Self {
        // Before every filter: what a blackhole swallows has reached it.
        let rules = format!(
            "counter syns {{ }}\n\
             chain arrivals {{ type filter hook input priority raw; tcp dport {port} {OPENING} counter name syns; }}\n"
        );
        Self {
            table: Table::create(netns, &rules),
        }
    }

    /// SYNs so far.
    pub fn count(&self) -> u64 {
        must(self.read().context("cannot read the SYN counter"))
    }

    fn read(&self) -> Result<u64> {
        let listing = nft(
            self.table.netns,
            &["-j", "list", "counter", "inet", &self.table.name, "syns"],
            "",
        )?;
        let listing: Value = serde_json::from_str(&listing)?;
        let counters = listing["nftables"].as_array().into_iter().flatten();
        counters
            .filter_map(|entry| entry["counter"]["packets"].as_u64())
            .next()
            .ok_or_else(|| anyhow!("no counter in {listing}"))
    }
}

/// Swallows every SYN to a port while it lives: connects hang, nothing answers.
#[derive(Debug)]
pub struct Blackhole<'a> {
    _table: Table<'a>,
}

impl<'a> Blackhole<'a> {
    /// Opens the hole.
    pub fn dig(netns: &'a Netns, port: u16) -> Self {
        let rules = format!(
            "chain hole {{ type filter hook input priority filter; tcp dport {port} {OPENING} drop; }}\n"
        );
        Self {
            _table: Table::create(netns, &rules),
        }
    }
}

/// Answers every segment to a port with a reset while it lives, as the host of a dead process does: connects
/// are refused, kept connections end when they are used.
#[derive(Debug)]
pub struct Refusal<'a> {
    _table: Table<'a>,
}

impl<'a> Refusal<'a> {
    /// Begins to refuse.
    pub fn of(netns: &'a Netns, port: u16) -> Self {
        let rules = format!(
            "chain refusal {{ type filter hook input priority filter; tcp dport {port} reject with tcp reset; }}\n"
        );
        Self {
            _table: Table::create(netns, &rules),
        }
    }
}

/// Swallows segments with payload while it lives: TCP sends them again.
#[derive(Debug)]
pub struct Loss<'a> {
    _table: Table<'a>,
}

impl<'a> Loss<'a> {
    /// Of what is sent to a port.
    pub fn to(netns: &'a Netns, port: u16) -> Self {
        Self::of(netns, &format!("dport {port}"))
    }

    /// Of what comes from a port.
    pub fn from(netns: &'a Netns, port: u16) -> Self {
        Self::of(netns, &format!("sport {port}"))
    }

    fn of(netns: &'a Netns, side: &str) -> Self {
        let rules = format!(
            "chain loss {{ type filter hook input priority filter; tcp {side} tcp flags & psh == psh drop; }}\n"
        );
        Self {
            _table: Table::create(netns, &rules),
        }
    }
}

#[derive(Debug)]
struct Table<'a> {
    netns: &'a Netns,
    name: String,
}

impl<'a> Table<'a> {
    fn create(netns: &'a Netns, rules: &str) -> Self {
        let name = names::unique();
        must(
            nft(
                netns,
                &["-f", "-"],
                &format!("table inet {name} {{ {rules} }}"),
            )
            .context("cannot set nft rules"),
        );
        Self { netns, name }
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        if let Err(error) = nft(self.netns, &["delete", "table", "inet", &self.name], "") {
            eprintln!("harness: nft table {} stays: {error:#}", self.name);
        }
    }
}

fn nft(netns: &Netns, arguments: &[&str], input: &str) -> Result<String> {
    netns.run(|| {
        let mut command = Command::new("nft");
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .context("cannot start nft (package nftables)")?;
        child
            .stdin
            .take()
            .context("nft has no stdin")?
            .write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(
            output.status.success(),
            "nft: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    })
}
