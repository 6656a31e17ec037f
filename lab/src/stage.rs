//! Where a storm is played: a network and cgroups of its own, with the governor or without it.
//!
//! Everything on a stage is held by guards: it goes with the stage, also where a
//! scenario fails or is stopped.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use governor_tests::cgroup::Cgroup;
use governor_tests::lab::Lab;
use governor_tests::node::{Daemon, Node};
use governor_tests::place::Place;
use governor_tests::process::Finished;
use governor_tests::service::Service;
use governor_tests::storm::report::monotonic_micros;

use crate::findings::Mark;
use crate::late::{Late, Load};
use crate::progress::Act;
use crate::stop;
use crate::watch::{Sample, Watch};

/// How long a load may take to end after its time: its last tries run out first.
pub const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// How often a waiting stage looks whether the lab is stopped.
const LOOK: Duration = Duration::from_millis(50);

/// Whether the governor is there, and with which policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governor<'a> {
    /// No governor at all.
    Without,
    /// The daemon, governing every workload of the stage by this policy: the YAML of a
    /// whole document, see [`policy`].
    With(&'a str),
}

/// A policy in Enforce mode for the address of each of `destinations` (name, port), or for all there are;
/// `spec` is what else is in its `spec`, in YAML's flow style.
pub fn policy(destinations: &[(&str, u16)], spec: &str) -> String {
    document("lab", "Enforce", destinations, spec)
}

/// The same of any name and mode: one of several documents.
pub fn document(name: &str, mode: &str, destinations: &[(&str, u16)], spec: &str) -> String {
    let destinations: Vec<_> = destinations
        .iter()
        .map(|(name, port)| format!("{{name: {name}, cidrs: [127.0.0.0/8], ports: [{port}]}}"))
        .collect();
    let destinations = match destinations.as_slice() {
        // No policy may name nothing: all of them are meant.
        [] => String::new(),
        named => format!(", destinations: [{}]", named.join(", ")),
    };
    let rest = if spec.is_empty() {
        String::new()
    } else {
        format!(", {spec}")
    };
    format!(
        "{{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {{name: {name}}}, \
         spec: {{mode: {mode}{destinations}{rest}}}}}\n"
    )
}

/// A stage while it is played on.
pub struct Stage<'a> {
    lab: &'a Lab,
    governor: Option<On<'a>>,
    workloads: RefCell<HashMap<String, Rc<Cgroup>>>,
    start: Cell<u64>,
    marks: RefCell<Vec<Mark>>,
    act: &'a Act,
    run: &'a str,
    late: &'a Late,
}

/// The governor on a stage.
struct On<'a> {
    node: &'a Node<'a>,
    daemon: RefCell<Option<Daemon<'a>>>,
    watch: Watch,
}

