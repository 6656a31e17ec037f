//! How a command fails: one line, and an exit code that scripts can rely on.

use std::error::Error;
use std::fmt;

use crate::policy::PolicyError;

/// What a command returns.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The exit codes of failures. `exec` otherwise ends with its child's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It failed at run time.
    Failed = 1,
    /// Wrong usage, or an invalid policy.
    Usage = 2,
    /// No daemon at the socket.
    NoDaemon = 3,
    /// The kernel lacks a feature, or we lack a privilege.
    Missing = 4,
    /// `exec`: the command can't be run, as env(1) says it.
    CannotRun = 126,
    /// `exec`: there is no such command, as env(1) says it.
    NotFound = 127,
}

/// A failure, as the user sees it: `error: what: why (hint)`.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Without the `error: ` before them; more than one for policies only.
    lines: Vec<String>,
}

impl Failure {
    /// `what: why`.
    pub fn new(exit: Exit, what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self {
            exit,
            lines: vec![one_line(&format!("{what}: {why}"))],
        }
    }

    /// It failed at run time.
    pub fn failed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, what, why)
    }

    /// The kernel lacks a feature, or we lack a privilege.
    pub fn missing(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(Exit::Missing, what, why)
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        if let Some(line) = self.lines.last_mut() {
            line.push_str(&one_line(&format!(" ({hint})")));
        }
        self
    }
}

/// An error never breaks the line: logs and scripts read it by lines. The
/// number that the standard library adds to the words says nothing new.
fn one_line(text: &str) -> String {
    let joined = text
        .split(['\n', '\r'])
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("; ");
    let mut line = String::with_capacity(joined.len());
    let mut rest = joined.as_str();
    while let Some((before, after)) = rest.split_once(" (os error ") {
        line.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    line + rest
}

/// An error with what caused it, each cause once: some errors repeat the next.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let links: Vec<_> = anyhow::Chain::new(error).map(ToString::to_string).collect();
    let said_next = |index: usize, link: &str| {
        links
            .get(index + 1)
            .is_some_and(|next: &String| next.contains(link))
    };
    let links = links
        .iter()
        .enumerate()
        .filter(|(index, link)| !said_next(*index, link));
    links
        .map(|(_, link)| link.as_str())
        .collect::<Vec<_>>()
        .join(": ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}error: {line}")?;
        }
        Ok(())
    }
}

impl Error for Failure {}

impl From<Vec<PolicyError>> for Failure {
    fn from(errors: Vec<PolicyError>) -> Self {
        let strip = |error: PolicyError| {
            let line = error.to_string();
            line.strip_prefix("error: ")
                .map_or(line.clone(), str::to_owned)
        };
        Self {
            exit: Exit::Usage,
            lines: errors.into_iter().map(strip).collect(),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(failure) => failure,
            Err(error) => Self {
                exit: Exit::Failed,
                lines: vec![one_line(&format!("{error:#}"))],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line() {
        let failure = Failure::missing("cgroup2", "not\nmounted").hint("mount it");
        assert_eq!(
            failure.to_string(),
            "error: cgroup2: not; mounted (mount it)"
        );
        assert_eq!(failure.exit as u8, 4);
        let missing = std::io::Error::from_raw_os_error(libc::ENOENT);
        let failure = Failure::failed("x", format!("{missing}: y"));
        assert_eq!(
            failure.to_string(),
            "error: x: No such file or directory: y"
        );
    }

    #[test]
    fn a_failure_keeps_its_exit_code_on_its_way_through_anyhow() {
        let error = anyhow::Error::from(Failure::missing("bpf", "no"));
        assert_eq!(Failure::from(error).exit, Exit::Missing);
    }
}
