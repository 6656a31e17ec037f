//! A command run in our place: its own cgroup, our terminal, our signals, its
//! exit code.
//!
//! Signals come through a descriptor, which says who sent them. What the
//! terminal sends reaches the command by itself, as it is in the same process
//! group; what a person or a supervisor sends to us alone is passed on.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;

use crate::cgroup::Scoped;
use crate::errors::{Exit, Failure, Result};

/// Signals that we act on or pass on; every other one does what it always does.
const SIGNALS: [Signal; 11] = [
    Signal::SIGCHLD,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGIO,
];

/// The signals of this process while it stands in for its command.
#[derive(Debug)]
pub struct Signals {
    events: AsyncFd<SignalFd>,
    /// What the command starts with: what we were started with.
    before: SigSet,
}

impl Signals {
    /// Takes them over. Before any other thread is made: threads inherit it.
    pub fn take() -> Result<Self> {
        let failed = |error: io::Error| Failure::failed("signals", error);
        let set: SigSet = SIGNALS.into_iter().collect();
        let before = SigSet::thread_get_mask().map_err(|error| failed(error.into()))?;
        set.thread_block().map_err(|error| failed(error.into()))?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let events = SignalFd::with_flags(&set, flags).map_err(|error| failed(error.into()))?;
        // SAFETY: a SignalFd owns one descriptor and never changes it.
        let events = unsafe { AsyncFd::register(events) };
        let events = events.map_err(|error| failed(error.into()))?;
        Ok(Self { events, before })
    }

    /// The signal that asked us to end before there was a command to pass it to.
    pub fn ended(&self) -> Option<Signal> {
        const ENDING: [Signal; 4] = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ];
        while let Ok(Some(signal)) = self.events.get_ref().read_signal() {
            let number = Signal::try_from(signal.ssi_signo.cast_signed()).ok();
            if let Some(number) = number.filter(|number| ENDING.contains(number)) {
                return Some(number);
            }
        }
        None
    }

    async fn next(&self) -> io::Result<siginfo> {
        loop {
            let mut ready = self.events.readable().await?;
            match ready.get_inner().read_signal()? {
                Some(signal) => return Ok(signal),
                None => ready.clear_ready(),
            }
        }
    }
}

/// The running command.
#[derive(Debug)]
pub struct Foreground {
    child: Child,
    signals: Signals,
}

impl Foreground {
    /// Starts the command inside the cgroup.
    pub fn start(command: &[OsString], cgroup: &Scoped, signals: Signals) -> Result<Self> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| Failure::new(Exit::Usage, "exec", "no command is given"))?;
        let entrance = cgroup.entrance()?;
        let before = signals.before;
        let mut command = Command::new(program);
        command.args(arguments);
        // SAFETY: between fork and exec only two system calls are made, both
        // async-signal-safe, on values made before the fork.
        unsafe {
            command.pre_exec(move || {
                // "0" is the calling process. Nothing of it has a socket yet.
                if libc::write(entrance.as_raw_fd(), b"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::last_os_error());
                }
                before.thread_set_mask().map_err(io::Error::from)
            });
        }
        let child = command.spawn().map_err(|error| {
            let exit = match error.kind() {
                io::ErrorKind::NotFound => Exit::NotFound,
                _ => Exit::CannotRun,
            };
            Failure::new(exit, program.display(), error)
        })?;
        Ok(Self { child, signals })
    }

    /// Waits for the command to end and passes signals on meanwhile.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let failed = |error: io::Error| Failure::failed("wait for the command", error);
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            let signal = self.signals.next().await.map_err(failed)?;
            self.pass_on(&signal);
        }
    }

    fn pass_on(&self, signal: &siginfo) {
        let Ok(number) = Signal::try_from(signal.ssi_signo.cast_signed()) else {
            return;
        };
        let child = self.child.id();
        // The terminal's signals went to the whole process group; what the
        // command sends to its group or its parent it does not want back.
        let from_kernel = signal.ssi_code > 0;
        if number == Signal::SIGCHLD || from_kernel || signal.ssi_pid == child {
            return;
        }
        // It may have ended this very moment.
        let _ = kill(Pid::from_raw(child.cast_signed()), number);
    }
}

/// The exit code of a command as a shell gives it: 128+N for signal N.
pub fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
        (None, Some(signal)) => signal_code(signal),
        (None, None) => 1,
    }
}

/// The exit code of what a signal ended.
pub fn signal_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_128_and_its_number() {
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(libc::SIGTERM)), 143);
    }
}
