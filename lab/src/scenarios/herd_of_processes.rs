//! A hundred clients, each with a budget of its own that is never spent, against one budget of the host.

use governor_tests::service::Service;

use super::usual::{self, BUDGET_ALONE, PORT, RETRIES, governed};
use crate::findings::{Claim, Key, Run, Table};
use crate::late::Load;
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor, Stage};

/// See the module.
pub const SCENARIO: Scenario = Scenario {
    name: "herd-of-processes",
    title: "100 clients call a dead service once a second: budgets of their own against the host's one",
    seconds: |length| {
        let times = Times::of(length);
        length.pick(1.0, 3.0, 3.0) * (times.length() + 4.0)
    },
    play,
};

/// Workloads of one client each, in a cgroup of its own.
pub const WORKLOADS: u16 = 100;
/// Each client calls once a second.
const OFFERED: f64 = WORKLOADS as f64;
/// The service answers for so long at first, seconds. The governor tells a retry by what it says: equal
/// requests count as one operation once it has seen twenty different ones of a workload succeed.
const WARM: f64 = 40.0;
/// Requests per operation: budgets that let all three retries pass, and those that bound them.
const NO_LIMIT: f64 = 3.9;
const LIMIT: f64 = 1.25;
/// What of the answers are errors once the service is back, percent.
pub const UNWELL: u8 = 10;
/// What the service can do: more than all that comes.
pub const CAPACITY: &str = "--capacity 2000";
/// Of the operations then: retries save nearly all, and nearly none.
const SAVED: f64 = 0.98;
const LOST: f64 = 0.93;
/// Seconds until they do: each client comes once a second.
const BACK: f64 = 2.0;

/// Seconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// The service answers until then: budgets earn.
    pub dies: f64,
    /// And is dead for so long.
    dead: f64,
    /// Then it is a little unwell for so long.
    unwell: f64,
}

impl Times {
    /// Of a scenario of this length.
    pub fn of(length: Length) -> Self {
        let (dead, unwell) = length.pick((8.0, 5.0), (20.0, 12.0), (30.0, 20.0));
        Self {
            dies: WARM,
            dead,
            unwell,
        }
    }

    /// The service answers again.
    pub fn back(self) -> f64 {
        self.dies + self.dead
    }

