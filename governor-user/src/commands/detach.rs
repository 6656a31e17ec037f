//! `retry-governor detach`: out of the way, also after a crash.

use std::path::Path;

use clap::Args;

use super::output::print;
use crate::cgroup;
use crate::daemon::{Tree, holder};
use crate::errors::{Exit, Failure, Result};
use crate::kernel::filters::{self, Which};
use crate::kernel::pins;

/// Remove every program, link and pin of ours
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  retry-governor detach

What a daemon or an `exec` has left behind goes too. A daemon that runs is not
stopped, but governs nothing any more: stop it first.")]
pub struct DetachArgs {}

/// Runs it.
pub fn run(_: &DetachArgs) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::new(Exit::Missing, "detach", "it needs root"));
    }
    let bpffs = Path::new(pins::BPFFS);
    let daemon = holder(&pins::directory(bpffs));
    // Before Linux 6.6 what is at an interface is a filter: no pin holds it.
    let filters = filters::remove_everywhere(Which::Predecessors);
    let removed = pins::remove_all(bpffs)? || filters > 0;
    sweep();
    print(match removed {
        true => "programs, links and maps are removed\n",
        false => "nothing of ours was attached\n",
    })?;
    if let Some(pid) = daemon {
        eprintln!(
            "retry-governor: the daemon, pid {pid}, still runs and governs nothing: stop it or restart it"
        );
    }
    Ok(())
}

/// Removes the cgroups of `exec`s that are gone, wherever they were started.
fn sweep() {
    let Ok(root) = cgroup::root() else { return };
    let Ok(tree) = Tree::scan(&root) else { return };
    for (_, node) in tree.iter() {
        cgroup::sweep(&root.join(node.path.trim_start_matches('/')));
    }
}
