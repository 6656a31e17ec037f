//! What the programs on the stage print, line by line.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::record::{End, Sample, Seconds, Try};

/// Microseconds of CLOCK_MONOTONIC: the one clock of all programs on the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Micros(pub u64);

impl Micros {
    /// This moment.
    pub fn now() -> Result<Self> {
        let now = nix::time::ClockId::CLOCK_MONOTONIC.now()?;
        Ok(Self(std::time::Duration::from(now).as_micros() as u64))
    }

    /// The time since `start`; before it, a negative one.
    pub fn since(self, start: Self) -> Seconds {
        Seconds((self.0 as f64 - start.0 as f64) / 1e6)
    }
}

/// Length of a slot of the service.
const SLOT: u64 = 50_000;

/// One line of `storm-service`: what happened in a slot.
#[derive(Deserialize)]
struct Slot {
    /// Its beginning.
    t: Micros,
    /// By caller.
    arrived: BTreeMap<String, u64>,
    wasted: u64,
    waiting: u64,
}

/// The service's counts up to the end of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCounts {
    t: Micros,
    arrived: u64,
    wasted: u64,
    waiting: u64,
}

/// Adds up the lines of the service.
#[derive(Debug, Default)]
pub struct ServiceFeed {
    arrived: u64,
    wasted: u64,
}

impl ServiceFeed {
    /// Reads the next line.
    pub fn hear(&mut self, line: &str) -> Result<ServiceCounts> {
        let slot: Slot =
            serde_json::from_str(line).with_context(|| format!("the service said: {line}"))?;
        self.arrived += slot.arrived.values().sum::<u64>();
        self.wasted += slot.wasted;
        Ok(ServiceCounts {
            t: Micros(slot.t.0 + SLOT),
            arrived: self.arrived,
            wasted: self.wasted,
            waiting: slot.waiting,
        })
    }
}

impl ServiceCounts {
    /// Placed in a scene that began at `start`.
    pub fn sample(&self, start: Micros) -> Sample {
        Sample {
            t: self.t.since(start),
            arrived: self.arrived,
            wasted: self.wasted,
            waiting: self.waiting,
        }
    }
}

/// One line of the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerLine {
    /// A try of the legacy client.
    Try(ClientTry),
    /// The end of a curl.
    Curl(CurlEnd),
    /// Of no interest: the totals that the legacy client prints last.
    Totals,
}

/// How a run of curl ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurlEnd {
    /// With an answer.
    Good,
    /// With none.
    Failed,
}

/// One line of `storm-client`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ClientTry {
    /// When it began.
    pub t: Micros,
    micros: u64,
    op: u64,
    attempt: u32,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Ok,
    Refused,
    /// An error of the client's machine, not of the service: the run shows nothing.
    Other,
    #[serde(other)]
    Failed,
}

impl CallerLine {
    /// Reads it.
    pub fn parse(line: &str) -> Result<Self> {
        Ok(match line {
            "curl ok" => Self::Curl(CurlEnd::Good),
            "curl failed" => Self::Curl(CurlEnd::Failed),
            line if line.starts_with("{\"summary\"") => Self::Totals,
            line => {
                let each: ClientTry = serde_json::from_str(line)
                    .with_context(|| format!("the callers said: {line}"))?;
                if each.outcome == Outcome::Other {
                    bail!("a caller has trouble of its own: {line}");
                }
                Self::Try(each)
            }
        })
    }
}

impl ClientTry {
    /// Placed in a scene that began at `start`.
    pub fn placed(&self, start: Micros) -> Try {
        Try {
            began: self.t.since(start),
            took: Seconds(self.micros as f64 / 1e6),
            call: self.op,
            number: self.attempt,
            end: match self.outcome {
                Outcome::Ok => End::Good,
                Outcome::Refused => End::Refused,
                Outcome::Other | Outcome::Failed => End::Failed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_callers_is_understood() {
        let line = r#"{"t":3000000,"pid":7,"op":5,"attempt":2,"outcome":"answerTimeout","micros":1000000}"#;
        let CallerLine::Try(each) = CallerLine::parse(line).unwrap() else {
            panic!("no try");
        };
        let placed = each.placed(Micros(1_000_000));
        assert_eq!((placed.began, placed.took), (Seconds(2.0), Seconds(1.0)));
        assert_eq!(
            (placed.call, placed.number, placed.end),
            (5, 2, End::Failed)
        );
        assert_eq!(
            CallerLine::parse("curl failed").unwrap(),
            CallerLine::Curl(CurlEnd::Failed)
        );
        assert_eq!(
            CallerLine::parse(r#"{"summary":{}}"#).unwrap(),
            CallerLine::Totals
        );
        assert!(CallerLine::parse("Segmentation fault").is_err());
    }

    #[test]
    fn trouble_of_the_client_itself_is_no_failure_of_the_service() {
        let line = r#"{"t":1,"pid":7,"op":5,"attempt":1,"outcome":"other","errno":24,"micros":10}"#;
        let error = CallerLine::parse(line).unwrap_err();
        assert!(error.to_string().contains("trouble of its own"), "{error}");
    }

    #[test]
    fn the_slots_of_the_service_add_up() {
        let lines = [
            r#"{"t":1450000,"arrived":{"a":5},"wasted":0,"waiting":3,"capacity":200.0}"#,
            r#"{"t":1500000,"arrived":{"a":1,"b":3},"wasted":1,"waiting":2,"capacity":200.0}"#,
        ];
        let mut feed = ServiceFeed::default();
        let [_, last] = lines.map(|line| feed.hear(line).unwrap());
        let sample = last.sample(Micros(1_000_000));
        assert_eq!((sample.t, sample.arrived), (Seconds(0.55), 9));
        assert_eq!((sample.wasted, sample.waiting), (1, 2));
        assert!(feed.hear("error: no").is_err());
    }
}
