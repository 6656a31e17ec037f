//! `retry-governor exec`: one command in a cgroup of its own, governed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use governor_core::key::CgroupEntry;
use strum::VariantNames as _;

use super::policy::default_policies;
use crate::cgroup::{self, Scoped};
use crate::daemon::hosts::{self, Hosts};
use crate::errors::{Exit, Failure, Result};
use crate::foreground::{self, Foreground, Signals};
use crate::interfaces::{Changes, Interfaces, Scope, Wanted};
use crate::kernel::{Attached, Governor};
use crate::policy::schema::Mode;
use crate::policy::select::Table;
use crate::policy::units::Percent;
use crate::policy::{Policy, load};
use crate::status::{self, Names, Status};

/// How often ledgers that nobody uses are forgotten.
const GARBAGE_EVERY: Duration = Duration::from_secs(60);
/// When a ledger counts as unused.
const IDLE: Duration = Duration::from_secs(900);

/// Run a command with its retries governed
///
/// The command runs in a cgroup of its own; nothing else on this machine is
/// touched. It exits with the command's code, 128+N where signal N ended it, and
/// 126 or 127 where it can't be run, as env(1) does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  retry-governor exec -- ./nightly-import.sh
  retry-governor exec --mode Audit --json-summary out.json -- java -jar app.jar
  retry-governor exec --policy auth.yaml --budget 20 -- python3 worker.py")]
pub struct ExecArgs {
    /// Policy file, repeatable; none: the default policy, enforced. `workloads`
    /// in it is ignored: the command is the workload
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// Instead of the policy's; Audit denies nothing and counts what it would
    #[arg(long, value_parser = modes())]
    mode: Option<Mode>,
    /// Instead of the policy's: retries as a share of successes, 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = budget)]
    budget: Option<Percent>,
    /// Where requests can be refused: auto (lo and every interface that is up and
    /// has an Ethernet header), none (connects only), or names
    #[arg(long, value_name = "auto|none|NAME,...", default_value = "auto")]
    interface: Wanted,
    /// Write the summary as JSON, in the shape of `status --json`
    #[arg(long, value_name = "FILE")]
    json_summary: Option<PathBuf>,
    /// Print no summary
    #[arg(long, short)]
    quiet: bool,
    /// The command
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::VARIANTS).try_map(|name| name.parse::<Mode>())
}

fn budget(text: &str) -> Result<Percent, String> {
    let percent: Percent = text.strip_suffix('%').unwrap_or(text).parse()?;
    match percent <= Percent::whole(100) {
        true => Ok(percent),
        false => Err("it is more than 100".to_owned()),
    }
}

/// Runs it.
pub fn run(args: &ExecArgs) -> Result<ExitCode> {
    let policies = policies(args)?;
    // Signals first: every thread that is made later inherits the mask.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("runtime", error))?;
    let code = runtime.block_on(govern(args, policies));
    // A name that is still being resolved holds up nobody.
    runtime.shutdown_background();
    code
}

/// The policies, as the options bend them.
fn policies(args: &ExecArgs) -> Result<Vec<Policy>> {
    let (mut policies, default_mode) = match args.policy.as_slice() {
        [] => (default_policies()?, Some(Mode::Enforce)),
        files => (load::files(files)?, None),
    };
    for policy in &mut policies {
        policy.spec.workloads.clear();
        if let Some(mode) = args.mode.or(default_mode) {
            policy.spec.mode = mode;
        }
        if let Some(percent) = args.budget {
            policy.spec.retry_constraint.budget.percent = percent;
        }
    }
    Ok(policies)
}

/// Opened before a command of hours runs: what can't be written is better told now.
fn open_summary(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| {
        Failure::failed(format!("--json-summary {}", path.display()), error)
            .hint("the command was not run")
    })
}

async fn govern(args: &ExecArgs, policies: Vec<Policy>) -> Result<ExitCode> {
    let interfaces = Interfaces::new(args.interface.clone(), Scope::Namespace)?;
    let file = args.json_summary.as_deref().map(open_summary).transpose()?;
    let signals = Signals::take()?;
    let cgroup = Scoped::create()?;
    if let Some(why) = &cgroup.displaced {
        eprintln!(
            "retry-governor: the command runs outside of the limits of its caller's cgroup: {why}"
        );
    }
    let mut session = Session::start(&cgroup, policies, interfaces).await?;
    if let Some(signal) = signals.ended() {
        return Ok(ExitCode::from(foreground::signal_code(signal as i32)));
    }
    let mut command = Foreground::start(&args.command, &cgroup, signals)?;
    let status = session.until(command.wait()).await?;

    let summary = session.status();
    session.detach()?;
    if !cgroup.remove() {
        eprintln!(
            "retry-governor: processes of the command live on, ungoverned from now on; \
             the next exec removes their cgroup once they are gone"
        );
    }
    report(args, summary, file);
    Ok(ExitCode::from(foreground::code(status)))
}

