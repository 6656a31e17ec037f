//! The object that ships, loaded, with a policy, and attached for as long as a guard lives.

use bytemuck::Zeroable as _;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, bail};
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::links::FdLink;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{
    CgroupAttachMode, CgroupSkbAttachType, LinkOrder, Program, ProgramError, ProgramInfo,
    TcAttachType,
};
use aya::{Ebpf, EbpfLoader};
use governor_core::key::{CgroupEntry, Config, MAX_RULES, PortKey, RuleKey, RuleValue, map};
use governor_core::params::Params;

use crate::cgroup::Cgroup;
use crate::netns::Netns;
use crate::place::Place;

/// Programs in the order they are attached, as the daemon does.
pub const HOOKS: [&str; 5] = [
    "skb_ingress",
    "skb_egress",
    "sock_ops",
    "connect4",
    "act_egress",
];

/// Where they are attached: a cgroup, and the loopback device of a network of its own.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The governed cgroup.
    pub cgroup: &'a Cgroup,
    /// Its network.
    pub netns: &'a Netns,
}

impl<'a> Site<'a> {
    /// Where the governed processes live.
    pub fn place(self) -> Place<'a> {
        Place::new(self.netns, self.cgroup)
    }
}

/// The port whose breaker, once open, stays open for the whole measurement.
pub const REFUSING: u16 = 9;

/// Programs of one object.
#[derive(Debug)]
pub struct Programs(Ebpf);

/// Attached for as long as this lives.
#[derive(Debug)]
pub struct Attached(#[expect(dead_code, reason = "dropping the links detaches")] Vec<FdLink>);

/// What the kernel has counted for a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs {
    /// How often it ran.
    pub count: u64,
    /// How long in all, ns.
    pub nanos: u64,
}

impl Runs {
    /// Since an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count - earlier.count,
            nanos: self.nanos - earlier.nanos,
        }
    }

    /// Mean time of a run, ns.
    pub fn mean(self) -> f64 {
        self.nanos as f64 / self.count.max(1) as f64
    }
}

impl Programs {
    /// Loads the shipped object, with a policy that enforces everything by default.
    pub fn shipped(object: &Path, cgroup: &Cgroup) -> Result<Self> {
        let bytes =
            fs::read(object).with_context(|| format!("cannot read {}", object.display()))?;
        let mut ebpf = EbpfLoader::new()
            .load(&bytes)
            .context("the object does not load")?;
        set_policy(&mut ebpf, cgroup)?;
        Self::verified(ebpf)
    }

    /// The floor.
    pub fn empty() -> Result<Self> {
        Self::verified(super::empty::load()?)
    }

    fn verified(mut ebpf: Ebpf) -> Result<Self> {
        for name in HOOKS.into_iter().chain(["law"]) {
            let program = ebpf
                .program_mut(name)
                .with_context(|| format!("no program {name}"))?;
            load(program).with_context(|| format!("program {name}"))?;
        }
        Ok(Self(ebpf))
    }

    /// Attaches every hook.
    pub fn attach(&mut self, site: Site<'_>) -> Result<Attached> {
        let directory = File::open(site.cgroup.path())?;
        let links = HOOKS.into_iter().map(|hook| {
            let program = self.0.program_mut(hook).context("no such program")?;
            let link = match program {
                Program::CgroupSockAddr(program) => {
                    let id = program.attach(&directory, CgroupAttachMode::default())?;
                    FdLink::try_from(program.take_link(id)?)
                }
                Program::SockOps(program) => {
                    let id = program.attach(&directory, CgroupAttachMode::default())?;
                    FdLink::try_from(program.take_link(id)?)
                }
                Program::CgroupSkb(program) => {
                    let direction = match hook {
                        "skb_ingress" => CgroupSkbAttachType::Ingress,
                        _ => CgroupSkbAttachType::Egress,
                    };
                    let id = program.attach(&directory, direction, CgroupAttachMode::default())?;
                    FdLink::try_from(program.take_link(id)?)
                }
                Program::SchedClassifier(program) => {
                    // By name, among the devices of the thread's network.
                    let id = site.netns.run(|| {
                        let order = TcAttachOptions::TcxOrder(LinkOrder::default());
                        program.attach_with_options("lo", TcAttachType::Egress, order)
                    })?;
                    FdLink::try_from(program.take_link(id)?)
                }
                _ => bail!("program {hook} is of an unexpected type"),
            };
            link.with_context(|| format!("attach {hook}"))
        });
        Ok(Attached(links.collect::<Result<_>>()?))
    }

