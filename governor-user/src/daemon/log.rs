//! The daemon's log: lines on stderr. The service manager adds the time.

use std::fmt::Display;

use crate::printable::printable;

/// Something happened.
pub fn say(line: impl Display) {
    eprintln!("retry-governor: {}", printable(&line.to_string()));
}

/// Something is not as it should be; the daemon goes on.
pub fn warn(line: impl Display) {
    say(format_args!("warning: {line}"));
}
