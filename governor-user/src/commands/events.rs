//! `retry-governor events`: what happened, in plain words.

use std::io::{self, Write as _};

use clap::Args;
use http_body_util::BodyExt as _;

use crate::client::{Client, Socket, block_on, segment};
use crate::daemon::eventlog::Entry;
use crate::errors::{Failure, Result};
use crate::printable::printable;

/// Show denials, breaker moves, policy changes and orders
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor events --destination auth
  retry-governor events --follow --json | jq .message")]
pub struct EventsArgs {
    /// Go on as they happen
    #[arg(long, short)]
    follow: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Only of this destination: a name of `status`, or ip:port
    #[arg(long, value_name = "D")]
    destination: Option<String>,
    #[command(flatten)]
    socket: Socket,
}

/// Runs it.
pub fn run(args: &EventsArgs) -> Result<()> {
    let mut path = format!("/v1/events?follow={}", args.follow);
    if let Some(destination) = &args.destination {
        path.push_str("&destination=");
        path.push_str(&segment(destination));
    }
    block_on(async {
        let mut body = Client::connect(&args.socket).await?.stream(&path).await?;
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Failure::failed("events", error).hint("the daemon ended"))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if show(&line, args.json).is_err() {
                    // Whoever read us has gone: `events | head`.
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

fn show(line: &[u8], json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match serde_json::from_slice::<Entry>(line) {
        Ok(entry) if !json => writeln!(out, "{}", plain(&entry))?,
        _ => out.write_all(line)?,
    }
    out.flush()
}

/// `2026-11-29T23:00:00.123Z  auth  message [/system.slice/a.service pid 7]`
fn plain(entry: &Entry) -> String {
    let mut text = format!("{}  {}", entry.at, entry.message);
    let who = match (&entry.workload, entry.pid, entry.by) {
        (Some(workload), Some(pid), _) => Some(format!("{workload}, pid {pid}")),
        (Some(workload), None, _) => Some(workload.clone()),
        (None, _, Some(by)) => Some(match by.pid {
            Some(pid) => format!("by uid {}, pid {pid}", by.uid),
            None => format!("by uid {}", by.uid),
        }),
        (None, _, None) => None,
    };
    if let Some(who) = who {
        text.push_str(&format!("  [{who}]"));
    }
    // One line, whatever a cgroup is called.
    printable(&text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::eventlog::{By, Kind};

    #[test]
    fn an_event_is_one_line_that_says_who() {
        let mut entry = Entry::now(Kind::Denied, "auth: refused, the retry budget is spent");
        entry.at = "T".to_owned();
        entry.workload = Some("/a.service".to_owned());
        entry.pid = Some(7);
        assert_eq!(
            plain(&entry),
            "T  auth: refused, the retry budget is spent  [/a.service, pid 7]"
        );
        entry.workload = Some("/a\u{1b}[31m\nb.service".to_owned());
        assert!(
            plain(&entry).ends_with("[/a\\u{1b}[31m\\nb.service, pid 7]"),
            "{}",
            plain(&entry)
        );
        let mut entry = Entry::now(Kind::Order, "retries off");
        entry.at = "T".to_owned();
        entry.by = Some(By {
            uid: 0,
            pid: Some(9),
        });
        assert_eq!(plain(&entry), "T  retries off  [by uid 0, pid 9]");
    }
}