/// The summary is no reason to lose the command's exit code.
fn report(args: &ExecArgs, summary: Result<Status>, file: Option<File>) {
    let written = summary.and_then(|summary| {
        if !args.quiet {
            eprint!("{}", status::summary(&summary));
        }
        let Some(mut file) = file else {
            return Ok(());
        };
        let json = serde_json::to_string(&summary).map_err(anyhow::Error::from)?;
        file.write_all((json + "\n").as_bytes())
            .map_err(|error| Failure::failed("--json-summary", error))
    });
    if let Err(failure) = written {
        eprintln!("{failure}");
    }
}

/// The governed time of one command.
struct Session {
    governor: Governor,
    attached: Attached,
    interfaces: Interfaces,
    changes: Changes,
    policies: Vec<Policy>,
    hosts: Hosts,
    table: Table,
    /// The command's cgroup: the one workload.
    workload: u64,
    workload_name: String,
    started: Instant,
}

impl Session {
    async fn start(cgroup: &Scoped, policies: Vec<Policy>, interfaces: Interfaces) -> Result<Self> {
        let mut governor = Governor::load(None)?;
        let workload = cgroup::id(cgroup.path())?;
        let entry = CgroupEntry {
            workload,
            class: [0, 0],
            level: cgroup::level(cgroup.path())?,
            reserved: 0,
        };
        governor.set_cgroup(workload, entry)?;
        let mut hosts = Hosts::default();
        look_up(&mut hosts, &policies).await;
        let table = compile(&policies, &hosts)?;
        governor.set_policy(&table, &HashMap::new())?;
        let attached = governor.attach(cgroup.path())?;
        let changes = Changes::follow().map_err(|error| Failure::failed("interfaces", error))?;
        let mut session = Self {
            attached,
            interfaces,
            changes,
            governor,
            policies,
            hosts,
            table,
            workload,
            workload_name: cgroup::name(cgroup.path())?,
            started: Instant::now(),
        };
        session.follow_interfaces();
        if let Some(why) = session.interfaces.nothing(&session.governor) {
            eprintln!("retry-governor: {why}");
        }
        Ok(session)
    }

    fn detach(self) -> Result<()> {
        // Who judges goes before who carries out.
        let judged = self.attached.detach();
        judged.and(self.interfaces.detach())
    }

    /// Follows host names and interfaces, and forgets old ledgers until `end` comes.
    async fn until<T>(&mut self, end: impl Future<Output = Result<T>>) -> Result<T> {
        let mut end = std::pin::pin!(end);
        let mut resolve = tokio::time::interval(hosts::EVERY);
        let mut garbage = tokio::time::interval(GARBAGE_EVERY);
        // Both have just been done.
        resolve.reset();
        garbage.reset();
        loop {
            tokio::select! {
                ended = &mut end => return ended,
                _ = resolve.tick() => {
                    let asked = hosts::resolve(hosts::names(&self.policies));
                    tokio::select! {
                        ended = &mut end => return ended,
                        answers = asked => self.follow(answers),
                    }
                }
                () = self.changes.next() => self.follow_interfaces(),
                _ = garbage.tick() => {
                    // A full map lets attempts pass and counts them: no reason to stop.
                    let _ = self.governor.collect_garbage(IDLE);
                }
            }
        }
    }

    fn follow_interfaces(&mut self) {
        say(&self.interfaces.update(&mut self.governor));
        if self.interfaces.is_unfinished() {
            self.changes.again();
        }
    }

    fn follow(&mut self, answers: hosts::Answers) {
        let changes = self.hosts.update(answers, Instant::now());
        say(&changes.lines);
        if !changes.addresses {
            return;
        }
        let applied = compile(&self.policies, &self.hosts).and_then(|table| {
            self.governor.set_policy(&table, &HashMap::new())?;
            self.table = table;
            Ok(())
        });
        if let Err(failure) = applied {
            eprintln!("retry-governor: the policy stays as it was: {failure}");
        }
    }

    fn status(&self) -> Result<Status> {
        let workloads = HashMap::from([(self.workload, self.workload_name.clone())]);
        let names = Names {
            workloads: &workloads,
            groups: self.table.groups(),
            policies: &self.policies,
            // Nobody orders anything here.
            caveats: &HashMap::new(),
        };
        let mut status = Status::new(
            &self.governor.snapshot()?,
            &names,
            &HashMap::new(),
            // The summary is of the whole run.
            None,
            self.governor.programs(Some(&self.attached)),
            self.attached.cgroup(),
            self.started.elapsed(),
        );
        status
            .kernel
            .hooks
            .extend(self.interfaces.hooks(&self.governor));
        Ok(status)
    }
}

async fn look_up(hosts: &mut Hosts, policies: &[Policy]) {
    let answers = hosts::resolve(hosts::names(policies)).await;
    say(&hosts.update(answers, Instant::now()).lines);
}

fn say(lines: &[String]) {
    for line in lines {
        eprintln!("retry-governor: {line}");
    }
}

fn compile(policies: &[Policy], hosts: &Hosts) -> Result<Table> {
    let table = Table::compile(policies, &hosts.addresses(), &[]);
    table.map_err(|error| Failure::new(Exit::Usage, "policies", error))
}
