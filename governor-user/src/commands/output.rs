//! Standard output of the commands.

use std::io::{self, Write as _};

use crate::errors::{Failure, Result};
use crate::printable::printable;

/// Prints what names of others may be in. A reader that has gone (`| head`) is no error, a full disk is one: `println!` panics at both.
pub fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(printable(text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed("standard output", error))
        }
        _ => Ok(()),
    }
}
