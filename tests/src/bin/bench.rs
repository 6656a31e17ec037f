//! `bench`: what the kernel programs cost (`cargo xtask bench`). See `governor_tests::bench`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use governor_tests::bench::kernel::{HOOKS, Programs, Site};
use governor_tests::bench::law::{self, Which};
use governor_tests::bench::pairs;
use governor_tests::bench::programs::{Bench, Cost};
use governor_tests::bench::report::Report;
use governor_tests::bench::sample::Sample;
use governor_tests::bench::web::{self, Web};
use governor_tests::bench::worker::{self, Cpus, Load, What, Worker};
use governor_tests::bench::wrk;
use governor_tests::cgroup::Cgroup;
use governor_tests::netns::Netns;
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
    /// The server of wrk and of the worker's requests
    Web {
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
    /// Fewer rounds and pairs: half a minute, wide intervals
    #[arg(long)]
    quick: bool,
    /// Only this part
    #[arg(long)]
    only: Option<Part>,
}

/// A part of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The programs under loads that are no HTTP
    Programs,
    /// The programs under requests
    Requests,
    /// CPU time of processes, in pairs
    Pairs,
    /// Throughput of wrk, in pairs
    Wrk,
}

/// How much is measured.
struct Scale {
    rounds: u32,
    repeat: u32,
    connections: u32,
    exchanges: u32,
    pairs: u32,
    wrk_pairs: u32,
}

const WHOLE: Scale = Scale {
    rounds: 25,
    repeat: 100_000,
    connections: 400,
    exchanges: 4_000,
    pairs: 60,
    wrk_pairs: 24,
};
const QUICK: Scale = Scale {
    rounds: 9,
    repeat: 20_000,
    connections: 300,
    exchanges: 2_000,
    pairs: 12,
    wrk_pairs: 4,
};

