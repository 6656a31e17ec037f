//! A hundred clients, each with a budget of its own that is never spent, against one budget of the host.

use governor_tests::caller::Storm;

use crate::findings::{Claim, Key, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::stage::{ENDS_WITHIN, Governor, policy};

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

const PORT: u16 = 8080;
/// Cgroups, and clients in each.
const WORKLOADS: usize = 10;
const CLIENTS: usize = 10;
/// Each client calls once a second.
const OFFERED: f64 = (WORKLOADS * CLIENTS) as f64;
/// Of the host's budget, and nothing else: no breaker, no limiter.
const BUDGET_ALONE: &str = "circuitBreaker: {mode: Disabled}, concurrency: {mode: Disabled}";
/// Every budget that lets all three retries pass, and the host's.
const NO_LIMIT: f64 = 3.9;
const LIMIT: f64 = 1.25;

/// Seconds.
#[derive(Clone, Copy)]
struct Times {
    /// The service answers until then: budgets earn.
    dies: f64,
    /// And is dead for so long.
    dead: f64,
}

impl Times {
    fn of(length: Length) -> Self {
        let (dies, dead) = length.pick((3.0, 8.0), (10.0, 20.0), (10.0, 30.0));
        Self { dies, dead }
    }

    fn length(self) -> f64 {
        self.dies + self.dead
    }
}

fn play(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let budget_alone = policy(&[("service", PORT)], BUDGET_ALONE);
    let own = |budget: &'static str| move || storm(play, Governor::Without, budget, budget, times);
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
    let claims = runs.iter().enumerate().map(|(number, run)| {
        let what = |whose: &str| format!("{whose}: requests at the dead service");
        match number == host {
            true => Claim::at_most(what(&run.name), factor(run), LIMIT, "x operations"),
            false => Claim::at_least(
                what(&format!("without: each client's own budget, {}", run.name)),
                factor(run),
                NO_LIMIT,
                "x operations",
            ),
        }
    });
    let rows = runs.iter().map(|run| {
        let (from, to) = (times.dies as usize, times.length() as usize);
        let per_second = |seconds: f64| format!("{:.2}", seconds / OFFERED);
        let load = run.load();
        vec![
            run.name.clone(),
            format!("{:.2}", factor(run)),
            per_second(load.peak(from, to)),
            per_second(load.mean(to - 3, to)),
        ]
    });
    let grpc = runs.iter().any(|run| run.name == "grpc");
    Found {
        story: format!(
            "{WORKLOADS} workloads of {CLIENTS} clients, each client once a second, call a service that answers 503 \
             from {} s on. All of them retry three times, 50 ms apart, as far as a budget lets them: of each \
             client's own, as published, or of the host. The governor's breaker and limiter are off.",
            times.dies,
        ),
        claims: claims.collect(),
        tables: vec![Table::new(
            &[
                "budget",
                "requests per operation while dead",
                "worst second",
                "last 3 s",
            ],
            rows,
        )],
        key: Some(Key {
            what: "requests per operation at the dead service".to_owned(),
            without: format!("{:.2} x", factor(&runs[0])),
            with: format!("{:.2} x", factor(&runs[host])),
        }),
        runs: runs.iter().map(Taken::run).collect(),
        notes: grpc
            .then(|| {
                "gRPC's throttling is no budget per second but a bucket of 10 tokens: five failures in a row \
                 end a client's retries until successes fill it again. Here it bounds as well as the host's, so the \
                 claim that it lets all retries pass does not hold. It has no default: somebody must have \
                 configured it. AWS's 500 tokens are spent by a client after 100 retries: 33 s of this."
                    .to_owned()
            })
            .into_iter()
            .collect(),
        ..Found::default()
    }
}

/// Requests that came to the dead service, relative to operations begun meanwhile.
fn amplification(taken: &Taken, times: Times) -> f64 {
    let (from, to) = (times.dies as usize, times.length() as usize);
    taken.load().sum(from, to) / taken.offered().sum(from, to)
}

fn storm(play: &Play<'_>, governor: Governor<'_>, name: &str, budget: &str, times: Times) -> Taken {
    let length = times.length();
    play.stage(governor, name, length, |stage| {
        let service = stage.service("service", PORT, "--capacity 2000");
        stage.begin();
        let load = format!(
            "--rate {CLIENTS} --clients {CLIENTS} --for {length}s --retry naive --tries 4 --delay 50ms \
             --connections fresh --client-budget {budget}"
        );
        let crowds: Vec<Storm> = (0..WORKLOADS)
            .map(|number| stage.crowd(&format!("caller-{number}"), PORT, &load))
            .collect();
        stage.until(times.dies);
        service.order("status 503");
        stage.mark(times.dies, length, "dead");
        stage.until(length);
        let slots = service.slots();
        let tries = crowds
            .into_iter()
            .flat_map(|crowd| crowd.finish(ENDS_WITHIN).tries)
            .collect();
        Taken::down(name, stage, length, tries, slots)
    })
}
