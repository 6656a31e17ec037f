//! `retry-governor doctor`: what this machine has and lacks.

mod check;
mod exempt;
mod interfaces;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aya::programs::{ProgramType, loaded_programs};
use aya::sys::{BpfHelper, is_helper_supported};
use clap::Args;

use check::{Check, State};

use crate::cgroup;
use crate::daemon::verify::{self, POINTS};
use crate::errors::{Exit, Failure, Result};
use crate::kernel::{Capabilities, Governor, HOOKS, at_point, pins, release};

/// A program that has no name, or whose name may not be asked.
const UNNAMED: &str = "?";
/// The cgroup in which attaching is tried.
const TRIAL: &str = "retry-governor-doctor-";

/// Say what this machine has and lacks
///
/// Nothing is attached to any cgroup but one that is made for the trial and
/// removed at once.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  retry-governor doctor
  retry-governor doctor --json | jq '.checks[] | select(.state != \"Ok\")'

Exit code 4 where something is missing.")]
pub struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The kubeconfig that `run` is given, if it is
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let checks = checks(args.kubeconfig.as_deref());
    let text = match args.json {
        true => {
            let report = serde_json::json!({ "checks": checks });
            format!("{report}\n")
        }
        false => checks.iter().map(|check| check.line() + "\n").collect(),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(Failure::failed("standard output", error));
        }
        _ => {}
    }
    let worst = checks.iter().map(|check| check.state).max();
    Ok(match worst {
        Some(State::Missing) => ExitCode::from(Exit::Missing as u8),
        _ => ExitCode::SUCCESS,
    })
}

fn checks(kubeconfig: Option<&Path>) -> Vec<Check> {
    let names = program_names();
    let root = cgroup::root();
    let mut checks = vec![
        kernel(&release::name()),
        kernel_types(),
        root.as_deref()
            .map_or_else(|failure| Check::failed("cgroup2", failure), cgroup_root),
        privileges(Capabilities::here()),
        set_retval(),
        bpffs(),
    ];
    if let Ok(root) = &root {
        checks.push(attach(root));
        checks.push(others(root, &names));
    }
    checks.extend(interfaces::checks(&names));
    checks.push(exempt::check(kubeconfig));
    checks
}

/// Names of the programs in the kernel, by id; empty without the privilege to ask.
fn program_names() -> HashMap<u32, String> {
    loaded_programs()
        .filter_map(|program| {
            let program = program.ok()?;
            let name = program.name_as_str().unwrap_or_default().to_owned();
            Some((program.id(), name))
        })
        .collect()
}

/// What an older one lacks, the lines below find out.
fn kernel(release: &str) -> Check {
    match release::at_least(release, release::OLDEST_TRIED) {
        true => Check::ok("kernel", release),
        false => Check::degraded(
            "kernel",
            release,
            format!(
                "nothing before Linux {}.{} was ever tried; what is missing is told below",
                release::OLDEST_TRIED.0,
                release::OLDEST_TRIED.1
            ),
        ),
    }
}

fn kernel_types() -> Check {
    match fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(_) => Check::ok("BTF", "/sys/kernel/btf/vmlinux"),
        Err(error) => Check::degraded(
            "BTF",
            error.kind().to_string(),
            "a reset is told from a timeout with less certainty; CONFIG_DEBUG_INFO_BTF brings it",
        ),
    }
}

fn cgroup_root(root: &Path) -> Check {
    match verify::is_host_root(root) {
        Ok(true) => Check::ok("cgroup2", root.display().to_string()),
        Ok(false) => Check::degraded(
            "cgroup2",
            format!("{} is the root of a cgroup namespace", root.display()),
            "`run` can't govern the node from here; the host's cgroup namespace can",
        ),
        Err(failure) => Check::failed("cgroup2", &failure),
    }
}

fn privileges(held: Capabilities) -> Check {
    const CHECK: &str = "privileges";
    match (held.missing().as_slice(), held.is_admin()) {
        ([], true) => Check::ok(CHECK, "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN"),
        ([], false) => Check::degraded(
            CHECK,
            "without CAP_SYS_ADMIN",
            "`run` can't mount a BPF file system, `gain` sees no listeners in containers, and \
             programs of others have no names here",
        ),
        (missing, _) => Check::missing(
            CHECK,
            format!("without {}", missing.join(", ")),
            "run it as root",
        ),
    }
}

fn set_retval() -> Check {
    let remedy = format!(
        "{}, it came with 5.18; without it a refused connect would say EPERM",
        release::NEWER
    );
    match is_helper_supported(ProgramType::CgroupSockAddr, BpfHelper::BPF_FUNC_set_retval) {
        Ok(true) => Check::ok("set_retval", "a refused connect says ECONNREFUSED"),
        Ok(false) => Check::missing("set_retval", "the kernel has no bpf_set_retval", remedy),
        Err(error) => Check::missing(
            "set_retval",
            format!("can't be asked: {}", error),
            "run it as root",
        ),
    }
}

