//! Which policy judges an attempt: the rules of all policies, compiled into the
//! tables that the kernel looks up.
//!
//! The kernel finds the class of the workload and the class of the port, then
//! the longest prefix of the address in the table of (class, port class), then,
//! where that has none, in the table of (0, port class).
//!
//! Precedence, strongest first: workload named, longest prefix, port named,
//! file order. A policy without destinations is below every rule that names
//! some, and does not apply to what is exempt. A table whose entry for each
//! prefix is the strongest rule *of exactly that prefix* gives just that: the
//! trie itself prefers the longest.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

use governor_core::key::MAX_RULE_ENTRIES;

use super::globs::Selectors;
use super::prefix::Prefix;
use super::rules::{DNS, Exempt, Group, Rule, Target, port_classes, rules};
use super::schema::{Policy, Spec};

/// At most so many entries in all tables together.
const MOST_ENTRIES: usize = MAX_RULE_ENTRIES as usize;
/// Bits of a trie key before the address: class and port class.
pub const KEY_BITS: u32 = 64;

/// One entry of the trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Class of the workload.
    pub class: u32,
    /// Class of the port.
    pub port_class: u32,
    /// Addresses.
    pub prefix: Prefix,
    /// What is found there.
    pub target: Target,
}

impl Entry {
    /// Length of the key in bits, as an LPM trie counts it.
    pub fn key_bits(&self) -> u32 {
        KEY_BITS + u32::from(self.prefix.len())
    }
}

/// The policies can't be made into tables.
#[derive(Debug)]
pub enum CompileError {
    /// More than [`MAX_RULE_ENTRIES`].
    TooManyEntries,
    /// The globs together are too much for one matcher.
    Globs(globset::Error),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyEntries => write!(
                f,
                "too many policies: they make more than {MOST_ENTRIES} table entries \
                 (name fewer ports, or fewer networks without ports)"
            ),
            Self::Globs(error) => write!(f, "cgroup globs: {error} (use fewer or simpler ones)"),
        }
    }
}

impl std::error::Error for CompileError {}

/// The table of one workload class at one port class.
type Slice = BTreeMap<Prefix, Target>;

/// The compiled policies.
pub struct Table {
    params: Vec<Spec>,
    selectors: Selectors,
    /// By policy: does it name workloads?
    names_workloads: Vec<bool>,
    /// By policy: does it name no destinations?
    everywhere: Vec<bool>,
    /// In file order.
    rules: Vec<Rule>,
    exempt: Vec<Exempt>,
    port_classes: HashMap<u16, u32>,
    groups: BTreeMap<u32, Group>,
    /// The set of named-workload policies of each class; class 0: none.
    classes: Vec<Vec<usize>>,
    /// By class, then by port class.
    slices: Vec<Vec<Slice>>,
}

impl Table {
    /// Compiles policies (in file order). `hosts` holds the present addresses of
    /// host names; a host without any matches nothing for now. DNS is always
    /// exempt, the caller adds resolvers, kubelet and API server.
    pub fn compile(
        policies: &[Policy],
        hosts: &HashMap<String, Vec<IpAddr>>,
        exempt: &[Exempt],
    ) -> Result<Self, CompileError> {
        let mut groups = BTreeMap::new();
        let rules = rules(policies, hosts, &mut groups);
        let exempt: Vec<_> = std::iter::once(DNS).chain(exempt.iter().copied()).collect();
        let mut table = Self {
            params: policies.iter().map(|p| p.spec.clone()).collect(),
            selectors: Selectors::new(policies).map_err(CompileError::Globs)?,
            names_workloads: policies
                .iter()
                .map(|p| !p.spec.workloads.is_empty())
                .collect(),
            everywhere: policies
                .iter()
                .map(|p| p.spec.destinations.is_empty())
                .collect(),
            port_classes: port_classes(&rules, &exempt),
            rules,
            exempt,
            groups,
            classes: Vec::new(),
            slices: Vec::new(),
        };
        table.add_class(Vec::new())?;
        Ok(table)
    }

    /// Parameters by rule.
    pub fn params(&self) -> &[Spec] {
        &self.params
    }

    /// Class of each port that is named; every other port has class 0.
    pub fn port_classes(&self) -> &HashMap<u16, u32> {
        &self.port_classes
    }

    /// Destination groups by id. An id is a hash of (policy, destination): it
    /// outlives reloads and reordering, so that ledgers stay where they were.
    /// Should two collide, the later in file order takes the next free id.
    pub fn groups(&self) -> &BTreeMap<u32, Group> {
        &self.groups
    }

    /// Number of workload classes so far, class 0 included.
    pub fn classes(&self) -> u32 {
        u32::try_from(self.classes.len()).unwrap_or(u32::MAX)
    }

    /// The class of a workload. A set of policies that was not seen before makes
    /// a new class: write its [`Self::entries_of`] to the kernel, then the class
    /// of the workload.
    pub fn class_of(&mut self, cgroup_path: &str) -> Result<u32, CompileError> {
        if let Some(class) = self.known_class_of(cgroup_path) {
            return Ok(class);
        }
        let class = self.add_class(self.selectors.policies_of(cgroup_path))?;
        Ok(u32::try_from(class).unwrap_or(0))
    }

