//! Removes what tests of dead processes left behind: after `kill -9` or Ctrl-C
//! no guard runs, so the next run cleans up before it makes anything.

use std::sync::Once;

use crate::{cgroup, names, netns, scratch};

static SWEPT: Once = Once::new();

/// Sweeps once per process; every guard calls this before its first act.
pub fn once() {
    SWEPT.call_once(now);
}

/// Sweeps now. Only names of processes that no longer exist are touched.
pub fn now() {
    let orphan = names::is_orphan;
    cgroup::remove_where(orphan);
    netns::remove_where(orphan);
    scratch::remove_where(orphan);
}
