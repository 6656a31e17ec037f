//! The process that is measured: a client and a server on loopback, in one process, so that one clock
//! has all they cost. Wall time on a busy machine says nothing; CPU time does.
//!
//! It takes orders on standard input, one a line, and answers each with one line.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::kernel::REFUSING;
use super::web;
use crate::place::Place;

const REQUEST: [u8; 64] = [b'q'; 64];
const ANSWER: [u8; 256] = [b'a'; 256];
/// Exchanges before a measurement: both ends are awake and the window is open.
const WARM_UP: u32 = 20;

/// What the worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Connect, one exchange, close.
    Short,
    /// Exchanges on one connection; opening and closing it are not measured.
    Exchanges,
    /// Connects to a port where nothing listens.
    Refused,
    /// Requests on one connection, as [`super::web`] has them: as wrk sends them, one target.
    BareRequests,
    /// The same with the headers of a usual client.
    EqualRequests,
    /// The same, each to a target of its own.
    Requests,
    /// Segments of no protocol we know, sent.
    Sent,
    /// The same, received.
    Received,
}

/// What the worker is to do, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What.
    pub what: What,
    /// How often.
    pub times: u32,
}

impl Load {
    /// So often.
    pub const fn of(what: What, times: u32) -> Self {
        Self { what, times }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.to_possible_value().ok_or(fmt::Error)?;
        write!(f, "{} {}", what.get_name(), self.times)
    }
}

impl FromStr for Load {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let (what, times) = line.split_once(' ').context("an order has two words")?;
        let what = What::from_str(what, false).map_err(|error| anyhow!(error))?;
        Ok(Self::of(what, times.parse()?))
    }
}

/// Which CPUs the two threads may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cpus {
    /// The scheduler decides, as for most programs.
    Any,
    /// One for both: nothing is woken across CPUs, so an exchange costs least by itself and our part
    /// of it is largest.
    One,
    /// One each: what callers and servers on a busy machine do to each other.
    Two,
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = self.to_possible_value().ok_or(fmt::Error)?;
        f.write_str(cpus.get_name())
    }
}

impl Cpus {
    /// Where the client's thread stays, and where the server's does; none: left to the scheduler.
    pub fn split(self) -> Result<(Option<usize>, Option<usize>)> {
        let last = thread::available_parallelism()?.get() - 1;
        Ok(match self {
            Self::Any => (None, None),
            Self::One => (Some(last), Some(last)),
            Self::Two => (Some(last), Some(0)),
        })
    }
}

/// The worker, seen from outside. Dropping it ends the process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: io::Lines<io::BufReader<std::process::ChildStdout>>,
}

impl Worker {
    /// Starts this very program as a worker.
    pub fn start(place: &Place<'_>, cpus: Cpus) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("worker")
            .arg(cpus.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        place.settle(&mut command);
        let mut child = command.spawn().context("the worker does not start")?;
        let orders = child.stdin.take().context("no standard input")?;
        let answers = child.stdout.take().context("no standard output")?;
        Ok(Self {
            child,
            orders,
            answers: io::BufReader::new(answers).lines(),
        })
    }

    /// Lets it work; the CPU time of one connect or exchange.
    pub fn cpu(&mut self, load: Load) -> Result<Duration> {
        writeln!(self.orders, "{load}")?;
        let line = self.answers.next().context("the worker has ended")??;
        let nanos = line.parse().map_err(|_| anyhow!("{line}"))?;
        Ok(Duration::from_nanos(nanos) / load.times)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has ended by itself if these fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker, seen from inside: works until its standard input ends.
pub fn work(cpus: Cpus) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let server = listener.local_addr()?;
    let (ours, theirs) = cpus.split()?;
    stay(ours)?;
    thread::spawn(move || {
        // Left to the scheduler it still serves, and the figures say less.
        stay(theirs).unwrap_or_else(|error| eprintln!("server: {error:#}"));
        serve(&listener);
    });
    for line in io::stdin().lines() {
        match run(line?.parse()?, server) {
            Ok(spent) => println!("{}", spent.as_nanos()),
            Err(error) => println!("{error:#}"),
        }
    }
    Ok(())
}

/// Keeps the calling thread on a CPU.
pub fn stay(cpu: Option<usize>) -> Result<()> {
    let mut cpus = CpuSet::new();
    match cpu {
        Some(cpu) => cpus.set(cpu)?,
        None => return Ok(()),
    }
    sched_setaffinity(Pid::from_raw(0), &cpus).context("no CPU of its own")
}

fn run(load: Load, server: SocketAddr) -> Result<Duration> {
    match load.what {
        What::Short => timed(load.times, |_| exchange(&mut connect(server)?)),
        What::Exchanges => {
            let mut connection = connect(server)?;
            timed_warm(load.times, |_| exchange(&mut connection))
        }
        What::Refused => {
            let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, REFUSING));
            timed(load.times, |_| {
                if TcpStream::connect(nobody).is_ok() {
                    bail!("something listens on port {REFUSING}");
                }
                Ok(())
            })
        }
        What::BareRequests | What::EqualRequests | What::Requests => {
            let mut connection = connect(web::ADDRESS)?;
            timed_warm(load.times, |number| {
                connection.write_all(web::request(load.what, number).as_bytes())?;
                connection.read_exact(&mut [0; web::ANSWER.len()])?;
                Ok(())
            })
        }
        What::Sent => {
            let mut connection = connect(web::ADDRESS)?;
            connection.write_all(&[web::TAKE])?;
            timed(load.times, |_| Ok(connection.write_all(&web::SEGMENT)?))
        }
        What::Received => {
            let mut connection = connect(web::ADDRESS)?;
            connection.write_all(&[web::GIVE])?;
            timed(load.times, |_| {
                Ok(connection.read_exact(&mut [0; web::SEGMENT.len()])?)
            })
        }
    }
}

/// CPU time of doing it so often.
fn timed(times: u32, mut once: impl FnMut(u32) -> Result<()>) -> Result<Duration> {
    let before = cpu()?;
    for number in 0..times {
        once(number)?;
    }
    Ok(cpu()? - before)
}

/// The same, after some that are not measured.
fn timed_warm(times: u32, mut once: impl FnMut(u32) -> Result<()>) -> Result<Duration> {
    timed(WARM_UP, &mut once)?;
    timed(times, |number| once(WARM_UP + number))
}

fn connect(server: SocketAddr) -> Result<TcpStream> {
    let connection = TcpStream::connect(server)?;
    connection.set_nodelay(true)?;
    Ok(connection)
}

fn exchange(connection: &mut TcpStream) -> Result<()> {
    connection.write_all(&REQUEST)?;
    connection.read_exact(&mut [0; ANSWER.len()])?;
    Ok(())
}

/// One connection after the other, each until its client closes.
fn serve(listener: &TcpListener) {
    for connection in listener.incoming().flatten() {
        // The client sees whatever goes wrong here.
        let _ = answer(connection);
    }
}

fn answer(mut connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut request = [0; REQUEST.len()];
    while connection.read_exact(&mut request).is_ok() {
        connection.write_all(&ANSWER)?;
    }
    Ok(())
}

/// CPU time of this process, the kernel's part included.
fn cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}
