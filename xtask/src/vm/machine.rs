//! qemu, and what comes from the machine's console.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::verdict::Verdict;

/// A booted machine. Dropping it ends it.
pub struct Machine {
    qemu: Child,
    lines: Receiver<String>,
}

/// Starts the machine with `qemu`; `init` is the name of its first process.
pub fn boot(mut qemu: Command, kernel: &Path, initramfs: &Path, init: &str) -> Result<Machine> {
    // No reboot, so that a panic ends it: at once with panic=-1.
    let line = format!("console=ttyS0 panic=-1 quiet rdinit=/bin/{init}");
    qemu.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024"])
        .args(["-nographic", "-no-reboot", "-nic", "none", "-append", &line])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs);
    eprintln!("vmtest: boots {}", kernel.display());
    let mut qemu = qemu
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("qemu does not start")?;
    let console = qemu.stdout.take().context("qemu has no console")?;
    let lines = lines_of(console);
    Ok(Machine { qemu, lines })
}

fn lines_of(console: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut console = BufReader::new(console);
        while matches!(console.read_until(b'\n', &mut bytes), Ok(length) if length > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if sender.send(line).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    lines
}

impl Machine {
    /// Passes the console on until the machine says that it is done, ends, or `limit` is over. All
    /// of it is in `console.log` in `home` afterwards.
    pub fn follow(self, limit: Duration, home: &Path) -> Result<Verdict> {
        let log = home.join("console.log");
        let mut log = File::create(&log).with_context(|| log.display().to_string())?;
        let deadline = Instant::now() + limit;
        let mut verdict = Verdict::default();
        while !verdict.is_complete() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    writeln!(log, "{line}")?;
                    if let Some(told) = verdict.take(line) {
                        println!("{told}");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    verdict.broke_off("the machine ended before its checks did");
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {
                    verdict.broke_off(format!("its checks did not end within {limit:?}"));
                    break;
                }
            }
        }
        Ok(verdict)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have powered itself off.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
