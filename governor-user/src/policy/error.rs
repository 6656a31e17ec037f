//! One mistake in a policy, as one line.

use std::fmt;

/// A place in a text; both count from 1. Line 0: the file as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The file as a whole.
    pub const FILE: Self = Self { line: 0, column: 0 };
}

/// Why there is no policy. The daemon starts without one (and only observes)
/// where none was ever written, but not where one is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file or directory is missing, or the directory is empty.
    Absent,
    /// There is something, and it can't be used.
    Invalid,
}

/// A mistake: where, in which key, what and why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// Column from 1; 0 where the file as a whole is meant.
    pub column: usize,
    /// `spec.retry.attempts`; empty where no key is meant.
    pub path: String,
    /// `what: why`.
    pub what: String,
    /// The next step.
    pub hint: Option<String>,
    /// Whether anything was there to be wrong.
    pub cause: Cause,
}

impl PolicyError {
    /// A mistake at a place in a file.
    pub fn at(file: &str, at: Position, path: &str, wrong: Wrong) -> Self {
        Self {
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            path: path.to_owned(),
            what: wrong.what,
            hint: wrong.hint,
            cause: Cause::Invalid,
        }
    }

    /// Something is wrong with the file as a whole.
    pub fn file(file: &str, wrong: Wrong) -> Self {
        Self::at(file, Position::FILE, "", wrong)
    }

    /// There is no policy at all.
    pub fn absent(file: &str, wrong: Wrong) -> Self {
        Self {
            cause: Cause::Absent,
            ..Self::file(file, wrong)
        }
    }

    /// Where it is.
    pub fn position(&self) -> Position {
        Position {
            line: self.line,
            column: self.column,
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.file))?;
        if self.position() != Position::FILE {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PolicyError {}

/// What is wrong with a value, before it is known where the value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// `what: why`.
    pub what: String,
    /// The next step.
    pub hint: Option<String>,
}

impl Wrong {
    /// Something is wrong, and what to do is plain from it.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: None,
        }
    }

    /// Adds the next step.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// A user's text as it may stand in an error: on one line and not too long.
pub fn one_line(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect::<Vec<_>>()
            } else {
                vec![c]
            }
        })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}