    /// The class of a workload, where a workload like it was seen before.
    pub fn known_class_of(&self, cgroup_path: &str) -> Option<u32> {
        let named = self.selectors.policies_of(cgroup_path);
        let known = self.classes.iter().position(|class| *class == named);
        known.and_then(|class| u32::try_from(class).ok())
    }

    /// The entries of one class.
    pub fn entries_of(&self, class: u32) -> impl Iterator<Item = Entry> {
        let slices = self.slices.get(class as usize).map(Vec::as_slice);
        slices
            .unwrap_or_default()
            .iter()
            .zip(0u32..)
            .flat_map(move |(slice, port_class)| {
                slice.iter().map(move |(prefix, target)| Entry {
                    class,
                    port_class,
                    prefix: *prefix,
                    target: *target,
                })
            })
    }

    /// The entries of all classes so far.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.classes()).flat_map(|class| self.entries_of(class))
    }

    fn port_class_count(&self) -> u32 {
        self.port_classes.values().max().map_or(1, |last| last + 1)
    }

    fn port_class(&self, port: u16) -> u32 {
        self.port_classes.get(&port).copied().unwrap_or(0)
    }

    fn add_class(&mut self, policies: Vec<usize>) -> Result<usize, CompileError> {
        let mut room = MOST_ENTRIES - self.slices.iter().flatten().map(Slice::len).sum::<usize>();
        let mut slices = Vec::new();
        for port_class in 0..self.port_class_count() {
            let slice = match self.slices.first() {
                None => self.unnamed_slice(port_class),
                Some(unnamed) => {
                    let unnamed = unnamed.get(port_class as usize);
                    self.named_slice(&policies, port_class, unnamed.unwrap_or(&Slice::new()))
                }
            };
            room = room
                .checked_sub(slice.len())
                .ok_or(CompileError::TooManyEntries)?;
            slices.push(slice);
        }
        self.classes.push(policies);
        self.slices.push(slices);
        Ok(self.classes.len() - 1)
    }

    /// Class 0: policies that name no workloads.
    fn unnamed_slice(&self, port_class: u32) -> Slice {
        let named = &self.names_workloads;
        let unnamed = |policy: usize| named.get(policy) == Some(&false);
        let mut slice = self.strongest(port_class, unnamed);
        for place in self.exempt_at(port_class) {
            if longest(&slice, place).is_none_or(|target| target == Target::EXEMPT) {
                slice.insert(place, Target::EXEMPT);
            }
        }
        if let Some(target) = self.everywhere(unnamed) {
            slice.entry(Prefix::ANY).or_insert(target);
        }
        slice
    }

    /// A class of workloads that these policies name, over what class 0 has.
    fn named_slice(&self, policies: &[usize], port_class: u32, unnamed: &Slice) -> Slice {
        let ours = |policy: usize| policies.contains(&policy);
        let mut slice = self.strongest(port_class, ours);
        let Some(everywhere) = self.everywhere(ours) else {
            return slice;
        };
        // A policy for every destination hides class 0 and must not, where the
        // place is exempt and no rule of this class names it: repeat there what
        // class 0 says.
        let mut repeated = Slice::new();
        for place in self.exempt_at(port_class) {
            let inside = unnamed.range(place..).map(|(prefix, _)| *prefix);
            let inside = inside.filter(|prefix| place.covers(*prefix));
            for prefix in std::iter::once(place).chain(inside) {
                if longest(&slice, prefix).is_none() {
                    let target = longest(unnamed, prefix).unwrap_or(Target::EXEMPT);
                    repeated.insert(prefix, target);
                }
            }
        }
        slice.extend(repeated);
        slice.entry(Prefix::ANY).or_insert(everywhere);
        slice
    }

    /// By prefix, the strongest rule of exactly this prefix that these policies
    /// have for this class of ports.
    fn strongest(&self, port_class: u32, wanted: impl Fn(usize) -> bool) -> Slice {
        let mut slice = Slice::new();
        let with_port = self.rules.iter().filter(|rule| rule.port.is_some());
        let without = self.rules.iter().filter(|rule| rule.port.is_none());
        for rule in with_port.chain(without) {
            let here = rule
                .port
                .is_none_or(|port| self.port_class(port) == port_class);
            if here && wanted(rule.target.rule as usize) {
                slice.entry(rule.prefix).or_insert(rule.target);
            }
        }
        slice
    }

    fn exempt_at(&self, port_class: u32) -> impl Iterator<Item = Prefix> {
        let here = move |port| self.port_class(port) == port_class;
        let exempt = self.exempt.iter();
        exempt
            .filter(move |place| place.port.is_none_or(here))
            .map(|place| place.net)
    }

    /// The first of these policies that names no destinations.
    fn everywhere(&self, wanted: impl Fn(usize) -> bool) -> Option<Target> {
        let mut policies = self.everywhere.iter().enumerate();
        let (index, _) = policies.find(|(index, everywhere)| **everywhere && wanted(*index))?;
        let rule = u32::try_from(index).ok()?;
        Some(Target { rule, group: 0 })
    }
}

/// What a trie finds for a network: its longest entry around it.
fn longest(slice: &Slice, prefix: Prefix) -> Option<Target> {
    prefix
        .around()
        .find_map(|around| slice.get(&around).copied())
}
