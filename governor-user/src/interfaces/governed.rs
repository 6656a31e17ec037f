//! What is attached, made equal to what was chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::choice::{By, Scope, choose};
use super::device::Link;
use super::netlink;
use super::pacing::paced;
use super::wanted::Wanted;
use crate::errors::{Failure, Result};
use crate::kernel::filters::{self, Marks, Which};
use crate::kernel::{ActHook, Executor, Governor, Method, at_device};
use crate::status::model::Hook;

/// Programs that are attached before others may have their turn. Each waits until
/// every CPU has noticed: 10 to 30 ms (measured, 300 veths on two busy CPUs: 18 s).
const AT_ONCE: usize = 32;

/// A place: a device and a program there.
type Place = (u32, ActHook);

/// The devices of this network namespace, as far as they are governed.
#[derive(Debug)]
pub struct Interfaces {
    wanted: Wanted,
    scope: Scope,
    method: Method,
    marks: Marks,
    attached: BTreeMap<Place, At>,
    /// What could not be attached, and why: told once.
    failed: BTreeMap<Place, String>,
    /// More is to be attached than was at once.
    unfinished: bool,
    /// What a predecessor left elsewhere is removed.
    tidied: bool,
    /// Devices that no program reaches.
    gaps: BTreeMap<u32, Gap>,
    paced: BTreeSet<u32>,
}

#[derive(Debug)]
struct At {
    device: String,
    /// Id of the program.
    program: u32,
    executor: Executor,
}

impl At {
    /// Whether it still is: asked of the device, as our own link proves nothing.
    fn is_there(&self, method: Method, (index, hook): Place) -> io::Result<bool> {
        match method {
            Method::Tcx => Ok(at_device(index, hook.direction())?.contains(&self.program)),
            Method::Clsact => {
                let filters = netlink::filters(index, hook.parent())?;
                Ok(filters.iter().any(|filter| filter.program == self.program))
            }
        }
    }
}

/// A device that carries requests which can't be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its name.
    pub device: String,
    /// Why, after the name.
    pub why: &'static str,
}

impl Interfaces {
    /// None yet. Fails for a name that can't be governed, with nothing attached.
    pub fn new(wanted: Wanted, scope: Scope) -> Result<Self> {
        if let Wanted::Named(_) = wanted {
            wanted.check(&netlink::links().map_err(not_listed)?)?;
        }
        let method = Method::of_this_kernel();
        let marks = match (scope, method) {
            (Scope::Namespace, Method::Clsact) => Marks::command()?,
            _ => Marks::daemon(),
        };
        Ok(Self {
            wanted,
            scope,
            method,
            marks,
            attached: BTreeMap::new(),
            failed: BTreeMap::new(),
            unfinished: false,
            tidied: false,
            gaps: BTreeMap::new(),
            paced: BTreeSet::new(),
        })
    }

    /// Takes up the devices as they are now; what is worth telling of it. To be
    /// called again at once where it [is unfinished](Self::is_unfinished).
    pub fn update(&mut self, governor: &mut Governor) -> Vec<String> {
        self.unfinished = false;
        if governor.is_detached() {
            return Vec::new();
        }
        let links = match netlink::links() {
            Ok(links) => links,
            Err(error) => return vec![format!("{} (those attached stay)", not_listed(error))],
        };
        let mut lines = Vec::new();
        if governor.executor().is_ok() {
            self.make_equal(governor, &links, &mut lines);
        }
        if !self.unfinished && !self.tidied {
            self.tidy(governor, &links);
            self.tidied = true;
        }
        lines
    }

