//! One line of the report.

use serde::Serialize;

use crate::errors::Failure;

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// All is there.
    Ok,
    /// Something is lost.
    Degraded,
    /// Nothing works.
    Missing,
}

/// One line of the report.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Of what.
    pub check: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What is lost, or how to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Check {
    /// All is there.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            state: State::Ok,
            found: found.into(),
            hint: None,
        }
    }

    /// It works, and something is lost.
    pub fn degraded(
        check: &'static str,
        found: impl Into<String>,
        lost: impl Into<String>,
    ) -> Self {
        Self {
            check,
            state: State::Degraded,
            found: found.into(),
            hint: Some(lost.into()),
        }
    }

    /// It does not work; how to get it.
    pub fn missing(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            check,
            state: State::Missing,
            found: found.into(),
            hint: Some(remedy.into()),
        }
    }

    /// A failure as a line of the report.
    pub fn failed(check: &'static str, failure: &Failure) -> Self {
        let line = failure.to_string();
        let line = line.trim_start_matches("error: ");
        // `what: why (hint)`
        match line
            .strip_suffix(')')
            .and_then(|line| line.rsplit_once(" ("))
        {
            Some((found, remedy)) => Self::missing(check, found, remedy),
            None => Self {
                check,
                state: State::Missing,
                found: line.to_owned(),
                hint: None,
            },
        }
    }

    /// As a person reads it.
    pub fn line(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Degraded => "degraded",
            State::Missing => "missing",
        };
        let hint = self
            .hint
            .as_ref()
            .map_or(String::new(), |hint| format!(" ({hint})"));
        format!("{state:<9} {:<12} {}{hint}", self.check, self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_becomes_what_was_found_and_what_to_do() {
        let failure = Failure::missing("cgroup2", "not mounted").hint("mount it");
        let check = Check::failed("cgroup2", &failure);
        assert_eq!(
            check.line(),
            "missing   cgroup2      cgroup2: not mounted (mount it)"
        );
    }

    #[test]
    fn the_worst_line_decides() {
        assert!(State::Ok < State::Degraded && State::Degraded < State::Missing);
    }

    #[test]
    fn a_line_says_what_is_lost() {
        let check = Check::degraded("BTF", "absent", "less certain");
        assert_eq!(check.line(), "degraded  BTF          absent (less certain)");
        assert_eq!(
            Check::ok("kernel", "6.18").line(),
            "ok        kernel       6.18"
        );
    }
}
