//! The status, from a copy of the ledgers and the names of things.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use governor_core::key::{Address, DestinationKey, OrderKey, loss, plain};
use governor_core::order::Order;

use super::clock::Clock;
use super::destination::destinations;
use super::model::*;
use super::samples::Recently;
use crate::daemon::orderlist;
use crate::daemon::restores::Watches;
use crate::daemon::retriesshown::RetriesShown;
use crate::kernel::{ProgramStatus, Snapshot};
use crate::policy::Policy;
use crate::policy::rules::Group;
use crate::policy::schema::API_VERSION;

/// What the ids in the ledgers mean.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Cgroup paths of workloads, by id.
    pub workloads: &'a HashMap<u64, String>,
    /// Destination groups, by id.
    pub groups: &'a BTreeMap<u32, Group>,
    /// The policies in force, in file order: the rule is the index.
    pub policies: &'a [Policy],
    /// What to say of orders that policies have left behind.
    pub caveats: &'a HashMap<OrderKey, String>,
}

impl Names<'_> {
    /// The name of a workload; one that has gone keeps its id.
    pub fn workload(&self, id: u64) -> String {
        self.workloads
            .get(&id)
            .cloned()
            .unwrap_or_else(|| format!("cgroup:{id}"))
    }

    /// The name of a destination.
    pub fn destination(&self, key: &DestinationKey) -> String {
        match (key.group, self.groups.get(&key.group)) {
            (0, _) => label(&key.address, key.port),
            (_, Some(group)) => group.name.clone(),
            // Of a policy that is no more.
            (id, None) => format!("group:{id}"),
        }
    }
}

/// `10.0.0.5:8080`, `[fd00::1]:8080`. A loopback address of any network
/// namespace is named alike: the workload beside it tells them apart.
pub fn label(address: &Address, port: u32) -> String {
    let address = Ipv6Addr::from(plain(*address));
    let address = address
        .to_ipv4_mapped()
        .map_or(IpAddr::V6(address), IpAddr::V4);
    SocketAddr::new(address, u16::try_from(port).unwrap_or(0)).to_string()
}

impl Status {
    /// Makes it. `cgroup` is where the programs are attached, `watches` what is
    /// known of the restores that go on, `recently` what was counted in the last minute.
    pub fn new(
        snapshot: &Snapshot,
        names: &Names<'_>,
        watches: &Watches,
        recently: Option<&Recently>,
        programs: Vec<ProgramStatus>,
        cgroup: &Path,
        uptime: Duration,
    ) -> Self {
        let clock = Clock::new(snapshot.at);
        let uname = nix::sys::utsname::uname();
        let text = |part: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
            uname.as_ref().map_or(String::new(), |uname| {
                part(uname).to_string_lossy().into_owned()
            })
        };
        let path = crate::cgroup::name(cgroup).unwrap_or_else(|_| cgroup.display().to_string());
        let hook = |program: ProgramStatus| Hook {
            name: program.name.to_owned(),
            attached: program.attached,
            path: path.clone(),
            program_id: program.id,
            verified_instructions: program.verified_instructions,
            run_count: program.run_count,
            run_seconds: program.run_time.as_secs_f64(),
        };
        let lost = |which: u32| snapshot.losses.get(which as usize).copied().unwrap_or(0);
        Self {
            api_version: API_VERSION.to_owned(),
            node: text(|uname| uname.nodename()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: (uptime.as_secs_f64() * 10.0).round() / 10.0,
            kernel: Kernel {
                release: text(|uname| uname.release()),
                hooks: programs.into_iter().map(hook).collect(),
            },
            retries: retries(&snapshot.orders, names, watches, &clock),
            orders: orderlist::list(&snapshot.orders, names, watches, snapshot.at),
            destinations: destinations(snapshot, names, recently, &clock),
            unjudged: Unjudged {
                ledger_full: lost(loss::LEDGER_FULL),
                no_record: lost(loss::NO_RECORD),
                no_policy: lost(loss::NO_POLICY),
                not_answered: lost(loss::NOT_ANSWERED),
            },
        }
    }
}

/// What is ordered about the retries of the whole node.
fn retries(
    orders: &[(OrderKey, Order)],
    names: &Names<'_>,
    watches: &Watches,
    clock: &Clock,
) -> Retries {
    let node = bytemuck::Zeroable::zeroed();
    let order = orders.iter().find(|(key, _)| *key == node);
    let shown = order.and_then(|(key, order)| {
        let shown = RetriesShown::new(order, watches.get(key), names, clock.now)?;
        Some((shown, order.restoring(clock.now)))
    });
    let Some((shown, restoring)) = shown else {
        return Retries {
            state: RetriesState::Enabled,
            percent: 100,
            expires_at: None,
            next_percent: None,
            stage: None,
        };
    };
    Retries {
        state: match restoring {
            None => RetriesState::Disabled,
            Some(_) => RetriesState::Restoring,
        },
        percent: shown.percent,
        expires_at: shown.next_at,
        next_percent: Some(shown.next_percent),
        stage: shown.stage,
    }
}