    /// Whether some devices have not had their turn.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    fn make_equal(&mut self, governor: &mut Governor, links: &[Link], lines: &mut Vec<String>) {
        let chosen = self.choose(links);
        self.forget_the_lost();
        let gone = self
            .attached
            .extract_if(.., |place, _| !chosen.contains(place));
        for (_, at) in gone {
            let detached = at.executor.detach();
            lines.extend(detached.err().map(|failure| failure.to_string()));
        }
        self.failed.retain(|place, _| chosen.contains(place));
        let mut left = AT_ONCE;
        for link in links {
            let places = ActHook::ALL.map(|hook| (link.index, hook));
            for place in places.into_iter().filter(|place| chosen.contains(place)) {
                if let Some(at) = self.attached.get_mut(&place) {
                    // Devices are renamed.
                    at.device.clone_from(&link.name);
                } else if left > 0 {
                    left -= 1;
                    lines.extend(self.attach(governor, link, place));
                } else {
                    self.unfinished = true;
                }
            }
        }
        self.pace(governor, links, lines);
    }

    /// Which places are to be held, and which devices are out of reach.
    fn choose(&mut self, links: &[Link]) -> BTreeSet<Place> {
        let by = match self.wanted {
            Wanted::Named(_) => By::Name,
            Wanted::Auto | Wanted::None => By::Auto,
        };
        let mut chosen = BTreeSet::new();
        let mut gaps = BTreeMap::new();
        for link in links.iter().filter(|link| self.wanted.wants(link)) {
            match choose(link, self.scope, by) {
                Ok(hooks) => chosen.extend(hooks.iter().map(|hook| (link.index, *hook))),
                Err(passed) if passed.is_a_gap() => {
                    let device = link.name.clone();
                    let why = passed.words();
                    gaps.insert(link.index, Gap { device, why });
                }
                Err(_) => {}
            }
        }
        self.gaps = gaps;
        chosen
    }

    /// Attaches a program; what went wrong, the first time.
    fn attach(&mut self, governor: &mut Governor, link: &Link, place: Place) -> Option<String> {
        if self.method == Method::Clsact {
            filters::remove(link, &[place.1], Which::Orphans);
        }
        let device = (link.index, link.name.as_str());
        let attached = governor.attach_executor(place.1, device, self.method, &self.marks);
        match attached {
            Ok(executor) => {
                self.failed.remove(&place);
                let at = At {
                    device: link.name.clone(),
                    program: governor.executor_program(place.1).map_or(0, |it| it.id),
                    executor,
                };
                self.attached.insert(place, at);
                None
            }
            Err(failure) => {
                let line = failure.to_string();
                let line = line.trim_start_matches("error: ").to_owned();
                let before = self.failed.insert(place, line.clone());
                (before.as_ref() != Some(&line)).then_some(line)
            }
        }
    }

    /// Forgets what somebody else took away: an agent that makes the classifier
    /// of its device anew removes every filter. Whoever can't be asked has just gone.
    fn forget_the_lost(&mut self) {
        let method = self.method;
        self.attached
            .retain(|place, at| at.is_there(method, *place).unwrap_or(true));
    }

    fn pace(&mut self, governor: &mut Governor, links: &[Link], lines: &mut Vec<String>) {
        let qdiscs = netlink::qdiscs().unwrap_or_default();
        let governed: BTreeSet<_> = self.attached.keys().map(|place| place.0).collect();
        let delays = paced(links, &qdiscs, &netlink::uplinks());
        let paced = delays.intersection(&governed).copied().collect();
        if paced == self.paced {
            return;
        }
        if let Err(failure) = governor.set_paced(&paced) {
            lines.push(format!("not every interface is paced: {failure}"));
        }
        // Also what failed: it is told once, and tried again when anything changes.
        self.paced = paced;
    }

    /// Removes what a predecessor attached where we attach nothing, once all of
    /// ours is attached.
    fn tidy(&self, governor: &Governor, links: &[Link]) {
        let held: Vec<_> = self.attached.keys().copied().collect();
        governor.forget_executors_but(&held);
        if self.method == Method::Clsact {
            let which = match self.scope {
                Scope::Node => Which::Predecessors,
                Scope::Namespace => Which::Orphans,
            };
            for link in links {
                for hook in ActHook::ALL {
                    if !held.contains(&(link.index, hook)) {
                        filters::remove(link, &[hook], which);
                    }
                }
            }
        }
    }

    /// Why no request can be refused anywhere; nothing is wrong where none was
    /// wanted.
    pub fn nothing(&self, governor: &Governor) -> Option<String> {
        if self.wanted == Wanted::None || !self.attached.is_empty() {
            return None;
        }
        let why = match (governor.executor(), self.failed.values().next()) {
            (Err(why), _) => why.to_owned(),
            (_, Some(why)) => why.clone(),
            _ => "no interface is up".to_owned(),
        };
        Some(format!(
            "requests are counted, only connects refused: {why}"
        ))
    }

    /// What is governed and what is out of reach, in one line.
    pub fn describe(&self, governor: &Governor) -> String {
        if let Some(why) = self.nothing(governor) {
            return why;
        }
        let mut devices: Vec<_> = self
            .attached
            .values()
            .map(|at| at.device.as_str())
            .collect();
        devices.dedup();
        let governed = match devices.as_slice() {
            [] => "requests are not refused: --interface none".to_owned(),
            devices if self.unfinished => {
                format!("requests can be refused at {}; more follow", list(devices))
            }
            devices => format!("requests can be refused at {}", list(devices)),
        };
        let gaps: Vec<_> = self
            .gaps()
            .map(|gap| format!("{} {}", gap.device, gap.why))
            .collect();
        match gaps.as_slice() {
            [] => governed,
            gaps => format!("{governed}; out of reach: {}", list(gaps)),
        }
    }

    /// What is attached: the program, the device, and whether it is still there.
    pub fn places(&self) -> impl Iterator<Item = (ActHook, &str, Attachment)> {
        self.attached.iter().map(|(place, at)| {
            let state = match at.is_there(self.method, *place) {
                Ok(true) => Attachment::There,
                _ => Attachment::Lost,
            };
            (place.1, at.device.as_str(), state)
        })
    }

    /// What is attached, as the status shows it.
    pub fn hooks(&self, governor: &Governor) -> Vec<Hook> {
        let hook = |(hook, device, state): (ActHook, &str, Attachment)| {
            let program = governor.executor_program(hook)?;
            Some(Hook {
                name: hook.name().to_owned(),
                attached: state == Attachment::There,
                path: device.to_owned(),
                program_id: program.id,
                verified_instructions: program.verified_instructions,
                run_count: program.run_count,
                run_seconds: program.run_time.as_secs_f64(),
            })
        };
        self.places().filter_map(hook).collect()
    }

    /// Devices whose requests can't be refused.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.values()
    }

    /// Detaches from every device.
    pub fn detach(self) -> Result<()> {
        let mut first = Ok(());
        for at in self.attached.into_values() {
            let detached = at.executor.detach();
            if first.is_ok() {
                first = detached;
            }
        }
        first
    }

    /// Leaves everything attached for a successor.
    pub fn keep(self) {
        for at in self.attached.into_values() {
            at.executor.keep();
        }
    }
}

/// Whether what was attached still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// It is.
    There,
    /// Somebody took it away.
    Lost,
}

/// As many as a line holds.
pub fn list<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<_> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn not_listed(error: io::Error) -> Failure {
    Failure::failed("interfaces", error)
}