fn main() -> ExitCode {
    let done = match Cli::parse().mode {
        Mode::Run(args) => run(&args),
        Mode::Worker { cpus } => worker::work(cpus),
        Mode::Web { cpus } => web::serve(cpus),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

type Measure = fn(&Run, &Scale, &mut Report) -> Result<()>;

const PARTS: [(Part, Measure); 4] = [
    (Part::Programs, programs),
    (Part::Requests, requests),
    (Part::Pairs, process),
    (Part::Wrk, throughput),
];

fn run(args: &Run) -> Result<()> {
    preflight::require_kernel();
    let scale = if args.quick { QUICK } else { WHOLE };
    let mut report = Report {
        kernel: read("/proc/sys/kernel/osrelease")?,
        cpu: cpu()?,
        date: date(),
        figures: Vec::new(),
    };
    for (part, measure) in PARTS {
        if args.only.is_none_or(|only| only == part) {
            measure(args, &scale, &mut report)?;
        }
    }
    print!("{report}");
    fs::write(&args.json, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("cannot write {}", args.json.display()))
}

/// Per run of each program.
fn programs(args: &Run, scale: &Scale, report: &mut Report) -> Result<()> {
    let (netns, cgroup) = (Netns::create(), Cgroup::create("bench"));
    let site = Site {
        cgroup: &cgroup,
        netns: &netns,
    };
    let mut worker = Worker::start(&site.place(), Cpus::One)?;
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
    let bench = Bench::start(ours, Programs::empty()?, site)?;
    the_law(&bench, scale, report)?;

    let short = Load::of(What::Short, scale.connections);
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

    let exchanges = Load::of(What::Exchanges, scale.exchanges);
    let costs = bench.costs(&mut worker, exchanges, scale.rounds)?;
    for cost in costs.programs.iter().filter(|cost| of_packets(cost)) {
        add_cost(report, cost, "exchange", None);
    }
    report.add("all, per exchange", "ns", &costs.all, None);

    // The first ones trip the breaker; the rest is denied.
    worker.cpu(Load::of(What::Refused, 100))?;
    let denied = Load::of(What::Refused, scale.connections * 5);
    for cost in &bench.costs(&mut worker, denied, scale.rounds)?.programs {
        add_cost(report, cost, "denied", Some(400.0));
    }
    Ok(())
}

/// Per run of the programs that see packets: requests, and segments of other protocols. The server is
/// not governed here: what runs at egress is a request, what runs at ingress its answer.
fn requests(args: &Run, scale: &Scale, report: &mut Report) -> Result<()> {
    let (netns, cgroup, servers) = (
        Netns::create(),
        Cgroup::create("bench"),
        Cgroup::create("bench-servers"),
    );
    let site = Site {
        cgroup: &cgroup,
        netns: &netns,
    };
    let _web = Web::start(&site.place().in_cgroup(&servers), Cpus::One)?;
    let mut worker = Worker::start(&site.place(), Cpus::One)?;
    let ours = Programs::shipped(&args.object, &cgroup)?;
    let bench = Bench::start(ours, Programs::empty()?, site)?;
    for (what, name, goal) in [
        (What::BareRequests, "request of wrk", None),
        (What::EqualRequests, "equal request", None),
        (What::Requests, "request", Some(1_200.0)),
        (What::Sent, "plain bytes", Some(120.0)),
        (What::Received, "plain bytes", Some(120.0)),
    ] {
        let costs = bench.costs(&mut worker, Load::of(what, scale.exchanges), scale.rounds)?;
        for cost in costs.programs.iter().filter(|cost| of_packets(cost)) {
            let goal = match (what, cost.name) {
                // Acknowledgements.
                (What::Sent, "skb_ingress") | (What::Received, "skb_egress") => continue,
                (What::Sent | What::Received, _) | (_, "skb_egress") => goal,
                _ => None,
            };
            add_cost_above(report, cost, name, goal);
        }
        if !matches!(what, What::Sent | What::Received) {
            report.add(&format!("all, per {name}"), "ns", &costs.all, None);
        }
    }
    Ok(())
}

fn of_packets(cost: &Cost) -> bool {
    cost.name.starts_with("skb") || cost.name == "act_egress"
}

/// Goals of requests are meant over an empty program.
fn add_cost_above(report: &mut Report, cost: &Cost, what: &str, goal: Option<f64>) {
    report.add(&format!("{}: {what}", cost.name), "ns", &cost.raw, None);
    report.add("  over an empty program", "ns", &cost.above, goal);
    report.add("  runs", "", &cost.runs, None);
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
        let site = Site {
            cgroup: &cgroup,
            netns: &netns,
        };
        let mut worker = Worker::start(&site.place(), cpus)?;
        let mut ours = Programs::shipped(&args.object, &cgroup)?;
        let mut empty = Programs::empty()?;
        for ((name, load), goal) in [
            ("connection", Load::of(What::Short, scale.connections)),
            ("exchange", Load::of(What::Exchanges, scale.exchanges)),
        ]
        .into_iter()
        .zip(goals)
        {
            let mut measure =
                |programs| pairs::measure(programs, site, &mut worker, load, scale.pairs);
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

/// Requests over kept connections, as their callers notice it.
fn throughput(args: &Run, scale: &Scale, report: &mut Report) -> Result<()> {
    let (netns, cgroup) = (Netns::create(), Cgroup::create("bench"));
    let site = Site {
        cgroup: &cgroup,
        netns: &netns,
    };
    let _web = Web::start(&site.place(), Cpus::Any)?;
    let mut ours = Programs::shipped(&args.object, &cgroup)?;
    let pairs = wrk::measure(&mut ours, site, scale.wrk_pairs)?;
    report.add("wrk: requests per second", "", &pairs.rate, None);
    report.add("  the governor takes", "%", &pairs.lost_percent, Some(5.0));
    report.add("wrk: p99", "us", &pairs.p99, None);
    report.add("  with the governor", "us", &pairs.p99_governed, None);
    report.add("wrk: CPU per request", "us", &pairs.cpu, None);
    report.add("  the governor adds", "us", &pairs.cpu_added, None);
    report.add("  the governor adds", "%", &pairs.cpu_added_percent, None);
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
