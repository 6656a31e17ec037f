//! Fleets of sizes that no machine holds, in the simulator with the real law: what budgets,
//! reserves and breakers that each node keeps for itself multiply to.

use governor_core::params::Params;
use governor_tests::sim::fleet::Probes;
use governor_tests::sim::series::SLOT;
use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, Random, Workload, World, poisson};
use governor_tests::sim::{Law, Report, simulate};

use crate::findings::{Claim, Key, Mark, Run};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::sweeps::cpus;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "fleet",
    title: "up to 1,000 nodes: what budgets, reserves and probes of each node multiply to",
    seconds: |length| length.pick(8.0, 100.0, 400.0),
    play,
};

/// When there is trouble, seconds; before and after it all is well.
#[derive(Clone, Copy, PartialEq)]
struct Times {
    from: usize,
    until: usize,
    length: usize,
}

/// The usual ones.
const TIMES: Times = Times {
    from: 20,
    until: 60,
    length: 90,
};
/// For 100,000 calls a second: the usual ones would take a quarter of an hour.
const SHORT: Times = Times {
    from: 12,
    until: 32,
    length: 45,
};

/// The window of the budget, seconds.
const WINDOW: usize = 10;
/// What a call costs the simulator, seconds.
const COST: f64 = 6e-6;
/// What the service can do, of what is offered.
const CAPACITY: f64 = 1.25;
/// Each governed run is played with so many; figures are those of the worst.
const SEEDS: u64 = 3;
/// `openDuration.max` with its jitter, and the ramp (I4), seconds.
const LIVE: f64 = 8.5;
/// More in 50 ms, of what is offered, is more than the spare capacity takes back within a second.
const HERD: f64 = 2.0;

/// What runs on each node.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    name: &'static str,
    pods: usize,
    /// Calls a second of each pod.
    rate: f64,
    times: Times,
}

/// Pods that call each second.
const BUSY: Shape = Shape {
    name: "20 pods x 1/s",
    pods: 20,
    rate: 1.0,
    times: TIMES,
};
/// As many as a node has in large fleets.
const FULL: Shape = Shape {
    name: "100 pods x 1/s",
    pods: 100,
    rate: 1.0,
    times: SHORT,
};
/// Many pods that call now and then.
const QUIET: Shape = Shape {
    name: "100 pods x 0.1/s",
    pods: 100,
    rate: 0.1,
    times: TIMES,
};
/// One that calls: a destination that few pods of a node need.
const THIN: Shape = Shape {
    name: "1 pod x 1/s",
    pods: 1,
    rate: 1.0,
    times: TIMES,
};

/// What happens to the service.
#[derive(Clone, Copy, PartialEq)]
enum Storm {
    /// 60 % of attempts fail.
    Failing,
    /// Nobody is there for 40 s.
    Outage,
}

/// One run.
#[derive(Clone, Copy)]
struct Job {
    shape: Shape,
    nodes: usize,
    storm: Storm,
    law: Law,
    /// How it is called.
    law_name: &'static str,
    seed: u64,
}

/// The figures of a run.
struct Figures {
    /// While there is trouble, relative to first tries.
    mean: f64,
    peak: f64,
    /// The worst second when a window of the budget has passed.
    later: f64,
    /// Probes a second while there is trouble.
    probes: f64,
    /// Most attempts in 50 ms after the trouble, relative to what is offered in 50 ms.
    herd: f64,
    /// Seconds until goodput is back; NaN: not in what was simulated.
    back: f64,
    report: Report,
}

const GOVERNED: &str = "each node for itself";
const CLOSES: &str = "one lease, a proof closes all";
const LAWS: [(&str, Law); 5] = [
    ("without", Law::None),
    (GOVERNED, Law::REAL),
    ("proofs are told", Law::Fleet(Params::DEFAULT, Probes::Told)),
    ("one lease", Law::Fleet(Params::DEFAULT, Probes::OneLease)),
    (CLOSES, Law::Fleet(Params::DEFAULT, Probes::OneLeaseCloses)),
];

