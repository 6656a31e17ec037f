//! What outlives the daemon: maps and links pinned in the BPF file system.
//!
//! The kernel checks nothing when a pinned map is opened, and aya takes it with
//! the layout it expects: a value larger than expected is written past our
//! buffer. So the directory carries the version of the layout, and each map is
//! compared before it is taken over.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::maps::{MapInfo, MapType};
use aya::programs::links::{FdLink, PinnedLink};
use aya_obj::Object;
use governor_core::ABI;
use governor_core::key::map;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{FsType, statfs};

use super::calls::detach_pinned;
use super::load::OBJECT;
use crate::errors::{Failure, Result, causes};

/// Where everything of ours is, below the BPF file system.
const DIRECTORY: &str = "retry-governor";
/// Where links are, below the directory of one version.
pub(super) const LINKS: &str = "links";
/// Maps that are pinned: all whose content a successor takes over. The others are
/// filled anew.
pub(super) const MAPS: [&str; 16] = [
    map::ENDPOINTS,
    map::WORKLOADS,
    map::DESTINATIONS,
    map::LEASES,
    map::THREADS,
    map::CHAINS,
    map::CGROUPS,
    map::PARAMS,
    map::PORTS,
    map::RULES,
    map::ORDERS,
    map::CONFIG,
    map::EVENTS,
    map::LOSSES,
    map::RECORDS,
    map::TROUBLE,
];
/// The usual place of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: FsType = FsType(0xcafe_4a11);

/// The directory of this version below `bpffs`, made where needed, with every
/// map in it known to be ours.
pub(super) fn prepare(bpffs: &Path) -> Result<PathBuf> {
    mount_if_needed(bpffs)?;
    let directory = version(bpffs, ABI);
    let links = directory.join(LINKS);
    fs::create_dir_all(&links)
        .map_err(|error| Failure::failed(format!("pin to {}", links.display()), error))?;
    check(&directory)?;
    Ok(directory)
}

/// Removes everything of ours below `bpffs`, of every version: programs,
/// links, maps. True if there was anything.
pub fn remove_all(bpffs: &Path) -> Result<bool> {
    let directory = directory(bpffs);
    detach_links(&directory);
    match fs::remove_dir_all(&directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::failed(
            format!("remove {}", directory.display()),
            error,
        )),
    }
}

/// Removes every pinned link; maps stay, with what they hold.
pub fn remove_links(bpffs: &Path) -> Result<()> {
    let directory = directory(bpffs);
    detach_links(&directory);
    let links = version(bpffs, ABI).join(LINKS);
    match fs::remove_dir_all(&links) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::failed(
            format!("remove {}", links.display()),
            error,
        )),
        _ => Ok(()),
    }
}

/// Detaches what is pinned: a link that a running daemon holds too would
/// outlive its pin.
fn detach_links(directory: &Path) {
    let versions = fs::read_dir(directory).into_iter().flatten().flatten();
    for version in versions {
        let links = fs::read_dir(version.path().join(LINKS));
        for link in links.into_iter().flatten().flatten() {
            // One that is detached already, or whose cgroup is gone, is no error.
            let _ = detach_pinned(&link.path());
        }
    }
}

/// Removes what other versions of this binary left: call it once ours is attached.
pub fn remove_other_versions(bpffs: &Path) -> Result<()> {
    let ours = version(bpffs, ABI);
    let Ok(entries) = fs::read_dir(bpffs.join(DIRECTORY)) else {
        return Ok(());
    };
    for entry in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| *path != ours)
    {
        fs::remove_dir_all(&entry)
            .map_err(|error| Failure::failed(format!("remove {}", entry.display()), error))?;
    }
    Ok(())
}

/// Pins a link beside its place, which a predecessor's may still have.
pub(super) fn pin_beside(link: FdLink, place: &Path) -> Result<()> {
    let beside = beside(place);
    // A predecessor died here.
    let _ = fs::remove_file(&beside);
    // The pin holds it from here on.
    let pinned = link.pin(&beside);
    pinned.map(drop).map_err(|error| not_pinned(place, &error))
}

/// Gives up a link that was pinned beside its place.
pub(super) fn give_up(place: &Path) {
    let _ = fs::remove_file(beside(place));
}

