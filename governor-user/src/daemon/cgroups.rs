//! Telling the kernel programs which cgroup belongs to which workload, and
//! keeping that true as cgroups come and go.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use governor_core::key::CgroupEntry;

use super::log;
use super::node::State;
use super::tree::{Node, Tree};
use super::workloads::{Place, place};
use crate::errors::Result;

/// How long the name of a cgroup that is gone is kept: as long as its ledgers
/// may be shown.
pub const REMEMBERED: Duration = Duration::from_secs(15 * 60);

/// What the kernel was told.
#[derive(Debug, Default)]
pub struct Cgroups {
    /// The tree as it was last seen.
    pub tree: Tree,
    told: HashMap<u64, Told>,
    gone: HashMap<u64, Instant>,
    /// The map was full: said once.
    overflowed: bool,
}

/// What was said of one cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    workload: u64,
    class: u32,
    level: u32,
}

impl Cgroups {
    /// What a predecessor told the kernel, whatever it was: it is told anew, or
    /// taken back.
    pub fn taken_over(ids: Vec<u64>) -> Self {
        let unknown = Told {
            workload: u64::MAX,
            class: 0,
            level: 0,
        };
        Self {
            told: ids.into_iter().map(|id| (id, unknown)).collect(),
            ..Self::default()
        }
    }

    /// The kernel was told these classes, by workload.
    pub fn classes_are(&mut self, classes: &HashMap<u64, u32>) {
        for told in self.told.values_mut() {
            told.class = classes.get(&told.workload).copied().unwrap_or(0);
        }
    }
}

/// Id and path of the workload that a cgroup belongs to; `None`: it only groups.
fn workload<'a>(tree: &Tree, node: &'a Node) -> Option<(u64, &'a str)> {
    match place(&node.path) {
        Place::Group => None,
        // Vanished between two reads of one scan: the next scan says.
        Place::Within(path) => Some((tree.id_of(path)?, path)),
    }
}

impl State {
    /// Takes up a scan: tells the kernel what is new, takes back what is gone.
    pub fn tree_is(&mut self, tree: Tree) -> Result<()> {
        let mut nodes: Vec<_> = tree.iter().collect();
        // Workloads before their leaves: an unknown leaf belongs to its nearest
        // known ancestor, so that leaves are what may be left out.
        nodes.sort_by_key(|(_, node)| node.level);
        let mut first_error = Ok(());
        for (id, node) in nodes {
            if let Err(error) = self.tell(&tree, id, node)
                && !self.cgroups.overflowed
            {
                self.cgroups.overflowed = true;
                log::warn(format_args!(
                    "cgroup {}: {error} (it belongs to its parent)",
                    node.path
                ));
                first_error = Err(error);
            }
        }
        let gone: Vec<u64> = self
            .cgroups
            .told
            .keys()
            .copied()
            .filter(|id| tree.get(*id).is_none())
            .collect();
        for id in gone {
            self.governor.remove_cgroup(id)?;
            self.cgroups.told.remove(&id);
            self.cgroups.gone.insert(id, Instant::now());
            self.cgroups.overflowed = false;
        }
        self.cgroups.tree = tree;
        self.name_workloads();
        first_error
    }

    fn tell(&mut self, tree: &Tree, id: u64, node: &Node) -> Result<()> {
        let found = workload(tree, node);
        let class = self.class_of(found.map_or(node.path.as_str(), |(_, path)| path))?;
        let told = Told {
            workload: found.map_or(0, |(id, _)| id),
            class,
            level: node.level,
        };
        if self.cgroups.told.get(&id) == Some(&told) {
            return Ok(());
        }
        let entry = CgroupEntry {
            workload: told.workload,
            class: [class; 2],
            level: told.level,
            reserved: 0,
        };
        self.governor.set_cgroup(id, entry)?;
        self.cgroups.told.insert(id, told);
        Ok(())
    }

    /// The class of a workload in the table in force. The rules of a class that
    /// was not needed before are in the kernel before any cgroup has it.
    fn class_of(&mut self, path: &str) -> Result<u32> {
        let table = &mut self.in_force.table;
        let before = table.classes();
        let class = table
            .class_of(path)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        if class >= before {
            self.governor.add_class(table, class)?;
        }
        Ok(class)
    }

    fn name_workloads(&mut self) {
        let (cgroups, names) = (&mut self.cgroups, &mut self.names.workloads);
        cgroups.gone.retain(|_, since| since.elapsed() < REMEMBERED);
        names.retain(|id, _| cgroups.gone.contains_key(id));
        names.extend(
            cgroups
                .tree
                .iter()
                .map(|(id, node)| (id, node.path.clone())),
        );
    }
}
