//! The node daemon: it sets policy, names things, reports, and carries out what
//! operators order. The kernel programs judge by themselves; when this process
//! dies they go on with what they were told.

mod cgroups;
mod control;
pub mod eventlog;
pub mod exempt;
mod gain;
mod happenings;
pub mod hosts;
mod inforce;
pub mod kubeconfig;
mod left;
mod lock;
mod log;
mod metrics;
mod names;
mod node;
pub mod operators;
pub mod orderlist;
pub mod orders;
mod outcomes;
mod quiet;
mod reload;
mod restore;
pub mod restores;
pub mod retriesshown;
mod scope;
mod series;
mod serve;
mod settle;
pub mod socket;
mod start;
mod tasks;
mod tree;
pub mod verify;
mod watch;
mod web;
mod workloads;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use nix::unistd::Gid;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::block_in_place;

pub use lock::holder;
pub use tree::Tree;

use crate::errors::{Failure, Result};
use crate::interfaces::{Changes, Interfaces, Wanted};
use crate::kernel::pins;
use node::Node;
use reload::Why;

/// What becomes of the programs when the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnExit {
    /// Nothing of ours stays
    Detach,
    /// They go on judging; the next daemon takes over
    Keep,
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where policies are.
    pub policy_dir: PathBuf,
    /// What to govern; none: the whole node.
    pub cgroup: Option<PathBuf>,
    /// Where metrics and health are served.
    pub listen: SocketAddr,
    /// Where orders are taken.
    pub socket: PathBuf,
    /// Who may give orders beside root.
    pub group: Option<Gid>,
    /// Where requests can be refused.
    pub interface: Wanted,
    /// Where the API server is known from; none: where kubelets have it.
    pub kubeconfig: Option<PathBuf>,
    /// What becomes of the programs.
    pub on_exit: OnExit,
    /// Most pairs of destination and workload in the metrics.
    pub max_series: usize,
}

/// Runs the daemon until it is told to end.
pub fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // It reads maps and answers scrapes; more would only be in the way.
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("start", error))?;
    let ended = runtime.block_on(govern(options));
    // A name that is still being resolved holds up nobody.
    runtime.shutdown_background();
    ended
}

async fn govern(options: &Options) -> Result<()> {
    // First: a signal that comes while starting must not leave things half-done.
    let mut signals = Signals::take()?;
    let (state, mut claim) = start::load(options)?;
    let web = TcpListener::bind(options.listen)
        .await
        .map_err(|error| Failure::failed(format!("--listen {}", options.listen), error))?;
    let (control, _file) = socket::listen(&options.socket, options.group)?;
    let root = start::root(options)?;
    let node = Arc::new(Node::new(root, options, state));
    let changes = Changes::follow().map_err(|error| Failure::failed("interfaces", error))?;
    start::attach(&node).await?;
    claim.started();

    tokio::spawn(serve::serve(web, web::router(Arc::clone(&node))));
    tokio::spawn(serve::serve(control, control::router(Arc::clone(&node))));
    tokio::spawn(watch::follow_tree(Arc::clone(&node)));
    tokio::spawn(watch::follow_policies(Arc::clone(&node)));
    tokio::spawn(tasks::follow_hosts(Arc::clone(&node)));
    tokio::spawn(tasks::follow_interfaces(Arc::clone(&node), changes));
    tokio::spawn(tasks::keep_house(Arc::clone(&node)));
    tokio::spawn(restores::watch(Arc::clone(&node)));
    tokio::spawn(tasks::read_events(Arc::clone(&node), start::events(&node)?));
    start::announce(&node, options);

    loop {
        match signals.next().await {
            Told::Reload => block_in_place(|| node.reload(Why::Asked)),
            Told::End => return end(&node, options.on_exit),
        }
    }
}

fn end(node: &Node, on_exit: OnExit) -> Result<()> {
    let (attached, interfaces) = {
        let mut state = node.state();
        (state.attached.take(), state.interfaces.take())
    };
    match on_exit {
        OnExit::Keep => {
            log::say("ends; what is in force stays in force in the kernel");
            drop(attached);
            if let Some(interfaces) = interfaces {
                interfaces.keep();
            }
            Ok(())
        }
        OnExit::Detach => {
            let bpffs = pins::BPFFS.as_ref();
            // `retry-governor detach` may have been here before.
            let pinned = pins::directory(bpffs).exists();
            let detached = attached
                .filter(|_| pinned)
                .map_or(Ok(()), |attached| attached.detach());
            // Who carries out goes after who judges.
            let detached = detached.and(interfaces.map_or(Ok(()), Interfaces::detach));
            let ordered = node.orders().orders.len();
            if pinned && ordered > 0 {
                pins::remove_links(bpffs)?;
                let (orders, ends, them) = match ordered {
                    1 => ("1 order stands".to_owned(), "it ends", "it"),
                    _ => (format!("{ordered} orders stand"), "they end", "them"),
                };
                log::say(format!(
                    "ends; nothing is attached any more. {orders}: a daemon that starts before {ends} carries {them} \
                     out again (`retry-governor detach` forgets {them})"
                ));
            } else {
                pins::remove_all(bpffs)?;
                log::say("ends; nothing is attached any more");
            }
            detached
        }
    }
}

enum Told {
    Reload,
    End,
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn take() -> Result<Self> {
        let take = |kind| signal(kind).map_err(|error| Failure::failed("signals", error));
        Ok(Self {
            hangup: take(SignalKind::hangup())?,
            terminate: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.hangup.recv() => Told::Reload,
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
        }
    }
}
