//! The lines of a load that never waits for whoever reads them: a thread of its own writes.

use std::cell::RefCell;
use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::time::sleep;

use super::report::Try;

/// How often lines are handed over.
const FLUSH: Duration = Duration::from_millis(50);

/// The tries of a load, kept and printed.
#[derive(Debug)]
pub struct Output {
    tries: RefCell<Vec<Try>>,
    lines: RefCell<Vec<u8>>,
    pipe: Sender<Vec<u8>>,
    writer: JoinHandle<io::Result<()>>,
}

impl Output {
    /// Starts the writer.
    pub fn start() -> Self {
        let (pipe, lines) = mpsc::channel::<Vec<u8>>();
        let writer = thread::spawn(move || {
            let mut stdout = io::stdout().lock();
            lines
                .iter()
                .try_for_each(|lines| stdout.write_all(&lines).and_then(|()| stdout.flush()))
        });
        Self {
            tries: RefCell::default(),
            lines: RefCell::default(),
            pipe,
            writer,
        }
    }

    /// A try has ended.
    pub fn tell(&self, ended: Try) -> Result<()> {
        let mut lines = self.lines.borrow_mut();
        serde_json::to_writer(&mut *lines, &ended)?;
        lines.push(b'\n');
        self.tries.borrow_mut().push(ended);
        Ok(())
    }

    /// Hands lines over until their reader has gone.
    pub async fn flush(&self) {
        while self.hand_over().is_ok() {
            sleep(FLUSH).await;
        }
    }

    /// Waits until all is written. The tries, in order of their end.
    pub fn finish(self) -> Result<Vec<Try>> {
        // Fails where the writer has ended, which tells why.
        let _ = self.hand_over();
        drop(self.pipe);
        let written = self.writer.join().map_err(|_| anyhow!("the writer died"))?;
        written.context("cannot write the tries")?;
        Ok(self.tries.into_inner())
    }

    fn hand_over(&self) -> Result<(), mpsc::SendError<Vec<u8>>> {
        let lines = mem::take(&mut *self.lines.borrow_mut());
        match lines.is_empty() {
            true => Ok(()),
            false => self.pipe.send(lines),
        }
    }
}
