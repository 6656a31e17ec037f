//! Servers of the machine: one that sends every line back, and one that swallows SYNs.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Listens on a port of all addresses; the port is closed when this is dropped.
#[derive(Debug)]
pub struct Echo {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Open when this returns.
    pub fn start(port: u16) -> Self {
        let listener =
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("the port is not in use");
        listener.set_nonblocking(true).expect("it can be polled");
        let ending = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ending);
        let serve = move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => drop(thread::spawn(move || answer(&stream))),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    // An aborted handshake is the caller's affair.
                    Err(_) => {}
                }
            }
        };
        Self {
            ending,
            thread: Some(thread::spawn(serve)),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

/// Until the caller closes; one that resets has ended as well.
fn answer(stream: &TcpStream) {
    let _ = stream.set_nonblocking(false);
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    while matches!(lines.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        let mut writer = stream;
        if writer.write_all(&line).is_err() {
            return;
        }
        line.clear();
    }
}

/// Listens without a place in its queue and never accepts: the kernel drops the SYNs of all
/// callers but the first.
#[derive(Debug)]
pub struct Silent {
    _listener: TcpListener,
    _first: TcpStream,
}

impl Silent {
    /// Swallows when this returns.
    pub fn start(port: u16) -> Self {
        let address = (Ipv4Addr::LOCALHOST, port);
        let listener = TcpListener::bind(address).expect("the port is not in use");
        // SAFETY: listen changes the queue's length of a socket that is open here.
        let changed = unsafe { libc::listen(listener.as_raw_fd(), 0) };
        assert_eq!(changed, 0, "the queue can be made short");
        Self {
            _listener: listener,
            _first: TcpStream::connect(address).expect("the first finds room"),
        }
    }
}