/// Plays `scene` on a stage of its own. Loads that are late are told of as loads of `run`.
pub fn play<T>(
    governor: Governor<'_>,
    act: &Act,
    run: &str,
    late: &Late,
    scene: impl FnOnce(&Stage<'_>) -> T,
) -> T {
    let lab = Lab::new();
    prepare(&lab);
    let node;
    let on = match governor {
        Governor::Without => None,
        Governor::With(policy) => {
            node = Node::new(&lab);
            node.write_policy("lab.yaml", policy);
            let daemon = node.start_daemon();
            Some(On {
                node: &node,
                daemon: RefCell::new(Some(daemon)),
                watch: Watch::start(node.socket()),
            })
        }
    };
    let stage = Stage {
        lab: &lab,
        governor: on,
        workloads: RefCell::default(),
        start: Cell::new(monotonic_micros()),
        marks: RefCell::default(),
        act,
        run,
        late,
    };
    scene(&stage)
}

/// Storms are large: queues of the kernel must not be what limits them.
fn prepare(lab: &Lab) {
    lab.netns().sysctl("core/somaxconn", "16384");
    lab.netns().sysctl("ipv4/tcp_max_syn_backlog", "16384");
    lab.netns().sysctl("ipv4/ip_local_port_range", "1024 65000");
    // But for the daemon's: a caller had it in one play of scale-out, and no daemon began.
    lab.netns().sysctl("ipv4/ip_local_reserved_ports", "9478");
}

impl<'a> Stage<'a> {
    /// The cgroup of a workload, made when it is first asked for: `edge` lives in `/edge.service`.
    fn workload(&self, name: &str) -> Rc<Cgroup> {
        let mut workloads = self.workloads.borrow_mut();
        let made = || Rc::new(self.lab.cgroup().child(&format!("{name}.service")));
        Rc::clone(workloads.entry(name.to_owned()).or_insert_with(made))
    }

    /// A place in the workload's cgroup, for the time of `start`.
    pub fn within<T>(&self, workload: &str, start: impl FnOnce(&Place<'_>) -> T) -> T {
        let cgroup = self.workload(workload);
        start(&self.lab.place().in_cgroup(cgroup.deref()))
    }

    /// Starts a service as a workload of this name.
    pub fn service(&self, name: &str, port: u16, options: &str) -> Service {
        self.within(name, |place| Service::start(port, options, place))
    }

    /// Starts a load as a workload of this name: `crowd` of the storm client, which adds `--name`.
    pub fn crowd(&self, name: &str, port: u16, options: &str) -> Load {
        let arguments = format!("crowd 127.0.0.1:{port} --name {name} {options}");
        self.load(name, &arguments)
    }

    /// Starts any load of the storm client in a workload.
    pub fn load(&self, workload: &str, arguments: &str) -> Load {
        let who = (self.run, workload);
        self.within(workload, |place| {
            Load::start(arguments, place, who, self.late)
        })
    }

    /// The place of the storm.
    pub fn lab(&self) -> &Lab {
        self.lab
    }

    /// The time of the scene is zero now, or rather at the next whole second: budgets count in
    /// tenths of their interval, which are whole seconds.
    pub fn begin(&self) {
        let second = 1_000_000;
        let now = monotonic_micros();
        let start = (now / second + 1) * second;
        thread::sleep(Duration::from_micros(start - now));
        self.start.set(start);
        self.act.begins();
    }

    /// Microseconds of CLOCK_MONOTONIC at time zero.
    pub fn start(&self) -> u64 {
        self.start.get()
    }

    /// Seconds since [`Stage::begin`].
    pub fn now(&self) -> f64 {
        monotonic_micros().saturating_sub(self.start.get()) as f64 / 1e6
    }

    /// Waits until so many seconds after the beginning.
    pub fn until(&self, seconds: f64) {
        loop {
            stop::check();
            let left = seconds - self.now();
            if left <= 0.0 {
                return;
            }
            thread::sleep(LOOK.min(Duration::from_secs_f64(left)));
        }
    }

    /// Marks a time for the chart.
    pub fn mark(&self, from: f64, to: f64, label: &str) {
        self.marks.borrow_mut().push(Mark {
            from,
            to,
            label: label.to_owned(),
        });
    }

    /// What was marked.
    pub fn marks(&self) -> Vec<Mark> {
        self.marks.borrow().clone()
    }

    /// Whether the governor is on the stage.
    pub fn is_governed(&self) -> bool {
        self.governor.is_some()
    }

    /// Runs a command line of the governor; without it, nothing.
    #[track_caller]
    pub fn order(&self, arguments: &str) -> Option<Finished> {
        let on = self.governor.as_ref()?;
        Some(on.node.ctl(arguments.split_whitespace()).expect_success())
    }

    /// What `status` said, several times a second.
    pub fn samples(&self) -> Vec<Sample> {
        self.governor
            .as_ref()
            .map_or_else(Vec::new, |on| on.watch.samples())
    }

    /// What `status` says now; without the governor, nothing.
    pub fn status(&self) -> Option<Sample> {
        Some(self.governor.as_ref()?.watch.now())
    }

    /// The daemon's process id, where there is one.
    pub fn daemon(&self) -> Option<u32> {
        let on = self.governor.as_ref()?;
        on.daemon.borrow().as_ref().map(Daemon::pid)
    }

    /// Kills the daemon, as `kill -9` does; what it put into the kernel stays.
    pub fn crash_daemon(&self) {
        if let Some(on) = &self.governor
            && let Some(daemon) = on.daemon.take()
        {
            daemon.crash();
        }
    }

    /// Stops the daemon as an operator does: what it put into the kernel goes with it.
    pub fn stop_daemon(&self) {
        if let Some(on) = &self.governor
            && let Some(daemon) = on.daemon.take()
        {
            daemon.stop().expect_success();
        }
    }

    /// Starts the daemon anew.
    pub fn restart_daemon(&self) {
        if let Some(on) = &self.governor {
            on.daemon.replace(Some(on.node.start_daemon()));
        }
    }

    /// Gives a host this address, as the governor's resolver sees it.
    pub fn name_host(&self, name: &str, address: IpAddr) {
        if let Some(on) = &self.governor {
            on.node.name_host(name, &[address]);
        }
    }

    /// Puts a policy in the place of the one in force; the daemon notices by itself.
    pub fn set_policy(&self, policy: &str) {
        if let Some(on) = &self.governor {
            on.node.write_policy("lab.yaml", policy);
        }
    }
}