/// Puts a link that was pinned beside its place there. Renaming drops a
/// predecessor's last reference, so there is no moment without a link (a short
/// one with two).
pub(super) fn take_place(place: &Path) -> Result<PinnedLink> {
    fs::rename(beside(place), place).map_err(|error| not_pinned(place, &error))?;
    // aya remembers the path it pinned to; so it is opened anew where it is now.
    PinnedLink::from_pin(place).map_err(|error| not_pinned(place, &error))
}

/// The BPF file system keeps names with a dot for itself.
fn beside(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push("-new");
    name.into()
}

fn not_pinned(place: &Path, error: &(dyn Error + 'static)) -> Failure {
    Failure::failed(format!("pin {}", place.display()), causes(error))
}

/// The directory of everything of ours, of every version.
pub fn directory(bpffs: &Path) -> PathBuf {
    bpffs.join(DIRECTORY)
}

/// Whether there is a BPF file system.
pub fn is_mounted(bpffs: &Path) -> bool {
    statfs(bpffs).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC)
}

fn version(bpffs: &Path, abi: u32) -> PathBuf {
    bpffs.join(DIRECTORY).join(format!("v{abi}"))
}

fn mount_if_needed(bpffs: &Path) -> Result<()> {
    if is_mounted(bpffs) {
        return Ok(());
    }
    mount(
        Some("bpf"),
        bpffs,
        Some("bpf"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(|error| {
        let why = format!("no BPF file system is mounted, and mounting one failed: {error}");
        Failure::missing(bpffs.display(), why).hint(format!("mount -t bpf bpf {}", bpffs.display()))
    })
}

/// The shape of a map.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
}

fn check(directory: &Path) -> Result<()> {
    let object = Object::parse(OBJECT).map_err(|error| Failure::failed("kernel object", error))?;
    for name in MAPS {
        let path = directory.join(name);
        let Some(wanted) = object.maps.get(name) else {
            continue;
        };
        if !path.exists() {
            continue;
        }
        let wanted = Shape {
            kind: wanted.map_type(),
            key: wanted.key_size(),
            value: wanted.value_size(),
            entries: wanted.max_entries(),
        };
        let found = found(&path).map_err(|error| {
            let what = format!("pinned map {}", path.display());
            Failure::failed(what, causes(error.as_ref()))
        })?;
        if let Some(difference) = difference(&wanted, &found) {
            return Err(
                Failure::failed(format!("pinned map {}", path.display()), difference)
                    .hint("`retry-governor detach` removes what another version left"),
            );
        }
    }
    Ok(())
}

fn found(path: &Path) -> anyhow::Result<Shape> {
    let info = MapInfo::from_pin(path)?;
    Ok(Shape {
        kind: info.map_type()? as u32,
        key: info.key_size(),
        value: info.value_size(),
        entries: info.max_entries(),
    })
}

/// The first thing that differs, in words.
fn difference(wanted: &Shape, found: &Shape) -> Option<String> {
    // Storage maps have no size, and the loader rounds a ring up to pages.
    let sizeless = [MapType::RingBuf as u32, MapType::SkStorage as u32];
    let entries = (!sizeless.contains(&wanted.kind)).then_some((wanted.entries, found.entries));
    let pairs = [
        ("type", Some((wanted.kind, found.kind))),
        ("key size", Some((wanted.key, found.key))),
        ("value size", Some((wanted.value, found.value))),
        ("number of entries", entries),
    ];
    pairs.into_iter().find_map(|(what, pair)| {
        let (wanted, found) = pair?;
        (wanted != found).then(|| format!("its {what} is {found}, not {wanted}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: Shape = Shape {
        kind: 1,
        key: 32,
        value: 200,
        entries: 1024,
    };

    #[test]
    fn a_map_of_another_layout_is_named_with_what_differs() {
        let other = Shape { value: 208, ..HASH };
        assert_eq!(
            difference(&HASH, &other),
            Some("its value size is 208, not 200".to_owned())
        );
        let other = Shape {
            entries: 64,
            ..HASH
        };
        assert_eq!(
            difference(&HASH, &other),
            Some("its number of entries is 64, not 1024".to_owned())
        );
        assert_eq!(difference(&HASH, &HASH), None);
    }

    #[test]
    fn a_ring_may_be_larger_than_asked_for() {
        let ring = |entries| Shape {
            kind: MapType::RingBuf as u32,
            key: 0,
            value: 0,
            entries,
        };
        assert_eq!(difference(&ring(1), &ring(4096)), None);
    }
}
