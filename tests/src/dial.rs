//! Connections of a governed caller in the hands of the test.
//!
//! A process among the callers connects and hands its socket over (`SCM_RIGHTS`): to the kernel it
//! stays a socket of that process's cgroup. So the test holds both ends and decides, segment by
//! segment, what is on the wire.

use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use crate::governor::{Executed, exec};
use crate::lab::Lab;
use crate::place::Place;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::{artifact, must};

/// Patience with a connect.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a dialler may take to start, and to go.
const SHORT: Duration = Duration::from_secs(60);

/// A process among the callers that connects for the test. It ends with this handle.
#[derive(Debug)]
pub struct Dialler {
    stream: UnixStream,
    _process: Option<Process>,
}

impl Dialler {
    /// One among the callers of a lab.
    pub fn start(place: &Place<'_>) -> Self {
        let door = Door::open();
        let process = Process::start(door.command(), place);
        Self {
            stream: must(door.enter(|| true)),
            _process: Some(process),
        }
    }

    /// A connection of its own, as of a caller with one thread for each.
    #[track_caller]
    pub fn connect(&self, address: SocketAddr) -> TcpStream {
        let connected = self.ask("connect", address);
        must(connected.with_context(|| format!("cannot connect to {address}"))).into()
    }

    /// A port on which that process listens: whoever calls there calls into its cgroup.
    #[track_caller]
    pub fn listen(&self, address: SocketAddr) -> TcpListener {
        let listening = self.ask("listen", address);
        must(listening.with_context(|| format!("cannot listen on {address}"))).into()
    }

    fn ask(&self, what: &str, address: SocketAddr) -> Result<OwnedFd> {
        (&self.stream).write_all(format!("{what} {address}\n").as_bytes())?;
        let mut word = [0; 1];
        let mut room = nix::cmsg_space!([i32; 1]);
        let mut word = [IoSliceMut::new(&mut word)];
        // Not for the children of other tests: they would keep it open.
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let descriptor = self.stream.as_raw_fd();
        let heard = recvmsg::<()>(descriptor, &mut word, Some(&mut room), flags)?;
        for message in heard.cmsgs()? {
            if let ControlMessageOwned::ScmRights(sockets) = message
                && let [socket] = sockets[..]
            {
                // SAFETY: a descriptor that this process was just given.
                return Ok(unsafe { OwnedFd::from_raw_fd(socket) });
            }
        }
        bail!("the process among the callers could not")
    }
}

/// Runs `work` with callers under `exec`, whose summary is written once they are gone.
#[track_caller]
pub fn under_exec<T>(
    lab: &Lab,
    options: &[&str],
    work: impl FnOnce(&Dialler) -> T,
) -> (T, Executed) {
    let door = Door::open();
    let command = door.command();
    thread::scope(|scope| {
        let running = scope.spawn(|| exec(lab, options, &command, 2 * SHORT));
        let stream = must(door.enter(|| !running.is_finished()));
        let dialler = Dialler {
            stream,
            _process: None,
        };
        let result = work(&dialler);
        drop(dialler);
        match running.join() {
            Ok(executed) => (result, executed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Where a dialler reports.
struct Door {
    scratch: Scratch,
    listener: UnixListener,
}

impl Door {
    fn open() -> Self {
        let scratch = Scratch::new();
        let listener = must(UnixListener::bind(path_in(&scratch)).context("cannot listen"));
        must(listener.set_nonblocking(true).context("cannot listen"));
        Self { scratch, listener }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(must(artifact::program("storm-client")));
        command.arg("dial").arg(path_in(&self.scratch));
        command
    }

    /// Waits for it, while it may come.
    fn enter(&self, may_come: impl Fn() -> bool) -> Result<UnixStream> {
        let deadline = std::time::Instant::now() + SHORT;
        while may_come() && std::time::Instant::now() < deadline {
            if let Ok((stream, _)) = self.listener.accept() {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(2 * PATIENCE))?;
                return Ok(stream);
            }
            thread::sleep(Duration::from_millis(5));
        }
        bail!("no caller came")
    }
}

fn path_in(scratch: &Scratch) -> PathBuf {
    scratch.path("door")
}

/// The process's part: does what it reads at `door`, and hands over the socket.
pub fn serve(door: &Path) -> Result<()> {
    let stream = UnixStream::connect(door).context("nobody listens")?;
    for line in BufReader::new(&stream).lines() {
        let socket = obey(&line?).ok();
        let sockets: Vec<_> = socket.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&sockets)];
        let given = if socket.is_some() { &rights[..] } else { &[] };
        let word = [IoSlice::new(b".")];
        sendmsg::<()>(stream.as_raw_fd(), &word, given, MsgFlags::empty(), None)?;
    }
    Ok(())
}

fn obey(line: &str) -> Result<OwnedFd> {
    let (what, address) = line.split_once(' ').context("no address")?;
    let address: SocketAddr = address.parse()?;
    match what {
        "listen" => Ok(TcpListener::bind(address)?.into()),
        _ => connect(address).map(OwnedFd::from),
    }
}

/// By a thread of its own: what one has learned says nothing of the next.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    let (ended, end) = channel();
    thread::spawn(move || ended.send(TcpStream::connect_timeout(&address, PATIENCE)));
    Ok(end.recv()??)
}
