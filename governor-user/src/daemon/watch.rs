//! Noticing changes: of the cgroup tree and of the policy directory. inotify
//! makes it fast; a look every few seconds makes it sure (no watches left, a
//! file behind a link, a file system that does not notify).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use inotify::{EventStream, Inotify, WatchMask};
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::log;
use super::node::Node;
use super::reload::Why;
use super::tree::Tree;
use super::workloads::holds_workloads;

/// How often to look without being told.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long to wait for more of the same: a pod is several directories, an
/// editor writes a file in several steps.
const TREE_SETTLES: Duration = Duration::from_millis(20);
const FILES_SETTLE: Duration = Duration::from_millis(150);

/// Watches directories; without inotify it never says anything.
struct Watcher {
    events: Option<EventStream<[u8; 4096]>>,
    watched: HashSet<PathBuf>,
}

impl Watcher {
    fn new(what: &str) -> Self {
        let events = Inotify::init().and_then(|inotify| inotify.into_event_stream([0; 4096]));
        if let Err(error) = &events {
            let every = LOOK_EVERY.as_secs();
            log::warn(format_args!(
                "inotify: {error} ({what} are looked at every {every} s)"
            ));
        }
        Self {
            events: events.ok(),
            watched: HashSet::new(),
        }
    }

    /// Watches these directories, and no others that it knows of any more.
    fn watch(&mut self, directories: impl Iterator<Item = PathBuf>, mask: WatchMask) {
        let Some(events) = &self.events else { return };
        let wanted: HashSet<_> = directories.collect();
        // Watches of directories that are gone went with them.
        self.watched.retain(|directory| wanted.contains(directory));
        for directory in wanted {
            if !self.watched.contains(&directory)
                && events
                    .watches()
                    .add(&directory, mask | WatchMask::ONLYDIR)
                    .is_ok()
            {
                self.watched.insert(directory);
            }
        }
    }

    /// Returns when something changed and has settled.
    async fn changed(&mut self, settles: Duration) {
        match &mut self.events {
            None => std::future::pending().await,
            Some(events) => {
                // An error is a record that did not fit: something changed all the same.
                if events.next().await.is_none() {
                    std::future::pending::<()>().await;
                }
                sleep(settles).await;
                while let Ok(Some(_)) = tokio::time::timeout(Duration::ZERO, events.next()).await {}
            }
        }
    }

    fn forget(&mut self) {
        self.watched.clear();
    }
}

/// Follows the cgroup tree for ever.
pub async fn follow_tree(node: Arc<Node>) {
    let mut watcher = Watcher::new("cgroups");
    let mask = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVE;
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = watcher.changed(TREE_SETTLES) => {}
            () = node.scan.notified() => sleep(TREE_SETTLES).await,
        }
        let groups = block_in_place(|| scan(&node));
        watcher.watch(groups.into_iter(), mask);
    }
}

/// Takes up the tree as it is; the directories in which workloads may appear.
fn scan(node: &Node) -> Vec<PathBuf> {
    let tree = match Tree::followed(&node.root) {
        Ok(tree) => tree,
        Err(error) => {
            // Readiness says it too; here it would be said every few seconds.
            if error.kind() != std::io::ErrorKind::NotFound {
                log::warn(format_args!("cgroup {}: {error}", node.root.display()));
            }
            return Vec::new();
        }
    };
    let groups = tree
        .iter()
        .filter(|(_, cgroup)| holds_workloads(&cgroup.path));
    let below = |path: &str| node.root.join(path.trim_start_matches('/'));
    let groups = groups.map(|(_, cgroup)| below(&cgroup.path)).collect();
    // What went wrong was said where it happened.
    let _ = node.state().tree_is(tree);
    groups
}

/// Follows the policy directory for ever.
pub async fn follow_policies(node: Arc<Node>) {
    let mut watcher = Watcher::new("policies");
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::MOVE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF;
    let directory = |path: &Path| path.is_dir().then(|| path.to_owned()).into_iter();
    watcher.watch(directory(&node.policy_dir), mask);
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.tick().await;
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = watcher.changed(FILES_SETTLE) => {}
        }
        block_in_place(|| node.reload(Why::Changed));
        if !node.policy_dir.is_dir() {
            // It may come back as another directory.
            watcher.forget();
        }
        watcher.watch(directory(&node.policy_dir), mask);
    }
}