impl Job {
    fn offered(&self) -> f64 {
        (self.nodes * self.shape.pods) as f64 * self.shape.rate
    }

    /// How the live line calls it, and about how many seconds it takes.
    fn act(&self) -> (String, f64) {
        let storm = match self.storm {
            Storm::Failing => "60 % fail",
            Storm::Outage => "outage",
        };
        let name = format!(
            "{} nodes x {}, {storm}, {}, seed {}",
            self.nodes, self.shape.name, self.law_name, self.seed
        );
        (name, self.offered() * self.shape.times.length as f64 * COST)
    }

    fn play(&self) -> Figures {
        let mut random = Random::new(self.seed);
        let capacity = CAPACITY * self.offered();
        let backend = match self.storm {
            Storm::Failing => Backend::quick(),
            Storm::Outage => Backend::fifo(move |_| capacity),
        };
        let (storm, times) = (self.storm, self.shape.times);
        let backend = backend.that(move |time, _, random| {
            if !(times.from..times.until).contains(&(time as usize)) {
                return Mode::Serve;
            }
            match storm {
                Storm::Failing if random.chance(0.4) => Mode::Serve,
                Storm::Failing => Mode::Fail,
                Storm::Outage => Mode::Refuse,
            }
        });
        let workloads = (0..self.nodes * self.shape.pods).map(|pod| Workload {
            node: pod / self.shape.pods,
            arrivals: poisson(&mut random, self.shape.rate, 0.0, times.length as f64),
            backends: vec![0],
            caller: Caller::retrying(Jitter::Full),
        });
        let world = World {
            seconds: times.length,
            workloads: workloads.collect(),
            backends: vec![backend],
        };
        let mut report = simulate(&world, self.law, self.seed);
        // Only sums are looked at; those of 100,000 pods are not kept.
        report.workloads = Vec::new();
        self.figures(report)
    }

    fn figures(&self, report: Report) -> Figures {
        let Times {
            from,
            until,
            length,
        } = self.shape.times;
        let probes = report.governors.probes.iter();
        let probes: u32 = probes.skip(from + WINDOW).take(until - from - WINDOW).sum();
        let herd = f64::from(report.peak_slot(until as f64, length.min(until + 20) as f64));
        let back = report.all.recovery(until, 3);
        Figures {
            mean: report.all.amplification(from..until),
            peak: report.all.peak_amplification(from..until),
            later: report.all.peak_amplification(from + WINDOW..until),
            probes: f64::from(probes) / (until - from - WINDOW) as f64,
            herd: herd / (self.offered() * SLOT),
            back: back.map_or(f64::NAN, |seconds| seconds as f64),
            report,
        }
    }
}

fn jobs(length: Length) -> Vec<Job> {
    let sizes: &[usize] = length.pick(&[10, 50], &[10, 100, 1_000], &[10, 100, 1_000]);
    let shapes: &[Shape] = length.pick(
        &[BUSY, QUIET, THIN],
        &[BUSY, QUIET, THIN],
        &[BUSY, QUIET, THIN, FULL],
    );
    let mut jobs = Vec::new();
    for &shape in shapes {
        for &nodes in sizes {
            for storm in [Storm::Failing, Storm::Outage] {
                // Quiet pods' breakers hardly open: what they tell each other changes nothing.
                let all = storm == Storm::Outage && shape != QUIET;
                let laws = if all { &LAWS[..] } else { &LAWS[..2] };
                jobs.extend(laws.iter().flat_map(|&(law_name, law)| {
                    (1..=seeds(law)).map(move |seed| Job {
                        shape,
                        nodes,
                        storm,
                        law,
                        law_name,
                        seed,
                    })
                }));
            }
        }
    }
    jobs
}

/// What is without a governor is there for comparison.
fn seeds(law: Law) -> u64 {
    match law {
        Law::None => 1,
        _ => SEEDS,
    }
}