fn bpffs() -> Check {
    let path = Path::new(pins::BPFFS);
    match (pins::is_mounted(path), path.is_dir()) {
        (true, _) => Check::ok("bpffs", path.display().to_string()),
        (false, true) => Check::ok(
            "bpffs",
            format!("not mounted at {}: `run` mounts it", path.display()),
        ),
        (false, false) => Check::missing(
            "bpffs",
            format!("{} is not there", path.display()),
            "CONFIG_BPF_SYSCALL, and sysfs at /sys; `exec` works without",
        ),
    }
}

/// A cgroup for the trial, which goes with its guard.
struct Trial(PathBuf);

impl Trial {
    fn new(root: &Path) -> io::Result<Self> {
        let path = root.join(format!("{TRIAL}{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Nobody was ever in it.
        let _ = fs::remove_dir(&self.0);
    }
}

fn attach(root: &Path) -> Check {
    let trial = match Trial::new(root) {
        Ok(trial) => trial,
        Err(error) => {
            return Check::missing(
                "attach",
                format!("no cgroup can be made: {}", error.kind()),
                "run it as root, with a writable cgroup2",
            );
        }
    };
    let attached = Governor::load(None).and_then(|mut governor| {
        let attached = governor.attach(&trial.0)?;
        attached.detach()?;
        Ok(governor.executor().map_err(str::to_owned))
    });
    match attached {
        Ok(Err(why)) => Check::degraded(
            "attach",
            why,
            "requests are counted, and only connects refused",
        ),
        Ok(Ok(())) => Check::ok(
            "attach",
            format!(
                "{} programs, verified and attached to a cgroup made for it",
                HOOKS.len()
            ),
        ),
        Err(failure) => Check::failed("attach", &failure),
    }
}

/// Who else is at the root. Links share; a program that was attached without
/// BPF_F_ALLOW_MULTI keeps everybody else out (cilium's `cgroup.go`).
fn others(root: &Path, names: &HashMap<u32, String>) -> Check {
    const CHECK: &str = "others";
    let root = match File::open(root) {
        Ok(root) => root,
        Err(error) => return Check::missing(CHECK, error.kind().to_string(), "run it as root"),
    };
    let mut found = Vec::new();
    let mut in_the_way = Vec::new();
    for (point, kind) in POINTS {
        let at = match at_point(&root, kind) {
            Ok(at) => at,
            // This kernel has no such point, so nobody is there.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => continue,
            Err(error) => {
                return Check::missing(
                    CHECK,
                    format!("can't be asked: {}", error.kind()),
                    "run it as root",
                );
            }
        };
        for id in &at.programs {
            let name = names.get(id).map_or(UNNAMED, String::as_str);
            found.push(format!("{name} (id {id}) at {point}"));
        }
        if at.exclusive && HOOKS.contains(&point) {
            in_the_way.push(point);
        }
    }
    match (found.is_empty(), in_the_way.is_empty()) {
        (true, _) => Check::ok(CHECK, "no other program is attached to the cgroup root"),
        (false, true) => Check::ok(
            CHECK,
            format!(
                "{}: they and ours do not disturb each other",
                found.join(", ")
            ),
        ),
        (false, false) => Check::missing(
            CHECK,
            format!("{}: alone at {}", found.join(", "), in_the_way.join(", ")),
            "its owner must attach it with BPF_F_ALLOW_MULTI, or as a link",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_nobody_tried_is_told_and_not_refused() {
        assert_eq!(kernel("6.1.0-18-cloud-amd64").state, State::Ok);
        assert_eq!(kernel("6.18.44").state, State::Ok);
        let old = kernel("5.15.0-91-generic");
        assert_eq!(old.state, State::Degraded);
        let hint = old.hint.unwrap_or_default();
        assert!(hint.contains("before Linux 6.1 was"), "{hint}");
        assert_eq!(kernel("odd").state, State::Degraded);
    }

    #[test]
    fn a_privilege_that_is_missing_is_told_with_what_is_lost() {
        const BPF: u32 = 39;
        const SYS_ADMIN: u32 = 21;
        let all = Capabilities::ALL;
        assert_eq!(privileges(all).state, State::Ok);
        let some = privileges(all.without(SYS_ADMIN));
        assert_eq!(some.state, State::Degraded);
        assert_eq!(some.found, "without CAP_SYS_ADMIN");
        let few = privileges(all.without(SYS_ADMIN).without(BPF));
        assert_eq!(few.state, State::Missing);
        assert_eq!(few.found, "without CAP_BPF");
    }
}