    /// All of it.
    pub fn length(self) -> f64 {
        self.back() + self.unwell
    }
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let budget_alone = governed(BUDGET_ALONE);
    let own = |budget: &'static str| {
        move || {
            let name = format!("without, {budget}");
            storm(play, Governor::Without, &name, budget, times)
        }
    };
    let host = || {
        let governor = Governor::With(&budget_alone);
        storm(play, governor, "with: the host's", "none", times)
    };
    let mut runs = Vec::new();
    if play.length == Length::Fast {
        let (finagle, host) = beside(own("finagle"), host);
        runs.extend([finagle, host]);
    } else {
        let (finagle, linkerd) = beside(own("finagle"), own("linkerd"));
        let (grpc, aws) = beside(own("grpc"), own("aws"));
        runs.extend([finagle, linkerd, grpc, aws, host()]);
    }
    let factor = |taken: &Taken| amplification(taken, times);
    let host = runs.len() - 1;
    let after = |taken: &Taken| ends_well(taken, times);
    let mut claims = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let whose = &run.name;
        let what = format!("{whose}: requests at the dead service");
        let unwell = format!(
            "{whose}: operations that end well once it is back, {UNWELL} % of the answers errors"
        );
        let bounded = Claim::at_most(&what, factor(run), LIMIT, "x operations");
        match run.name.as_str() {
            _ if number == host => claims.extend([
                bounded,
                Claim::at_least(unwell, after(run), SAVED, "of offered"),
                Claim::at_most(
                    format!("{whose}: until operations end well again, since it is back"),
                    run.back_after(times.back()),
                    BACK,
                    "s",
                ),
            ]),
            "without, grpc" => claims.extend([
                bounded,
                Claim::at_most(unwell, after(run), LOST, "of offered"),
            ]),
            _ => claims.push(Claim::at_least(what, factor(run), NO_LIMIT, "x operations")),
        }
    }
    let rows = runs.iter().map(|run| {
        let (from, to) = (times.dies as usize, times.back() as usize);
        let per_second = |seconds: f64| format!("{:.2}", seconds / OFFERED);
        let load = run.load();
        vec![
            run.name.clone(),
            format!("{:.2}", factor(run)),
            per_second(load.peak(from, to)),
            per_second(load.mean(to - 3, to)),
            format!("{:.3}", after(run)),
            usual::after(run.back_after(times.back())),
        ]
    });
    let grpc = runs.iter().any(|run| run.name == "without, grpc");
    Found {
        story: format!(
            "{WORKLOADS} workloads of one client each call a service once a second. It answers 503 from {} to {} s, and \
             to {UNWELL} % of the requests after that. All of them retry three times, 50 ms apart, as far as a budget \
             lets them: of each client's own, as published, or of the host. The governor's breaker and limiter are off.",
            times.dies,
            times.back(),
        ),
        claims,
        tables: vec![Table::new(
            &[
                "budget",
                "requests per operation while dead",
                "worst second",
                "last 3 s of it",
                "end well once it is back",
                "again after",
            ],
            rows,
        )],
        key: Some(Key {
            what: "requests per operation at the dead service".to_owned(),
            without: format!("{:.2} x", factor(&runs[0])),
            with: format!("{:.2} x", factor(&runs[host])),
        }),
        // Its capacity is not the point.
        runs: runs
            .iter()
            .map(|taken| Run {
                capacity: Vec::new(),
                ..taken.run()
            })
            .collect(),
        notes: grpc
            .then(|| {
                format!(
                    "Other than the budgets of Finagle, Linkerd and AWS, gRPC's throttling bounds as well as the \
                     host's while everything fails: it is no budget per second but a bucket of 10 tokens, and \
                     five failures in a row end a client's retries. The price comes after: a failure costs ten times \
                     what a success earns, so with {UNWELL} % errors a client never gets its retries back, and loses \
                     what one retry would have saved. It has no default: somebody must have configured it. AWS's 500 \
                     tokens are spent by a client after 100 retries: 33 s of this."
                )
            })
            .into_iter()
            .chain([format!(
                "The {WARM} s before are a warm-up that the host's budget needs: nothing names these operations, and \
                 equal requests are tries of one only once twenty different ones of a workload have succeeded, which \
                 takes 20 to 40 s at one a second. In a workload that is younger retries pass as first tries: after 12 s \
                 of warm-up nearly all of them did (3.96 x, 30 November 2026)."
            )])
            .collect(),
        ..Found::default()
    }
}

/// Requests that came to the dead service, relative to operations begun meanwhile.
pub fn amplification(taken: &Taken, times: Times) -> f64 {
    let (from, to) = (times.dies as usize, times.back() as usize);
    taken.load().sum(from, to) / taken.offered().sum(from, to)
}

/// Operations that end well once the service is back, of offered.
pub fn ends_well(taken: &Taken, times: Times) -> f64 {
    // What began in the first second is judged by what was before.
    taken.share(times.back() as usize + 1, times.length() as usize)
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, budget: &str, times: Times) -> Taken {
    play.stage(governor, name, times.length(), |stage| {
        let service = stage.service("service", PORT, CAPACITY);
        let callers = format!("{RETRIES} --client-budget {budget}");
        scene(stage, name, &service, |_| PORT, &callers, times)
    })
}

/// The storm: the workload of each number calls a port, and tries as `callers` says.
pub fn scene(
    stage: &Stage<'_>,
    name: &str,
    service: &Service,
    port: impl Fn(u16) -> u16,
    callers: &str,
    times: Times,
) -> Taken {
    let length = times.length();
    stage.begin();
    let load = format!("--rate 1 --for {length}s {callers} --connections fresh");
    let crowds: Vec<Load> = (0..WORKLOADS)
        .map(|number| stage.crowd(&workload(number), port(number), &load))
        .collect();
    stage.until(times.dies);
    service.order("status 503");
    stage.until(times.back());
    service.order(&format!("status 503 {UNWELL}"));
    stage.mark(times.dies, times.back(), "dead");
    stage.mark(times.back(), times.back(), &format!("{UNWELL} % errors"));
    stage.until(length);
    let slots = service.slots();
    let tries = crowds
        .into_iter()
        .flat_map(|crowd| crowd.finish(ENDS_WITHIN).tries)
        .collect();
    Taken::down(name, stage, length, tries, slots)
}

/// The workload of this number.
pub fn workload(number: u16) -> String {
    format!("caller-{number}")
}
