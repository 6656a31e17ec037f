//! Ctrl-C: the lab ends in order, and says one line.
//!
//! What is played is unwound, so that its guards leave nothing behind. What dies on the way, of the same
//! Ctrl-C, is no news: standard error is closed until that is over.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::panic;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::{dup, dup2_stderr};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static WANTED: AtomicBool = AtomicBool::new(false);
/// Standard error as it was.
static STDERR: OnceLock<OwnedFd> = OnceLock::new();

/// A terminal's Ctrl-C reaches all processes: one of them may be missed before the signal is noticed here.
const NOTICED: Duration = Duration::from_millis(100);

/// From now on Ctrl-C and SIGTERM stop the lab.
///
/// # Errors
/// Where the kernel refuses it.
pub fn on_signals() -> Result<()> {
    let _ = STDERR.set(dup(io::stderr()).context("standard error")?);
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals")?;
    thread::spawn(move || {
        for _ in signals.forever() {
            // Where it cannot be closed, more than one line is said.
            let _ = File::options()
                .write(true)
                .open("/dev/null")
                .map(dup2_stderr);
            WANTED.store(true, Ordering::Relaxed);
        }
    });
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        thread::sleep(NOTICED);
        usual(panic);
    }));
    Ok(())
}

/// Whether the lab is to end.
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Unwinds what is played where the lab is to end: as a panic does, without its message.
pub fn check() {
    if is_wanted() {
        panic::resume_unwind(Box::new("stopped"));
    }
}

/// All is unwound: standard error is open again.
pub fn over() {
    if let Some(stderr) = STDERR.get() {
        // Where it stays closed, the exit code still says it.
        let _ = dup2_stderr(stderr);
    }
}
