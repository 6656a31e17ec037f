//! Unmodified clients, each refused on a connection that it keeps.
//!
//! Their sockets are reached from outside: between a client's first request and its answer the next
//! sequence number is that of the second request.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use governor_core::verdict::Reason;
use governor_tests::cgroup::Cgroup;
use governor_tests::place::Place;
use governor_tests::process::{Finished, Process};
use governor_tests::real_clients::{End, RealClient, Targets, Work};

use crate::ANSWER;
use crate::kernel::executor::{Executor, Means, refusal};
use crate::path::{Address, Path, Way};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

/// All that keep a connection from one operation to the next.
const KEEPING: [RealClient; 11] = [
    RealClient::Requests,
    RealClient::Tenacity,
    RealClient::Aiohttp,
    RealClient::Fetch,
    RealClient::Got,
    RealClient::Axios,
    RealClient::Undici,
    RealClient::Go,
    RealClient::JavaHttpClient,
    RealClient::JavaUrlConnection,
    RealClient::Ruby,
];

#[test]
fn each_client_takes_a_refusal_as_an_answer_and_sends_nothing_again() {
    let work = Work {
        operations: 2,
        targets: Targets::Distinct,
        retries: 0,
        timeout: Duration::from_secs(10),
        pause: Duration::ZERO,
    };
    for client in KEEPING {
        let second = refuse_second(|base| client.command(base, &work));
        let ended = RealClient::ended(&second.stdout);
        println!("{client:?}: {ended:?}");
        assert_eq!(ended[0].end, End::Well, "{client:?}");
        // Some libraries make an error of it, with its number; undici has a name for answers
        // that it would try again.
        let told = match &ended[1].end {
            End::Well => false,
            End::Status(status) => *status == 503,
            End::Error(error) => error.contains("503") || error.contains("UND_ERR_REQ_RETRY"),
        };
        assert!(told, "{client:?}: {ended:?}");
    }
}

#[test]
fn curl_takes_a_refusal_as_an_answer_and_sends_nothing_again() {
    let second = refuse_second(|base| {
        let mut curl = Command::new("curl");
        let options = ["--silent", "--include", "--max-time", "10"];
        curl.args(options).arg(format!("{base}/one"));
        curl.arg("--next");
        curl.args(options).arg(format!("{base}/two"));
        curl
    });
    let answers: Vec<_> = second.stdout.match_indices("HTTP/1.1 ").collect();
    assert_eq!(answers.len(), 2, "{}", second.stdout);
    assert!(second.stdout.ends_with("x-retry-governor: budget\r\n\r\n"));
}

/// Lets the first request of a client be answered, and refuses the second. Nothing of it arrives.
fn refuse_second(command: impl FnOnce(&str) -> Command) -> Finished {
    let mut path = Path::new(Way::Loopback, Means::usual());
    let callers = Cgroup::create("refused");
    let (listens, _) = path.addresses(Address::V4);
    let listener = path.caller.run(|| TcpListener::bind(listens).unwrap());
    listener.set_nonblocking(true).unwrap();
    let place = Place::new(&path.caller, &callers);
    let mut process = Process::start(command(&format!("http://{listens}")), &place);

    let deadline = Instant::now() + LIMIT;
    let mut connection = loop {
        match listener.accept() {
            Ok((connection, _)) => break connection,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(process.is_running() && Instant::now() < deadline);
        sleep(POLL);
    };
    connection.set_nonblocking(false).unwrap();
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    read_head(&mut connection);
    let caller = other_end(&callers, &connection);
    refuse_next(&mut path.executor, &caller);
    drop(caller);
    connection.write_all(ANSWER).unwrap();

    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Whoever sends the request again by itself does so at once, over another connection.
        let others = scope.spawn(|| {
            let mut others = Vec::new();
            while !over.load(Ordering::Relaxed) {
                others.extend(listener.accept().map(|(connection, _)| connection));
                sleep(POLL);
            }
            others.len()
        });
        let finished = process.finish(LIMIT);
        sleep(Duration::from_millis(50));
        over.store(true, Ordering::Relaxed);
        assert_eq!(others.join().unwrap(), 0, "connections beside the first");
        let mut rest = Vec::new();
        let error = connection.read_to_end(&mut rest).unwrap_err();
        assert_eq!((error.kind(), rest), (ErrorKind::ConnectionReset, vec![]));
        finished.expect_success()
    })
}

fn refuse_next(executor: &mut Executor, caller: &TcpStream) {
    executor.govern(caller);
    executor.refuse(caller, &refusal(Reason::Budget, 1));
}

/// A request without a body.
fn read_head(connection: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
}

/// The client's socket of a connection: of all that its processes hold, the one with these ends.
fn other_end(callers: &Cgroup, connection: &TcpStream) -> TcpStream {
    let (here, there) = (
        connection.local_addr().unwrap(),
        connection.peer_addr().unwrap(),
    );
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let sockets = callers.pids().into_iter().flat_map(sockets_of);
    let mut streams = sockets.map(TcpStream::from);
    let is_it = |stream: &TcpStream| {
        stream.local_addr().is_ok_and(|it| plain(it) == there)
            && stream.peer_addr().is_ok_and(|it| plain(it) == here)
    };
    streams.find(is_it).unwrap()
}

/// Duplicates of every socket of a process.
fn sockets_of(pid: u32) -> Vec<OwnedFd> {
    let names = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let is_socket = |name: &fs::DirEntry| {
        fs::read_link(name.path()).is_ok_and(|it| it.to_string_lossy().starts_with("socket:"))
    };
    let sockets = names.flatten().filter(is_socket);
    let numbers = sockets.filter_map(|name| name.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|number| duplicate(pid, number))
        .collect()
}

/// `None` where it was closed meanwhile.
fn duplicate(pid: u32, number: libc::c_int) -> Option<OwnedFd> {
    let own = |fd: libc::c_long| {
        let fd = libc::c_int::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the kernel has just made it, for us alone.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // SAFETY: numbers only.
    let process = own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: numbers only, of a descriptor that is open.
    own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })
}
