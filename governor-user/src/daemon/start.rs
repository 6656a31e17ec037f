//! How the daemon starts: everything that can fail, fails before anything is
//! attached.

use std::fs;
use std::path::{Path, PathBuf};

use aya::maps::{MapData, RingBuf};

use super::cgroups::Cgroups;
use super::eventlog::{Entry, Kind};
use super::exempt::Exemptions;
use super::hosts;
use super::inforce::{InForce, host_names};
use super::lock::Lock;
use super::log;
use super::names::Names;
use super::node::{Node, State};
use super::reload::{describe, read};
use super::restores::Restores;
use super::series::Series;
use super::tree::Tree;
use super::verify;
use super::{OnExit, Options};
use crate::cgroup;
use crate::errors::{Failure, Result};
use crate::interfaces::{Interfaces, Scope};
use crate::kernel::{Governor, pins};
use crate::status::Samples;

/// The cgroup to govern.
pub fn root(options: &Options) -> Result<PathBuf> {
    let Some(path) = &options.cgroup else {
        let root = cgroup::root()?;
        if !verify::is_host_root(&root)? {
            let why =
                "this is a cgroup namespace: only what is in it would be governed, not the node";
            return Err(Failure::missing(format!("cgroup {}", root.display()), why)
                .hint("run it in the host's cgroup namespace, or name a --cgroup of this one"));
        }
        return Ok(root);
    };
    // Says what is wrong with it, if anything is.
    cgroup::level(path)?;
    fs::canonicalize(path)
        .map_err(|error| Failure::failed(format!("cgroup {}", path.display()), error))
}

/// The node's pins are ours alone for as long as this lives. Until
/// [`Self::started`], what was made while starting goes with it.
#[derive(Debug)]
pub struct Claim {
    _lock: Lock,
    leave_nothing: bool,
}

impl Claim {
    /// From here on a crash leaves what a successor takes over.
    pub fn started(&mut self) {
        self.leave_nothing = false;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.leave_nothing {
            // The failure that ended the start is the one to tell.
            let _ = pins::remove_all(pins::BPFFS.as_ref());
        }
    }
}

/// Loads the programs, and takes over what a predecessor left.
pub fn load(options: &Options) -> Result<(State, Claim)> {
    root(options)?;
    // Before anything is loaded: a wrong policy is refused with nothing done, and
    // so is a wrong interface.
    read(&options.policy_dir)?;
    let interfaces = Interfaces::new(options.interface.clone(), Scope::Node)?;
    let bpffs = Path::new(pins::BPFFS);
    let directory = pins::directory(bpffs);
    let (was_mounted, had_pins) = (pins::is_mounted(bpffs), directory.exists());
    let governor = match Governor::load(Some(bpffs)) {
        // It got as far as its pins: they go again with the claim.
        Err(failure) if !directory.exists() => return Err(failure),
        governor => governor,
    };
    let claim = Claim {
        _lock: Lock::take(&directory)?,
        leave_nothing: !had_pins,
    };
    let governor = governor?;
    if !was_mounted {
        log::say(format_args!(
            "mounted a BPF file system at {}",
            bpffs.display()
        ));
    }
    if governor.generation() != 0 {
        log::say("takes over what a predecessor left: ledgers, breakers, orders");
    }
    let state = State {
        cgroups: Cgroups::taken_over(governor.cgroups()),
        governor,
        attached: None,
        interfaces: Some(interfaces),
        in_force: InForce::none(Exemptions::default())?,
        names: Names::default(),
        restores: Restores::default(),
        samples: Samples::default(),
        series: Series::new(options.max_series),
    };
    Ok((state, claim))
}

/// Puts the policies in force and attaches.
pub async fn attach(node: &Node) -> Result<()> {
    let policies = read(&node.policy_dir)?;
    let tree = Tree::followed(&node.root)
        .map_err(|error| Failure::failed(format!("cgroup {}", node.root.display()), error))?;
    let exempt = Exemptions::of_this_node(node.kubeconfig.as_deref());
    let answers = hosts::resolve(host_names(&policies, &exempt)).await;
    let mut state = node.state();
    state.cgroups.tree = tree.clone();
    // Not in force yet: no policy is ours so far, and one that only observes would take the place of a
    // predecessor's, which judges (measured: up to 7 tries in 1 ms past open breakers).
    let (changes, _) = state.learn(answers, exempt);
    changes.lines.iter().for_each(log::say);
    // Policy first: a predecessor's policy judges until then, with its classes.
    state.put_in_force(policies)?;
    // What went wrong was said; a cgroup that is not known belongs to its parent.
    let _ = state.tree_is(tree);
    // What was counted until now is not recent.
    state.sample()?;
    let attached = state.governor.attach(&node.root)?;
    state.attached = Some(attached);
    state.follow_interfaces().iter().for_each(log::warn);
    pins::remove_other_versions(pins::BPFFS.as_ref())
}

/// The kernel's events.
pub fn events(node: &Node) -> Result<RingBuf<MapData>> {
    node.state().governor.events()
}

/// Says what is governed and where to ask.
pub fn announce(node: &Node, options: &Options) {
    let policies = describe(&node.state().in_force.policies);
    let governed = node.root.display();
    let line = format!("governs {governed}: {policies}");
    log::say(&line);
    log::say(format_args!(
        "metrics at http://{}/metrics, orders at {}, on exit: {}",
        options.listen,
        options.socket.display(),
        match options.on_exit {
            OnExit::Detach => "detach",
            OnExit::Keep => "keep",
        }
    ));
    node.events
        .push(Entry::now(Kind::Daemon, format!("daemon started: {line}")));
    let mut state = node.state();
    node.settle_orders(&mut state);
    let interfaces = state.interfaces.as_ref();
    if let Some(line) = interfaces.map(|interfaces| interfaces.describe(&state.governor)) {
        log::say(line);
    }
}
