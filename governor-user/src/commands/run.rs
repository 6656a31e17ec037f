//! `retry-governor run`: the node daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::client::SOCKET;
use crate::daemon::{self, OnExit, Options, socket};
use crate::errors::Result;
use crate::interfaces::Wanted;

/// Govern the retries of a whole node
///
/// Without any policy it only observes. It reads its policies again on SIGHUP
/// and when a file changes; where one is invalid those in force stay.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor run
  retry-governor run --cgroup /sys/fs/cgroup/system.slice --policy-dir ./policies")]
pub struct RunArgs {
    /// Directory of policy files
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/etc/retry-governor/policies"
    )]
    policy_dir: PathBuf,
    /// Govern only this cgroup; paths in policies are below it [default: the
    /// whole hierarchy]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Where metrics and health are served
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9478")]
    listen: SocketAddr,
    /// Control socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Group that may use the control socket, beside root
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// Where requests can be refused: auto (every interface that can be governed,
    /// as they come and go), none (connects only), or names
    #[arg(long, value_name = "auto|none|NAME,...", default_value = "auto")]
    interface: Wanted,
    /// Where the address of the API server is read from, which is never judged
    /// unless a policy names it [default: the kubeconfig of this node's kubelet]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// What becomes of the kernel programs when the daemon ends
    #[arg(long, default_value = "detach")]
    on_exit: OnExit,
    /// Most pairs of destination and workload in the metrics; the rest is
    /// summed up under `other`
    #[arg(long, value_name = "N", default_value_t = 2000)]
    max_series: usize,
}

/// Runs it.
pub fn run(args: &RunArgs) -> Result<()> {
    let group = args
        .socket_group
        .as_deref()
        .map(socket::group)
        .transpose()?;
    daemon::run(&Options {
        policy_dir: args.policy_dir.clone(),
        cgroup: args.cgroup.clone(),
        listen: args.listen,
        socket: args.socket.clone(),
        group,
        interface: args.interface.clone(),
        kubeconfig: args.kubeconfig.clone(),
        on_exit: args.on_exit,
        max_series: args.max_series,
    })
}
