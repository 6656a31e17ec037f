//! The daemon's log: lines on stderr. The service manager adds the time.

use std::fmt::Display;

/// Something happened.
pub fn say(line: impl Display) {
    eprintln!("retry-governor: {line}");
}

/// Something is not as it should be; the daemon goes on.
pub fn warn(line: impl Display) {
    eprintln!("retry-governor: warning: {line}");
}