    /// What the kernel has counted for a program.
    pub fn runs(&self, name: &str) -> Result<Runs> {
        let info = info(self.0.program(name).context("no such program")?)?;
        Ok(Runs {
            count: info.run_count(),
            nanos: u64::try_from(info.run_time().as_nanos())?,
        })
    }

    /// Instructions the verifier went through.
    pub fn verified_instructions(&self, name: &str) -> Result<u32> {
        let info = info(self.0.program(name).context("no such program")?)?;
        Ok(info.verified_instruction_count().unwrap_or(0))
    }

    /// The law's test program.
    pub fn law(&self) -> Result<&aya::programs::SchedClassifier> {
        let program = self.0.program("law").context("no such program")?;
        program.try_into().context("program law")
    }
}

fn load(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.load(),
        Program::SockOps(program) => program.load(),
        Program::CgroupSkb(program) => program.load(),
        Program::SchedClassifier(program) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

fn info(program: &Program) -> Result<ProgramInfo, ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.info(),
        Program::SockOps(program) => program.info(),
        Program::CgroupSkb(program) => program.info(),
        Program::SchedClassifier(program) => program.info(),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

/// Every destination is governed by default; the breaker of [`REFUSING`] never lets a probe go.
fn set_policy(ebpf: &mut Ebpf, cgroup: &Cgroup) -> Result<()> {
    let silent = Params {
        open_base: 3_600_000,
        open_max: 3_600_000,
        ..Params::DEFAULT
    };
    let parity = 1;
    let mut params = table::<Array<&mut MapData, [u8; size_of::<Params>()]>>(ebpf, map::PARAMS)?;
    params.set(0, bytes(Params::DEFAULT), 0)?;
    for (rule, p) in [Params::DEFAULT, silent].into_iter().enumerate() {
        params.set(parity * MAX_RULES + u32::try_from(rule)?, bytes(p), 0)?;
    }
    let mut ports = table::<HashMap<&mut MapData, [u8; 8], u32>>(ebpf, map::PORTS)?;
    let key = PortKey {
        parity,
        port: REFUSING.into(),
    };
    ports.insert(bytemuck::cast::<_, [u8; 8]>(key), 1, 0)?;
    let mut rules = table::<LpmTrie<&mut MapData, [u8; 24], [u8; 8]>>(ebpf, map::RULES)?;
    for class in 0..2 {
        let key = RuleKey::new(parity, 0, class, [0; 16]);
        let value = RuleValue {
            rule: class,
            group: 0,
        };
        let key = Key::new(RuleKey::FIXED_BITS, bytemuck::cast(key));
        rules.insert(&key, bytemuck::cast::<_, [u8; 8]>(value), 0)?;
    }
    let id = cgroup.id();
    let entry = CgroupEntry {
        workload: id,
        class: [0; 2],
        level: 1,
        reserved: 0,
    };
    let mut cgroups = table::<HashMap<&mut MapData, u64, [u8; 24]>>(ebpf, map::CGROUPS)?;
    cgroups.insert(id, bytemuck::cast::<_, [u8; 24]>(entry), 0)?;
    let config = Config {
        generation: parity,
        orders: 0,
        level: 1,
        ..Config::zeroed()
    };
    let mut configs = table::<Array<&mut MapData, [u8; size_of::<Config>()]>>(ebpf, map::CONFIG)?;
    configs.set(0, bytemuck::cast::<_, [u8; size_of::<Config>()]>(config), 0)?;
    Ok(())
}

/// Parameters as they lie in the map.
fn bytes(p: Params) -> [u8; size_of::<Params>()] {
    bytemuck::cast(p)
}

fn table<'a, T>(ebpf: &'a mut Ebpf, name: &str) -> Result<T>
where
    T: TryFrom<&'a mut Map, Error = MapError>,
{
    let map = ebpf
        .map_mut(name)
        .with_context(|| format!("no map {name}"))?;
    T::try_from(map).with_context(|| format!("map {name}"))
}
