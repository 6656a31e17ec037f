//! The fault switch: orders, a line each.

use std::io::{self, BufRead};
use std::str::FromStr;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::server::Percent;

/// How requests are treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    /// As well as it can.
    Serve,
    /// The queue does not move.
    Stall,
    /// So many times slower.
    Slow(f64),
    /// As a dead process: no listener, open connections are closed, and the queue is lost.
    Refuse,
    /// This share of requests is answered with a status at once, past the queue.
    Status(u16, Percent),
    /// This share of requests is never answered.
    Hang(Percent),
}

impl Mood {
    /// What of its capacity is left, 0..1.
    pub fn pace(self) -> f64 {
        match self {
            Self::Stall | Self::Refuse => 0.0,
            Self::Slow(factor) => 1.0 / factor,
            Self::Serve | Self::Status(..) | Self::Hang(_) => 1.0,
        }
    }
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// To treat requests so from now on.
    Mood(Mood),
    /// To be able to do so much a second.
    Capacity(f64),
    /// To be cold again.
    Cold,
}

/// The orders on standard input, from a thread that nobody has to wait for. They end with it.
pub fn given() -> UnboundedReceiver<Result<Order>> {
    let (give, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let order = line.context("orders").and_then(|line| line.parse());
            // The service has ended.
            if give.send(order).is_err() {
                return;
            }
        }
    });
    orders
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let order = match words.as_slice() {
            ["serve"] => Self::Mood(Mood::Serve),
            ["stall"] => Self::Mood(Mood::Stall),
            ["slow", factor] => Self::Mood(Mood::Slow(positive(factor)?)),
            ["refuse"] => Self::Mood(Mood::Refuse),
            ["status", code] => Self::Mood(Mood::Status(status(code)?, Percent(100))),
            ["status", code, share] => Self::Mood(Mood::Status(status(code)?, percent(share)?)),
            ["hang"] => Self::Mood(Mood::Hang(Percent(100))),
            ["hang", share] => Self::Mood(Mood::Hang(percent(share)?)),
            ["capacity", rate] => Self::Capacity(positive(rate)?),
            ["cold"] => Self::Cold,
            _ => bail!(
                "{line}: unknown order (serve, stall, slow FACTOR, refuse, status CODE [PERCENT], \
                 hang [PERCENT], capacity PER_SECOND, cold)"
            ),
        };
        Ok(order)
    }
}

fn percent(text: &str) -> Result<Percent> {
    let share = text.parse().ok().filter(|share| *share <= 100);
    share
        .map(Percent)
        .with_context(|| format!("{text}: no share (0 to 100)"))
}

fn positive(text: &str) -> Result<f64> {
    let number: f64 = text.parse().with_context(|| format!("{text}: no number"))?;
    ensure!(
        (1e-3..=1e6).contains(&number),
        "{text}: out of range (0.001 to 1000000)"
    );
    Ok(number)
}

fn status(text: &str) -> Result<u16> {
    let code = text.parse().ok().filter(|code| (200..600).contains(code));
    code.with_context(|| format!("{text}: no status (200 to 599)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_others_are_named() {
        let read = |line: &str| line.parse::<Order>();
        let mood = |line: &str| match read(line) {
            Ok(Order::Mood(mood)) => Some(mood),
            _ => None,
        };
        assert_eq!(mood("status 503 50"), Some(Mood::Status(503, Percent(50))));
        assert_eq!(mood("hang"), Some(Mood::Hang(Percent(100))));
        assert_eq!(mood("slow 2.5"), Some(Mood::Slow(2.5)));
        assert_eq!(read("capacity 500").unwrap(), Order::Capacity(500.0));
        assert_eq!(read("cold").unwrap(), Order::Cold);
        for bad in [
            "",
            "status",
            "status 99",
            "hang 101",
            "slow 0",
            "slow -1",
            "slow NaN",
            "sleep",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
