//! What each contender costs while nothing fails.

use std::fs;
use std::process::Command;
use std::time::Duration;

use governor_tests::process;

use super::contender::{Between, Contender, SERVICE};
use super::proxy::{Proxy, Sidecar};
use crate::findings::{Claim, Table};
use crate::scenario::{Found, Play, Scenario};
use crate::stage::Stage;

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "peers-healthy",
    title: "16 kept connections, as fast as they can, nothing fails",
    seconds: |length| f64::from(rounds(length)) * 5.0 * 6.0,
    play,
};

const ROUND: &str = "2s";
/// Told beside the goal that is missed by chance.
const WHY: &str = "Where the governor loses against nothing: a request costs 10 us here, caller, kernel and server together, \
                   and both processors are full, so that each microsecond costs throughput. The programs take half of \
                   one, half of that to find a socket's record and to be called at all (docs/cost.md, \"With calm\").";
/// wrk and the server end or listen long before.
const LIMIT: Duration = Duration::from_secs(30);

fn rounds(length: crate::scenario::Length) -> u32 {
    length.pick(5, 9, 15)
}

/// One round of one contender.
#[derive(Clone, Copy, Debug)]
struct Round {
    rate: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
    memory: f64,
}

fn play(play: &Play<'_>) -> Found {
    let contenders: Vec<_> = Contender::all()
        .into_iter()
        // Nothing fails: nobody retries.
        .filter(|it| *it != Contender::Proxy(Proxy::EnvoyRetries))
        .collect();
    let mut measured: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    // In turn, so that what the machine does besides meets all of them.
    for _ in 0..rounds(play.length) {
        for (contender, rounds) in contenders.iter().zip(&mut measured) {
            let names = ["caller".to_owned()];
            rounds.push(contender.play(play, 4.0, &names, "", server, once));
        }
    }
    let median = |number: usize, figure: fn(&Round) -> f64| {
        let mut figures: Vec<f64> = measured[number].iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let last = contenders.len() - 1;
    let rate = |number| median(number, |it| it.rate);
    let cpu = |number| median(number, |it| it.cpu) - median(0, |it| it.cpu);
    let rows = (0..contenders.len()).map(|number| {
        vec![
            contenders[number].name().to_owned(),
            format!("{:.0}/s", rate(number)),
            format!(
                "{:+.0} us",
                median(number, |it| it.p50) - median(0, |it| it.p50)
            ),
            format!(
                "{:+.0} us",
                median(number, |it| it.p99) - median(0, |it| it.p99)
            ),
            format!("{:+.1} us", cpu(number)),
            match median(number, |it| it.memory) {
                0.0 => "-".to_owned(),
                bytes => format!("{:.0} MB", bytes / 1e6),
            },
        ]
    });
    let columns = [
        "",
        "requests",
        "p50 added",
        "p99 added",
        "CPU added per request",
        "memory per workload",
    ];
    let proxies = 1..last;
    let best_rate = proxies.clone().map(rate).fold(0.0, f64::max);
    let best_cpu = proxies.map(cpu).fold(f64::INFINITY, f64::min);
    Found {
        story: "wrk with 16 kept connections and nginx as a server that answers at once, on loopback, caller and server governed. Each \
                contender in turn, several rounds; medians."
            .to_owned(),
        tables: vec![Table::new(&columns, rows)],
        claims: vec![
            Claim::at_least("throughput with the governor", rate(last) / rate(0), 0.95, "of none"),
            Claim::at_least("throughput with the governor", rate(last) / best_rate, 2.0, "x of the best proxy's"),
            Claim::at_most("CPU added per request", cpu(last) / best_cpu, 0.25, "of the best proxy's"),
        ],
        notes: Proxy::ALL
            .iter()
            .filter(|it| **it != Proxy::EnvoyRetries)
            .map(|proxy| proxy.version())
            .chain([WHY.to_owned()])
            .collect(),
        ..Found::default()
    }
}

fn server(stage: &Stage<'_>) -> Sidecar {
    Sidecar::start(Proxy::Server, stage, "service", SERVICE, SERVICE).listens(stage)
}

fn once(between: &Between<'_, '_, Sidecar>) -> Round {
    let stage = between.stage;
    let port = between.port(0);
    stage.begin();
    // Who was just started has settled.
    stage.until(1.0);
    let before = cpu(between);
    let mut wrk = Command::new("wrk");
    wrk.args([
        "--threads",
        "1",
        "--latency",
        "--connections",
        "16",
        "--duration",
        ROUND,
    ])
    .arg(format!("http://127.0.0.1:{port}/orders/4711"));
    let finished = stage.within("caller", |place| {
        process::run(wrk, place, LIMIT).expect_success()
    });
    let spent = cpu(between) - before;
    let run = governor_tests::bench::wrk::read(&finished.stdout, spent);
    let run = run.unwrap_or_else(|why| unreachable!("wrk said {why:#}: {}", finished.stdout));
    Round {
        rate: run.rate,
        p50: run.p50,
        p99: run.p99,
        cpu: run.cpu,
        memory: between.memory(),
    }
}

/// CPU time of all that ever ran on the stage, us.
fn cpu(between: &Between<'_, '_, Sidecar>) -> f64 {
    let path = between.stage.lab().cgroup().path().join("cpu.stat");
    let text = fs::read_to_string(path).unwrap_or_default();
    let usage = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    usage.and_then(|it| it.parse().ok()).unwrap_or(f64::NAN)
}
