//! The fault switch: orders, a line each.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// How requests are treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    /// As well as it can.
    Serve,
    /// The queue does not move.
    Stall,
    /// As a dead process: no listener, and open connections are closed.
    Refuse,
    /// This share of requests, percent, is answered with a status at once, past the queue.
    Status(u16, u8),
    /// This share of requests, percent, is never answered.
    Hang(u8),
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// To treat requests so from now on.
    Mood(Mood),
    /// To be so many times slower.
    Slow(f64),
    /// To be able to do so much a second.
    Capacity(f64),
    /// To be cold again.
    Cold,
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let percent = |text: &str| -> Result<u8> {
            let share = text.parse().context("percent")?;
            ensure!(share <= 100, "percent: at most 100");
            Ok(share)
        };
        let positive = |text: &str| -> Result<f64> {
            let number = text.parse().context("number")?;
            ensure!(number > 0.0, "number: must be above 0");
            Ok(number)
        };
        Ok(match words.as_slice() {
            ["serve"] => Self::Mood(Mood::Serve),
            ["stall"] => Self::Mood(Mood::Stall),
            ["refuse"] => Self::Mood(Mood::Refuse),
            ["status", code] => Self::Mood(Mood::Status(code.parse().context("status")?, 100)),
            ["status", code, share] => Self::Mood(Mood::Status(
                code.parse().context("status")?,
                percent(share)?,
            )),
            ["hang"] => Self::Mood(Mood::Hang(100)),
            ["hang", share] => Self::Mood(Mood::Hang(percent(share)?)),
            ["slow", factor] => Self::Slow(positive(factor)?),
            ["capacity", rate] => Self::Capacity(positive(rate)?),
            ["cold"] => Self::Cold,
            _ => bail!(
                "{line}: unknown order (serve, stall, refuse, status CODE [PERCENT], hang [PERCENT], slow FACTOR, capacity RATE, cold)"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_others_are_named() {
        let read = |line: &str| line.parse::<Order>();
        assert_eq!(
            read("status 503 50").unwrap(),
            Order::Mood(Mood::Status(503, 50))
        );
        assert_eq!(read("slow 2.5").unwrap(), Order::Slow(2.5));
        for bad in ["", "status", "hang 101", "slow 0", "slow -1", "sleep"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
