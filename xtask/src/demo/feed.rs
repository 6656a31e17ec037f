//! What the programs on the stage print, line by line.

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

/// One line of `demo-service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ServiceLine {
    t: Micros,
    arrived: u64,
    wasted: u64,
    waiting: u64,
}

impl ServiceLine {
    /// Reads it.
    pub fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line).with_context(|| format!("the service said: {line}"))
    }

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
    fn the_service_tells_its_counts() {
        let line = r#"{"t":1500000,"arrived":9,"answered":6,"wasted":1,"waiting":2}"#;
        let sample = ServiceLine::parse(line).unwrap().sample(Micros(1_000_000));
        assert_eq!((sample.t, sample.arrived), (Seconds(0.5), 9));
        assert_eq!((sample.wasted, sample.waiting), (1, 2));
    }
}
