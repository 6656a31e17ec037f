//! `bench`: what the kernel programs cost (`cargo xtask bench`). See `governor_tests::bench`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use governor_tests::bench::kernel::{HOOKS, Programs};
use governor_tests::bench::law::{self, Which};
use governor_tests::bench::pairs;
use governor_tests::bench::programs::{Bench, Cost};
use governor_tests::bench::report::Report;
use governor_tests::bench::sample::Sample;
use governor_tests::bench::worker::{self, Cpus, Load, Worker};
use governor_tests::cgroup::Cgroup;
use governor_tests::netns::Netns;
use governor_tests::place::Place;
use governor_tests::preflight;

/// Measures the kernel programs in a cgroup and a network of its own
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Measure, print a table, write JSON
    Run(Run),
    /// The process that is measured
    Worker {
        /// Which CPUs it may use
        cpus: Cpus,
    },
}

#[derive(Args)]
struct Run {
    /// The kernel programs, as they ship
    #[arg(long)]
    object: PathBuf,
    /// Where the figures go, as JSON
    #[arg(long)]
    json: PathBuf,
    /// Fewer rounds and pairs: ten seconds, wide intervals
    #[arg(long)]
    quick: bool,
    /// Only the programs, not the pairs
    #[arg(long)]
    programs: bool,
}

/// How much is measured.
struct Scale {
    rounds: u32,
    repeat: u32,
    connections: u32,
    exchanges: u32,
    pairs: u32,
}

const WHOLE: Scale = Scale {
    rounds: 25,
    repeat: 100_000,
    connections: 400,
    exchanges: 4_000,
    pairs: 60,
};
const QUICK: Scale = Scale {
    rounds: 9,
    repeat: 20_000,
    connections: 300,
    exchanges: 2_000,
    pairs: 12,
};

fn main() -> ExitCode {
    let done = match Cli::parse().mode {
        Mode::Run(args) => run(&args),
        Mode::Worker { cpus } => worker::work(cpus),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Run) -> Result<()> {
    preflight::require_kernel();
    let scale = if args.quick { QUICK } else { WHOLE };
    let mut report = Report {
        kernel: read("/proc/sys/kernel/osrelease")?,
        cpu: cpu()?,
        date: date(),
        figures: Vec::new(),
    };
    programs(args, &scale, &mut report)?;
    if !args.programs {
        process(args, &scale, &mut report)?;
    }
    print!("{report}");
    fs::write(&args.json, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("cannot write {}", args.json.display()))
}

/// Per run of each program.
fn programs(args: &Run, scale: &Scale, report: &mut Report) -> Result<()> {
    let (netns, cgroup) = (Netns::create(), Cgroup::create("bench"));
    let mut worker = Worker::start(&Place::new(&netns, &cgroup), Cpus::One)?;
    let ours = Programs::shipped(&args.object, &cgroup)?;
    for hook in HOOKS {
        let verified = f64::from(ours.verified_instructions(hook)?);
        report.add(
            &format!("{hook}: verified"),
            "insn",
            &Sample::new(vec![verified]),
            Some(500_000.0),
        );
    }
    let bench = Bench::start(ours, Programs::empty()?, &cgroup)?;
    the_law(&bench, scale, report)?;

    let short = Load::Short(scale.connections);
    let costs = bench.costs(&mut worker, short, scale.rounds)?;
    for cost in &costs.programs {
        let goal = match cost.name {
            "connect4" => Some(1_600.0),
            "sock_ops" => Some(120.0),
            _ => None,
        };
        add_cost(report, cost, "connection", goal);
    }
    report.add("all, per connection", "ns", &costs.all, None);

    let exchanges = Load::Exchanges(scale.exchanges);
    let costs = bench.costs(&mut worker, exchanges, scale.rounds)?;
    let turns = costs.programs.iter();
    for cost in turns.filter(|cost| cost.name.starts_with("skb")) {
        add_cost(report, cost, "exchange", None);
    }
    report.add("all, per exchange", "ns", &costs.all, None);

    // The first ones trip the breaker; the rest is denied.
    worker.cpu(Load::Refused(100))?;
    let denied = Load::Refused(scale.connections * 5);
    for cost in &bench.costs(&mut worker, denied, scale.rounds)?.programs {
        add_cost(report, cost, "denied", Some(400.0));
    }
    Ok(())
}

fn add_cost(report: &mut Report, cost: &Cost, what: &str, goal: Option<f64>) {
    report.add(&format!("{}: {what}", cost.name), "ns", &cost.raw, goal);
    report.add("  over an empty program", "ns", &cost.above, None);
    report.add("  runs", "", &cost.runs, None);
}

fn the_law(bench: &Bench, scale: &Scale, report: &mut Report) -> Result<()> {
    let (rounds, repeat) = (scale.rounds, scale.repeat);
    let empty = law::measure(bench.empty(), Which::Nothing, rounds, repeat)?;
    let nothing = law::measure(bench.ours(), Which::Nothing, rounds, repeat)?;
    report.add("law: an empty program", "ns", &empty, None);
    report.add("law: its ledgers found, no law", "ns", &nothing, None);
    for (name, which, goal) in [
        ("law: attempt", Which::Attempt, Some(150.0)),
        ("law: answered exchange", Which::Answered, Some(150.0)),
        (
            "law: connect, answers are known",
            Which::Connected,
            Some(150.0),
        ),
    ] {
        let sample = law::measure_alone(bench.ours(), which, rounds, repeat)?;
        report.add(name, "ns", &sample, goal);
    }
    Ok(())
}

/// Per connection and per exchange, of a whole process.
fn process(args: &Run, scale: &Scale, report: &mut Report) -> Result<()> {
    for (cpus, place, goals) in [
        (Cpus::Any, "any CPU", [Some(7.0), Some(4.0)]),
        (Cpus::Two, "two CPUs", [None, None]),
    ] {
        let (netns, cgroup) = (Netns::create(), Cgroup::create("bench"));
        let mut worker = Worker::start(&Place::new(&netns, &cgroup), cpus)?;
        let mut ours = Programs::shipped(&args.object, &cgroup)?;
        let mut empty = Programs::empty()?;
        for ((name, load), goal) in [
            ("connection", Load::Short(scale.connections)),
            ("exchange", Load::Exchanges(scale.exchanges)),
        ]
        .into_iter()
        .zip(goals)
        {
            let mut measure =
                |programs| pairs::measure(programs, &cgroup, &mut worker, load, scale.pairs);
            let (hooks, pairs) = (measure(&mut empty)?, measure(&mut ours)?);
            report.add(
                &format!("CPU per {name}, {place}"),
                "us",
                &pairs.without,
                None,
            );
            report.add("  empty programs add", "us", &hooks.added, None);
            report.add("  the governor adds", "us", &pairs.added, None);
            report.add("  the governor adds", "%", &pairs.added_percent, goal);
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

fn cpu() -> Result<String> {
    let text = read("/proc/cpuinfo")?;
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("CPU unknown", |rest| {
        rest.trim_start_matches([' ', '\t', ':'])
    });
    Ok(format!(
        "{model} x {}",
        std::thread::available_parallelism()?
    ))
}

fn date() -> String {
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    now.chars().take(10).collect()
}
