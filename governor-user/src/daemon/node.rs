//! The daemon's state. One lock: every holder does milliseconds of work, and
//! what is decided on (policy, orders, who is who) is never seen half-changed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::cgroups::Cgroups;
use super::eventlog::EventLog;
use super::inforce::InForce;
use super::names::Names;
use super::restores::Restores;
use super::series::Series;
use super::{Options, verify};
use crate::errors::Result;
use crate::interfaces::Interfaces;
use crate::kernel::{Attached, Governor, HOOKS, Snapshot};
use crate::status::{Samples, Status};

/// The daemon.
pub struct Node {
    /// The cgroup that is governed.
    pub root: PathBuf,
    /// Where policies are.
    pub policy_dir: PathBuf,
    /// Where the API server is known from; none: where kubelets have it.
    pub kubeconfig: Option<PathBuf>,
    /// When it started.
    pub started: Instant,
    /// What happened.
    pub events: EventLog,
    /// Reloads of policies.
    pub reloads: Reloads,
    /// What was last wrong with the policies; empty: nothing is.
    pub refusal: Mutex<String>,
    /// Wakes whoever scans the cgroup tree.
    pub scan: Notify,
    /// Wakes whoever resolves host names.
    pub resolve: Notify,
    state: Mutex<State>,
}

/// How often policies were loaded.
#[derive(Debug, Default)]
pub struct Reloads {
    /// And put in force.
    pub applied: AtomicU64,
    /// And refused.
    pub refused: AtomicU64,
}

/// What changes.
pub struct State {
    /// The kernel programs.
    pub governor: Governor,
    /// What is attached; none: not yet, or no longer.
    pub attached: Option<Attached>,
    /// The devices that are governed; none: no longer.
    pub interfaces: Option<Interfaces>,
    /// The policies in force.
    pub in_force: InForce,
    /// The cgroup tree and what the kernel knows of it.
    pub cgroups: Cgroups,
    /// Names of destinations and workloads.
    pub names: Names,
    /// The restores that go on.
    pub restores: Restores,
    /// What was counted in the last minute.
    pub samples: Samples,
    /// What metrics have shown.
    pub series: Series,
}

impl Node {
    /// A daemon that has loaded its programs.
    pub fn new(root: PathBuf, options: &Options, state: State) -> Self {
        Self {
            root,
            policy_dir: options.policy_dir.clone(),
            kubeconfig: options.kubeconfig.clone(),
            started: Instant::now(),
            events: EventLog::default(),
            reloads: Reloads::default(),
            refusal: Mutex::default(),
            scan: Notify::new(),
            resolve: Notify::new(),
            state: Mutex::new(state),
        }
    }

    /// The state, alone.
    pub fn state(&self) -> MutexGuard<'_, State> {
        // A panic in a holder is a bug; the daemon's duty to take orders and to
        // detach outweighs it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hooks that are not attached to the governed cgroup, asked of it each time.
    pub fn not_attached(&self) -> Vec<&'static str> {
        let programs = {
            let state = self.state();
            state.governor.programs(state.attached.as_ref())
        };
        // A program that the kernel knows nothing of has the id 0: never attached.
        let id = |hook| {
            programs
                .iter()
                .find(|program| program.name == hook)
                .map_or(0, |program| program.id)
        };
        let hooks = HOOKS.into_iter().map(|hook| (hook, id(hook)));
        // A cgroup that can't be asked has nothing attached.
        verify::missing(&self.root, hooks).unwrap_or_else(|_| HOOKS.to_vec())
    }

    /// What `status --json` shows.
    pub fn status(&self) -> Result<Status> {
        let not_attached = self.not_attached();
        let state = self.state();
        let snapshot = state.governor.snapshot()?;
        let mut status = self.status_of(&state, &snapshot);
        for hook in &mut status.kernel.hooks {
            hook.attached = !not_attached.contains(&hook.name.as_str());
        }
        let interfaces = state.interfaces.as_ref();
        let hooks = interfaces.map(|interfaces| interfaces.hooks(&state.governor));
        status.kernel.hooks.extend(hooks.into_iter().flatten());
        Ok(status)
    }

    /// The status of one snapshot.
    pub fn status_of(&self, state: &State, snapshot: &Snapshot) -> Status {
        Status::new(
            snapshot,
            &state.names.shown(&state.in_force.effective),
            &state.restores.watches,
            state.samples.recently(snapshot).as_ref(),
            state.governor.programs(state.attached.as_ref()),
            &self.root,
            self.started.elapsed(),
        )
    }
}

impl State {
    /// Remembers what is counted by now.
    pub fn sample(&mut self) -> Result<()> {
        self.samples.take(self.governor.counted()?);
        Ok(())
    }

    /// Takes up the devices as they are now; what went wrong.
    pub fn follow_interfaces(&mut self) -> Vec<String> {
        let Self {
            governor,
            interfaces: Some(interfaces),
            ..
        } = self
        else {
            return Vec::new();
        };
        interfaces.update(governor)
    }
}

impl Reloads {
    /// Policies were put in force.
    pub fn applied(&self) {
        self.applied.fetch_add(1, Ordering::Relaxed);
    }

    /// Policies were refused.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}
