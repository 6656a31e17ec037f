//! The cgroup tree below the governed root, as it is now.
//!
//! A scan reads only directories that have children: a cgroup directory's link
//! count is two plus its child cgroups, and most cgroups are leaves (a leaf
//! holds about 60 files that would be read for nothing).
//!
//! Of what a workload makes below itself only so much is followed: 20,000
//! cgroups of one container filled the kernel's map, and a pod that came after
//! them got no class and so not its policy. What is left out costs nothing but
//! time: an unknown leaf belongs to its nearest known ancestor.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::workloads::{Place, holds_workloads, place};

/// Cgroups at most that are followed; more than any kubelet allows pods and units.
pub const MOST: usize = 65_536;
/// Cgroups at most that are followed below one workload.
pub const MOST_OF_ONE: usize = 64;

/// One cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path below the root; `/` for the root itself.
    pub path: String,
    /// Levels below the root.
    pub level: u32,
}

/// The tree: cgroup id to cgroup. The id is the inode of the directory, the
/// same number that `bpf_get_current_cgroup_id` returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: HashMap<u64, Node>,
    ids: HashMap<String, u64>,
}

impl Tree {
    /// Reads the tree below `root`. What vanishes meanwhile is left out; an
    /// error is only that the root itself can't be read.
    pub fn scan(root: &Path) -> io::Result<Self> {
        Self::read(root, usize::MAX)
    }

    /// The part of the tree that is followed: [`MOST_OF_ONE`].
    pub fn followed(root: &Path) -> io::Result<Self> {
        Self::read(root, MOST_OF_ONE)
    }

    fn read(root: &Path, most_of_one: usize) -> io::Result<Self> {
        let mut tree = Self::default();
        let id = fs::metadata(root)?.ino();
        fs::read_dir(root)?;
        tree.add(
            id,
            Node {
                path: "/".to_owned(),
                level: 0,
            },
        );
        let mut left: Vec<(PathBuf, String, u32)> = vec![(root.to_owned(), String::new(), 0)];
        let mut made: HashMap<String, usize> = HashMap::new();
        while let Some((directory, path, level)) = left.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let (true, Ok(name)) = (is_directory, entry.file_name().into_string()) else {
                    continue;
                };
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if tree.nodes.len() >= MOST {
                    return Ok(tree);
                }
                let below = format!("{path}/{name}");
                if let Place::Within(workload) = place(&below)
                    && workload.len() < below.len()
                {
                    let made = made.entry(workload.to_owned()).or_default();
                    *made += 1;
                    if *made > most_of_one {
                        if holds_workloads(&path) {
                            continue;
                        }
                        break;
                    }
                }
                let path = below;
                tree.add(
                    metadata.ino(),
                    Node {
                        path: path.clone(),
                        level: level + 1,
                    },
                );
                if metadata.nlink() > 2 {
                    left.push((entry.path(), path, level + 1));
                }
            }
        }
        Ok(tree)
    }

    fn add(&mut self, id: u64, node: Node) {
        self.ids.insert(node.path.clone(), id);
        self.nodes.insert(id, node);
    }

    /// Every cgroup with its id.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// The cgroup with this id.
    pub fn get(&self, id: u64) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The id of the cgroup at this path.
    pub fn id_of(&self, path: &str) -> Option<u64> {
        self.ids.get(path).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_finds_every_level_and_knows_each_by_its_inode() {
        let root = tempfile::tempdir().unwrap();
        let leaf = root.path().join("system.slice/a.service/leaf");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(root.path().join("system.slice/cgroup.procs"), "").unwrap();
        let tree = Tree::scan(root.path()).unwrap();
        assert_eq!(tree.iter().count(), 4);
        let id = fs::metadata(&leaf).unwrap().ino();
        assert_eq!(tree.id_of("/system.slice/a.service/leaf"), Some(id));
        assert_eq!(tree.get(id).map(|node| node.level), Some(3));
        assert_eq!(
            tree.id_of("/"),
            Some(fs::metadata(root.path()).unwrap().ino())
        );
    }

    #[test]
    fn a_workload_that_makes_many_cgroups_takes_no_other_s_place() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: String| fs::create_dir_all(root.path().join(path)).unwrap();
        for number in 0..10 * MOST_OF_ONE {
            make(format!("greedy.service/{number}/leaf"));
            make(format!("user.slice/user-1.slice/session-{number}.scope"));
        }
        make("user.slice/user-1.slice/user@1.service".to_owned());
        make("late.service/leaf".to_owned());
        let tree = Tree::followed(root.path()).unwrap();
        for path in [
            "/greedy.service",
            "/late.service/leaf",
            "/user.slice/user-1.slice/user@1.service",
        ] {
            assert!(tree.id_of(path).is_some(), "{path}");
        }
        let greedy = tree.iter().filter(|(_, node)| node.path.contains("greedy"));
        assert_eq!(greedy.count(), 1 + MOST_OF_ONE);
    }

    #[test]
    fn a_root_that_is_not_there_is_an_error() {
        assert!(Tree::scan(Path::new("/nowhere/at/all")).is_err());
    }
}
