//! Many small workloads on a node: each has a retry or two saved when trouble begins, and all of
//! them spent in one second are a storm.
//!
//! `cargo test -p governor-tests --test small_workloads -- --nocapture` prints the figures.

use std::ops::Range;

use governor_tests::sim::world::{Backend, Caller, Jitter, Mode, Random, Workload, World, poisson};
use governor_tests::sim::{Law, Report, simulate};

/// Trouble begins, seconds.
const TROUBLE: usize = 20;
const LENGTH: usize = 60;
/// The window of the budget.
const WINDOW: usize = 10;
/// While it lasts. The last answers come after the end.
const JUDGED: Range<usize> = TROUBLE..LENGTH - 2;

/// Workloads that are alike, on each of some nodes.
#[derive(Clone, Copy, Debug)]
struct Fleet {
    nodes: usize,
    workloads: usize,
    /// Calls a second of each workload.
    rate: f64,
}

/// So many nodes that chance does little to a second.
const FLEETS: [Fleet; 7] = [
    fleet(200, 20, 1.0),
    fleet(200, 100, 0.1),
    fleet(50, 100, 1.0),
    fleet(50, 20, 10.0),
    fleet(100, 5, 10.0),
    fleet(200, 1, 20.0),
    fleet(5, 1, 1_000.0),
];

const fn fleet(nodes: usize, workloads: usize, rate: f64) -> Fleet {
    Fleet {
        nodes,
        workloads,
        rate,
    }
}

impl Fleet {
    /// First tries a second of a node.
    fn offered(self) -> f64 {
        self.workloads as f64 * self.rate
    }

    /// The reserve of a node, retries a second, of its first tries.
    fn reserve(self) -> f64 {
        (self.offered() / 10.0).clamp(1.0, 10.0) / self.offered()
    }

    /// 60 % fail from a time on.
    fn fail(self, law: Law, seed: u64) -> Report {
        let mut random = Random::new(seed);
        let backend = Backend::quick().that(failing(TROUBLE as f64, 0.6));
        let workloads = (0..self.nodes * self.workloads)
            .map(|which| workload(&mut random, which / self.workloads, self.rate, 0))
            .collect();
        play(workloads, vec![backend], law, seed)
    }
}

fn workload(random: &mut Random, node: usize, rate: f64, backend: usize) -> Workload {
    Workload {
        node,
        arrivals: poisson(random, rate, 0.0, LENGTH as f64),
        backends: vec![backend],
        caller: Caller::retrying(Jitter::Full),
    }
}

fn play(workloads: Vec<Workload>, backends: Vec<Backend>, law: Law, seed: u64) -> Report {
    let world = World {
        seconds: LENGTH,
        workloads,
        backends,
    };
    simulate(&world, law, seed)
}

fn failing(from: f64, share: f64) -> impl Fn(f64, u8, &mut Random) -> Mode {
    move |time, _, random| match time >= from && random.chance(share) {
        true => Mode::Fail,
        false => Mode::Serve,
    }
}

/// The worst of some seconds.
fn worst(report: &Report, seconds: Range<usize>) -> f64 {
    report.all.peak_amplification(seconds)
}

#[test]
fn workloads_that_all_fail_do_not_spend_what_they_saved_in_one_second() {
    for fleet in FLEETS {
        let report = fleet.fail(Law::REAL_BUDGET, 1);
        let at_first = worst(&report, TROUBLE..TROUBLE + WINDOW);
        let later = worst(&report, TROUBLE + WINDOW..LENGTH - 2);
        let mean = report.all.amplification(JUDGED);
        println!(
            "{} x {}/s on a node: the worst second x{at_first:.2}, after a window x{later:.2}, mean x{mean:.2}",
            fleet.workloads, fleet.rate
        );
        // What is saved is spent by eighths, and a second may hold the ends of two tenths. (Each
        // workload for itself: up to 1.71.)
        assert!(at_first <= 1.5, "{fleet:?}: {at_first:.3} at first");
        // What is earned is spent as it comes, and does not come back in waves. (Up to 1.29.)
        let steady = 1.15 + fleet.reserve();
        assert!(later <= steady, "{fleet:?}: {later:.3}, wanted {steady}");
    }
}

/// Workloads of 10/s on one node, of which 5 % fail, beside others of which 60 % do: of the healthy
/// ones' retries, which share is refused.
fn refused(healthy: usize, others: Others, law: Law) -> f64 {
    let seeds = 20;
    let of_seed = |seed| {
        let mut random = Random::new(seed);
        let mut workloads = Vec::new();
        for _ in 0..healthy {
            workloads.push(workload(&mut random, 0, 10.0, 0));
        }
        for _ in 0..others.count {
            workloads.push(workload(&mut random, 0, others.rate, 1));
        }
        let backends = vec![
            Backend::quick().that(failing(0.0, 0.05)),
            Backend::quick().that(failing(TROUBLE as f64, 0.6)),
        ];
        let report = play(workloads, backends, law, seed);
        let healthy = &report.workloads[..healthy];
        let refused = healthy.iter().map(|it| it.denied_retry_share(JUDGED));
        refused.sum::<f64>() / healthy.len() as f64
    };
    (1..=seeds).map(of_seed).sum::<f64>() / seeds as f64
}

/// Workloads that fail beside healthy ones.
#[derive(Clone, Copy, Debug)]
struct Others {
    count: usize,
    rate: f64,
}

const NOBODY: Others = Others {
    count: 0,
    rate: 0.0,
};

#[test]
fn healthy_workloads_keep_the_retries_they_have() {
    // With 5 % failing for ever the reserve stays at its floor of 1/s: what is refused is what
    // exceeds a workload's tenth in its window by chance, as much as if each had a pace of its own.
    for (healthy, most) in [(1, 0.05), (5, 0.03), (20, 0.04)] {
        let share = refused(healthy, NOBODY, Law::REAL_BUDGET);
        println!("{healthy} healthy: {share:.3} of their retries refused");
        assert!(share <= most, "{healthy} healthy: {share:.3} refused");
    }
}

#[test]
fn workloads_that_fail_take_little_from_healthy_ones() {
    let others = |count, rate| Others { count, rate };
    for (beside, most) in [
        (others(2, 50.0), 0.06),
        (others(20, 10.0), 0.12),
        // Each alone: 0.41.
        (others(200, 1.0), 0.30),
    ] {
        let share = refused(20, beside, Law::REAL_BUDGET);
        println!("20 healthy beside {beside:?}: {share:.3} of their retries refused");
        assert!(share <= most, "beside {beside:?}: {share:.3} refused");
    }
}