/// All runs, to be asked for.
struct Played(Vec<(Job, Figures)>);

impl Played {
    /// The runs of these, seed by seed.
    fn of(
        &self,
        (shape, nodes, storm, law): (Shape, usize, Storm, &str),
    ) -> impl Iterator<Item = &Figures> {
        let is = move |job: &Job| {
            (job.shape, job.nodes, job.storm, job.law_name) == (shape, nodes, storm, law)
        };
        let of = self.0.iter().filter(move |(job, _)| is(job));
        of.map(|(_, figures)| figures)
    }

    /// A figure of the worst seed: the greatest. NaN where one has none, or nothing was played.
    fn figure(&self, run: (Shape, usize, Storm, &str), of: fn(&Figures) -> f64) -> f64 {
        worst(self.of(run).map(of))
    }

    /// How a figure of one run is to the same of another, of the worst seed.
    fn ratio(
        &self,
        run: (Shape, usize, Storm, &str),
        to: (Shape, usize, Storm, &str),
        of: fn(&Figures) -> f64,
    ) -> f64 {
        let pairs = self.of(run).zip(self.of(to));
        worst(pairs.map(|(run, to)| of(run) / of(to)))
    }

    fn sizes(&self) -> (usize, usize) {
        let sizes = || self.0.iter().map(|(job, _)| job.nodes);
        (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    }

    fn shapes(&self) -> Vec<Shape> {
        let mut shapes: Vec<Shape> = self.0.iter().map(|(job, _)| job.shape).collect();
        shapes.dedup();
        shapes
    }
}

/// The greatest; NaN where one is, or there is none.
fn worst(figures: impl Iterator<Item = f64>) -> f64 {
    let greater = |one: f64, other: f64| match one.is_nan() || one > other {
        true => one,
        false => other,
    };
    figures.reduce(greater).unwrap_or(f64::NAN)
}

fn play(play: &Play<'_>) -> Found {
    let jobs = jobs(play.length);
    let played = cpus::on_all(&jobs, |job| {
        let (name, seconds) = job.act();
        let act = play.progress.act(&name, seconds);
        act.begins();
        job.play()
    });
    let played = Played(
        played
            .into_iter()
            .map(|(job, figures)| (*job, figures))
            .collect(),
    );
    let (_, most) = played.sizes();
    let key = |law| {
        let load = played.figure((BUSY, most, Storm::Failing, law), |it| it.mean);
        let down = played.figure((BUSY, most, Storm::Outage, law), |it| it.mean);
        format!("{load:.2} x, {down:.2} x")
    };
    Found {
        story: format!(
            "Up to {most} nodes, each with a governor that knows of no other, the real law in the simulator. All pods \
             call one service, which can do {CAPACITY} times what is offered; callers try again after 100, 200 and \
             400 ms, with full jitter. From {} to {} s either 60 % of answers are errors or every connect is refused. \
             Each governed run with {SEEDS} seeds, of which the worst is claimed and told; with --full also 1,000 nodes x 100 pods x 1/s, for half as long. Drawn: {most} nodes with {}, the outage.",
            TIMES.from, TIMES.until, BUSY.name,
        ),
        claims: claims(&played),
        runs: ["without", GOVERNED, CLOSES]
            .iter()
            .filter_map(|law| run(&played, most, law))
            .collect(),
        key: Some(Key {
            what: format!("load of {most} nodes, of offered: 60 % fail, all refused"),
            without: key("without"),
            with: key(GOVERNED),
        }),
        notes: notes(&played),
        ..Found::default()
    }
}

fn claims(played: &Played) -> Vec<Claim> {
    let (few, most) = played.sizes();
    let mut claims = Vec::new();
    for shape in played.shapes() {
        let failing = |nodes| (shape, nodes, Storm::Failing, GOVERNED);
        let name = shape.name;
        claims.push(Claim::at_most(
            format!("{name}, 60 % fail: mean load of {most} nodes over that of {few}"),
            played.ratio(failing(most), failing(few), |it| it.mean),
            1.05,
            "x",
        ));
        if shape == THIN {
            // Ten percent of the 40 % that succeed, and each node's reserve of 1/s for its 1/s.
            claims.push(Claim::at_most(
                format!("{name}, 60 % fail: mean load of {most} nodes, by what each node's budget allows it"),
                played.figure(failing(most), |it| it.mean),
                1.0 + 0.1 + 1.0,
                "x offered",
            ));
        } else {
            claims.extend([
                Claim::at_most(
                    format!("{name}, 60 % fail: mean load of {most} nodes, as many-nodes has it for 50"),
                    played.figure(failing(most), |it| it.mean),
                    1.16,
                    "x offered",
                ),
                Claim::at_most(
                    format!("{name}, 60 % fail: load of {most} nodes in the worst second, as many-nodes has it for 50"),
                    played.figure(failing(most), |it| it.peak),
                    1.39,
                    "x offered",
                ),
            ]);
        }
        claims.extend([
            Claim::at_most(
                format!("{name}, outage: load of {most} nodes while all is refused"),
                played.figure((shape, most, Storm::Outage, GOVERNED), |it| it.mean),
                1.16,
                "x offered",
            ),
            Claim::at_most(
                format!("{name}, outage: until goodput of {most} nodes is back"),
                played.figure((shape, most, Storm::Outage, GOVERNED), |it| it.back),
                LIVE,
                "s",
            ),
        ]);
        // In a second of fewer it is chance that is seen.
        if shape != THIN && most as f64 * shape.pods as f64 * shape.rate >= 10_000.0 {
            claims.push(Claim::at_most(
                format!("{name}, 60 % fail: load of {most} nodes in the worst second after the first {WINDOW}: no waves"),
                played.figure(failing(most), |it| it.later),
                // A tenth of successes, a tenth of first tries for the reserve, and a little chance.
                1.25,
                "x offered",
            ));
        }
        // In 50 ms of fewer it is chance that is seen.
        if most as f64 * shape.pods as f64 * shape.rate >= 1_000.0 {
            claims.push(Claim::at_most(
                format!("{name}, outage: most load of {most} nodes in 50 ms when it is over"),
                played.figure((shape, most, Storm::Outage, GOVERNED), |it| it.herd),
                HERD,
                "x offered",
            ));
        }
    }
    claims.extend(coordinated(played));
    claims
}

/// What one lease of the fleet, whose proof closes all breakers, must show where breakers open.
fn coordinated(played: &Played) -> Vec<Claim> {
    let (_, most) = played.sizes();
    let shapes = played.shapes().into_iter().filter(|it| *it != QUIET);
    let claims = shapes.flat_map(|shape| {
        let name = shape.name;
        let [alone, closes] = [GOVERNED, CLOSES].map(|law| (shape, most, Storm::Outage, law));
        [
            Claim::at_most(
                format!("{name}, outage, {CLOSES}: until goodput of {most} nodes is back"),
                played.figure(closes, |it| it.back),
                LIVE,
                "s",
            ),
            Claim::at_most(
                format!(
                    "{name}, outage, {CLOSES}: probes of {most} nodes, of those that they send each for itself"
                ),
                played.ratio(closes, alone, |it| it.probes),
                0.5,
                "x",
            ),
            Claim::at_most(
                format!("{name}, outage, {CLOSES}: most load of {most} nodes in 50 ms when it is over"),
                played.figure(closes, |it| it.herd),
                HERD,
                "x offered",
            ),
        ]
    });
    claims.collect()
}

fn notes(played: &Played) -> Vec<String> {
    let (few, most) = played.sizes();
    let mut notes = vec![
        "Load, relative to offered, of 10 nodes and more, each for itself, worst seed: first while 60 % fail (mean, worst second), \
         then while all is refused (mean, probes a second)."
            .to_owned(),
    ];
    for (job, _) in &played.0 {
        if job.storm != Storm::Failing || job.law_name != GOVERNED || job.seed > 1 {
            continue;
        }
        let [failing, outage] =
            [Storm::Failing, Storm::Outage].map(|storm| (job.shape, job.nodes, storm, GOVERNED));
        notes.push(format!(
            "{} nodes x {}: {:.2}, {:.2}; {:.2}, {:.0} probes/s",
            job.nodes,
            job.shape.name,
            played.figure(failing, |it| it.mean),
            played.figure(failing, |it| it.peak),
            played.figure(outage, |it| it.mean),
            played.figure(outage, |it| it.probes),
        ));
    }
    notes.push(format!(
        "What nodes could tell each other of probes, {most} nodes, while all is refused and after, worst seed:"
    ));
    for (job, _) in &played.0 {
        if job.storm == Storm::Outage && job.nodes == most && job.shape != QUIET && job.seed == 1 {
            let run = (job.shape, most, Storm::Outage, job.law_name);
            let figure = |of| played.figure(run, of);
            let back = figure(|it| it.back);
            let back = match back.is_nan() {
                true => {
                    let times = job.shape.times;
                    format!("not back after {} s", times.length - times.until)
                }
                false => format!("back after {back} s"),
            };
            notes.push(format!(
                "{}, {}: load {:.2} x, {:.0} probes/s, {back}, most in 50 ms {:.2} x offered",
                job.shape.name,
                job.law_name,
                figure(|it| it.mean),
                figure(|it| it.probes),
                figure(|it| it.herd),
            ));
        }
    }
    let busy = |nodes, law| played.figure((BUSY, nodes, Storm::Outage, law), |it| it.probes);
    notes.push(format!(
        "What a fleet needs next. First a reserve that is the fleet's: each node's 1/s adds up where many nodes call a \
         destination seldom ({:.2} x at {} on each of {most} nodes, {:.2} x at {}), and all windows of a fleet begin to \
         pay at the moment trouble begins ({:.2} x in the worst second). Probes need no schedule to recover, they need \
         one to be few: {:.0}/s from {few} nodes, {:.0}/s from {most}, {:.0}/s with one lease for all. But a lease \
         alone would take one breaker after the other: only where a proof closes all of them is the service back in \
         time.",
        played.figure((THIN, most, Storm::Failing, GOVERNED), |it| it.mean),
        THIN.name,
        played.figure((BUSY, most, Storm::Failing, GOVERNED), |it| it.mean),
        BUSY.name,
        played.figure((BUSY, most, Storm::Failing, GOVERNED), |it| it.peak),
        busy(few, GOVERNED),
        busy(most, GOVERNED),
        busy(most, CLOSES),
    ));
    notes
}

/// The outage of busy pods.
fn run(played: &Played, nodes: usize, law: &str) -> Option<Run> {
    let mut seeds = played.of((BUSY, nodes, Storm::Outage, law));
    let report = &seeds.next()?.report;
    let line = |counts: &[u32]| -> Vec<f64> {
        let last = counts.last().copied().unwrap_or(0);
        let at = |second| f64::from(counts.get(second).copied().unwrap_or(last));
        (0..TIMES.length).map(at).collect()
    };
    let capacity = |second: usize| match (TIMES.from..TIMES.until).contains(&second) {
        true => 0.0,
        false => CAPACITY * nodes as f64 * BUSY.pods as f64 * BUSY.rate,
    };
    Some(Run {
        name: law.to_owned(),
        governed: law != "without",
        slot: 1.0,
        offered: line(&report.all.first),
        load: line(&report.all.load),
        goodput: line(&report.all.good),
        capacity: (0..TIMES.length).map(capacity).collect(),
        denied: line(&report.all.denied),
        breakers: line(&report.governors.open),
        limit: Vec::new(),
        marks: vec![Mark {
            from: TIMES.from as f64,
            to: TIMES.until as f64,
            label: "all is refused".to_owned(),
        }],
    })
}
