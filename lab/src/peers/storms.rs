//! The same storms through each contender.

use governor_tests::service::Service;

use super::contender::{Contender, SERVICE};
use super::proxy::Proxy;
use crate::findings::{Claim, Table};
use crate::measure::{Taken, beside};
use crate::scenario::{Found, Length, Play, Scenario};
use crate::scenarios::herd_of_processes::{
    CAPACITY, Times, UNWELL, WORKLOADS, amplification, ends_well, scene, workload,
};
use crate::scenarios::usual::{BUDGET_ALONE, RETRIES};
use crate::stage::{ENDS_WITHIN, Stage};

/// More is offered than the service can do.
pub const OVERLOAD: Scenario = Scenario {
    name: "peers-overload",
    title: "1.2 times of what the service can do, callers retry at once",
    seconds: |length| 6.0 * (overloaded(length) + 5.0),
    play: overload,
};

/// The service stalls for a moment.
pub const BLIP: Scenario = Scenario {
    name: "peers-blip",
    title: "a stall of 5 s at 80 % load",
    seconds: |length| blips(length) as f64 * 6.0 * (20.0 + back(length) + 5.0),
    play: blip,
};

/// Many workloads call a service that fails.
pub const HERD: Scenario = Scenario {
    name: "peers-herd-of-processes",
    title: "100 workloads call a dead service once a second, a sidecar for each",
    seconds: |length| 4.0 * (Times::of(length).length() + 10.0),
    play: herd,
};

/// How long there is too much, seconds: as in the scenario overload.
fn overloaded(length: Length) -> f64 {
    length.pick(20.0, 60.0, 60.0)
}

/// What is looked at after the stall, seconds.
fn back(length: Length) -> f64 {
    length.pick(15.0, 20.0, 60.0)
}

/// Told beside the claim, which chance decides.
const WHY_LATER: &str = "What decides by a second or two: when the stall ends, the service first works off the requests of \
                         callers who have left. HAProxy lets at most 100 be there; the governor lets in what comes until the \
                         first callers give up, then its limiter and its breaker refuse, and after the probe that is \
                         answered admission ramps up for 1 s.";
/// Told beside the claim that who never refused anything wins.
const WHY_NOT_FIRST: &str = "Who refuses nothing while the service is dead, as nothing does and nginx, is back the moment it \
                             answers. The governor learns of it from a probe, which goes once in 5 s at the latest, and admission \
                             ramps up for 1 s.";
/// How often each contender is played.
fn blips(length: Length) -> usize {
    length.pick(1, 3, 5)
}

/// Told beside the goal that is missed.
const WHY_A_HOLE: &str = "Where the governor loses: a proxy's limit of 100 was set by somebody who knows what the service bears, \
                          and lets no queue grow. The governor is told nothing: it learns of a queue when the first \
                          callers give up, after 1 s, and another 1.5 s go until the service has worked off what they \
                          left behind.";

fn overload(play: &Play<'_>) -> Found {
    let length = overloaded(play.length);
    let end = length as usize;
    let runs = all(|contender| {
        contender.play(play, length, &caller(), "", service(1_000), |between| {
            let stage = between.stage;
            stage.begin();
            let callers = between.callers("--retry naive --tries 4 --delay 0ms");
            let load = format!("--rate 1200 --for {length}s --connections fresh {callers}");
            let crowd = stage.crowd("caller", between.port(0), &load);
            stage.until(length);
            let slots = between.upstream.slots();
            let tries = crowd.finish(ENDS_WITHIN).tries;
            Taken::down(contender.name(), stage, length, tries, slots)
        })
    });
    let goodput = |taken: &Taken| taken.goodput().mean(10, end) / 1_000.0;
    // With the time that it takes to find out that there is a queue.
    let whole = |taken: &Taken| taken.goodput().mean(2, end) / 1_000.0;
    let load = |taken: &Taken| taken.load().mean(10, end) / taken.offered().mean(10, end);
    let rows = runs.iter().map(|taken| {
        vec![
            taken.name.clone(),
            format!("{:.2}", goodput(taken)),
            format!("{:.2}", whole(taken)),
            format!("{:.2} x", load(taken)),
        ]
    });
    Found {
        story: "A service that answers 1,000 requests a second is asked for 1,200 a second. Callers wait 1 s and try \
                again at once, three times."
            .to_owned(),
        tables: vec![Table::new(&["", "goodput of capacity, from 10 s on", "from 2 s on", "load at the service, of offered"], rows)],
        claims: vec![
            highest("goodput from 10 s on", &runs, goodput, ALIKE),
            highest("goodput from 2 s on", &runs, whole, ALIKE),
        ],
        notes: vec![WHY_A_HOLE.to_owned()],
        runs: runs.iter().map(Taken::run).collect(),
        ..Found::default()
    }
}

fn blip(play: &Play<'_>) -> Found {
    let back = back(play.length);
    let length = 20.0 + back;
    let one = |contender: Contender| {
        contender.play(play, length, &caller(), "", service(500), |between| {
            let (stage, service) = (between.stage, &between.upstream);
            stage.begin();
            let callers = between.callers(RETRIES);
            let load = format!("--rate 400 --for {length}s --connections fresh {callers}");
            let crowd = stage.crowd("caller", between.port(0), &load);
            stage.until(15.0);
            service.order("stall");
            stage.until(20.0);
            service.order("serve");
            stage.mark(15.0, 20.0, "stalled");
            stage.until(length);
            let slots = service.slots();
            let tries = crowd.finish(ENDS_WITHIN).tries;
            Taken::down(contender.name(), stage, length, tries, slots)
        })
    };
    // In turn: what a probe or a health check meets when the stall ends is chance.
    let rounds: Vec<_> = (0..blips(play.length)).map(|_| all(one)).collect();
    let end = length as usize;
    let seconds = |taken: &Taken| back_after(taken, 20.0);
    let of = |number: usize, figure: &dyn Fn(&Taken) -> f64| {
        let mut figures: Vec<_> = rounds.iter().map(|runs| figure(&runs[number])).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let median = |number: usize, figure: &dyn Fn(&Taken) -> f64| {
        let figures = of(number, figure);
        figures[figures.len() / 2]
    };
    let told = |seconds| told(seconds, back);
    let contenders = rounds[0].len();
    let rows = (0..contenders).map(|number| {
        let all = of(number, &seconds);
        vec![
            rounds[0][number].name.clone(),
            told(all[all.len() / 2]),
            format!("{} to {}", told(all[0]), told(all[all.len() - 1])),
            format!("{:.2}", median(number, &|it| it.share(20, end))),
            format!(
                "{:.2} x",
                median(number, &|it| it.load().mean(15, end)
                    / it.offered().mean(15, end))
            ),
        ]
    });
    let columns = [
        "",
        "goodput at 0.95 of offered after",
        "best and worst of the rounds",
        "goodput since the stall, of offered",
        "load since it began, of offered",
    ];
    let ours = median(contenders - 1, &seconds);
    let best = (0..contenders - 1)
        .map(|number| median(number, &seconds))
        .fold(f64::INFINITY, f64::min);
    Found {
        story: format!(
            "A service that answers 500 requests a second is asked for 400 a second and stalls for 5 s. Callers wait \
             1 s and try again after 50 ms, three times. Each contender in turn, {} times; medians.",
            rounds.len()
        ),
        tables: vec![Table::new(&columns, rows)],
        claims: vec![first_back(ours, best, told)],
        runs: rounds[0].iter().map(Taken::run).collect(),
        notes: vec![WHY_LATER.to_owned()],
        ..Found::default()
    }
}

fn herd(play: &Play<'_>) -> Found {
    let times = Times::of(play.length);
    let names: Vec<_> = (0..WORKLOADS).map(workload).collect();
    let run = |contender: Contender, name: &str, spec: &str| {
        let service = |stage: &Stage<'_>| stage.service("service", SERVICE, CAPACITY);
        contender.play(play, times.length(), &names, spec, service, |between| {
            let callers = between.callers(RETRIES);
            let port = |number| between.port(number);
            let taken = scene(
                between.stage,
                name,
                &between.upstream,
                port,
                &callers,
                times,
            );
            (taken, between.memory())
        })
    };
    let one = |contender: Contender| move || run(contender, contender.name(), "");
    let budget_alone = || {
        let name = "the governor, budget alone";
        run(Contender::Governor, name, BUDGET_ALONE)
    };
    let proxy = |proxy| one(Contender::Proxy(proxy));
    // None of them fills the machine, and a hundred Envoys take seconds of it to start: with each other.
    let nothing = one(Contender::Nothing)();
    let (envoy, envoy_retries) = beside(proxy(Proxy::Envoy), proxy(Proxy::EnvoyRetries));
    let (haproxy, nginx) = beside(proxy(Proxy::Haproxy), proxy(Proxy::Nginx));
    let (alone, governor) = beside(budget_alone, one(Contender::Governor));
    let played = [
        nothing,
        envoy,
        envoy_retries,
        haproxy,
        nginx,
        alone,
        governor,
    ];
    let (runs, memory): (Vec<_>, Vec<_>) = played.into_iter().unzip();
    let load = |taken: &Taken| amplification(taken, times);
    let seconds = |taken: &Taken| back_after(taken, times.back());
    let told = |seconds| told(seconds, times.length() - times.back());
    let rows = runs.iter().zip(&memory).map(|(taken, memory)| {
        vec![
            taken.name.clone(),
            format!("{:.2} x", load(taken)),
            told(seconds(taken)),
            format!("{:.3}", ends_well(taken, times)),
            match memory {
                0.0 => "-".to_owned(),
                bytes => format!("{:.0} MB", bytes / 1e6),
            },
        ]
    });
    let columns = [
        "",
        "requests at the dead service, of first tries",
        "goodput at 0.95 of offered after",
        "end well once it is back",
        "memory",
    ];
    let (others, ours) = runs.split_at(runs.len() - 1);
    let best = others.iter().map(seconds).fold(f64::INFINITY, f64::min);
    let ours = ours.first().map_or(f64::NAN, seconds);
    Found {
        story: format!(
            "The storm of the scenario herd-of-processes: {WORKLOADS} workloads of one client each call a service once a \
             second. It answers 503 from {} to {} s, and to {UNWELL} % of the requests after that. Callers try again \
             three times, 50 ms apart, through a sidecar of their workload: {WORKLOADS} processes. The governor is \
             played with its defaults, as the others, and with nothing but its budget: a proxy that takes the service out \
             as a breaker does sends it less than any budget.",
            times.dies,
            times.back(),
        ),
        tables: vec![Table::new(&columns, rows)],
        claims: vec![
            highest(
                "fewest requests at the dead service per first try",
                &runs,
                |taken| -load(taken),
                0.0,
            ),
            highest(
                "operations that end well once it is back",
                &runs,
                |taken| ends_well(taken, times),
                ALIKE,
            ),
            first_back(ours, best, told),
        ],
        notes: vec![WHY_NOT_FIRST.to_owned()],
        runs: runs.iter().map(Taken::run).collect(),
        ..Found::default()
    }
}

/// Seconds from `since` until goodput is at 0.95 of offered for good, infinite where that never comes.
fn back_after(taken: &Taken, since: f64) -> f64 {
    match taken.back_after(since) {
        never if never.is_nan() => f64::INFINITY,
        seconds => seconds,
    }
}

/// That in words, of a storm that was watched for so many seconds after it.
fn told(seconds: f64, watched: f64) -> String {
    match seconds.is_finite() {
        true => format!("{seconds} s"),
        false => format!("not within {watched} s"),
    }
}

/// That nobody is back before the governor, in seconds.
fn first_back(ours: f64, best: f64, told: impl Fn(f64) -> String) -> Claim {
    Claim::that(
        "the governor recovers at least as fast as the best other",
        format!("{}, the best other {}", told(ours), told(best)),
        "no later",
        ours <= best,
    )
}

/// The service, so many requests a second.
fn service(capacity: u32) -> impl Fn(&Stage<'_>) -> Service {
    move |stage| stage.service("service", SERVICE, &format!("--capacity {capacity}"))
}

/// Each contender in turn.
fn all(run: impl FnMut(Contender) -> Taken) -> Vec<Taken> {
    Contender::all().into_iter().map(run).collect()
}

/// The one workload of a storm.
fn caller() -> [String; 1] {
    ["caller".to_owned()]
}

/// Two that do all that the service can do differ by less: chance says who is first.
const ALIKE: f64 = 0.01;

/// That no figure is higher than the governor's, the last, and this much.
fn highest(what: &str, runs: &[Taken], figure: impl Fn(&Taken) -> f64, alike: f64) -> Claim {
    let ours = runs.last().map_or(f64::NAN, &figure);
    let others = runs[..runs.len() - 1].iter();
    let best = others.max_by(|a, b| figure(a).total_cmp(&figure(b)));
    let (name, best) = best.map_or(("nobody", f64::NAN), |it| (it.name.as_str(), figure(it)));
    Claim::that(
        format!("the governor has the best of all: {what}"),
        format!(
            "{:.3}; the best other, {name}: {:.3}",
            ours.abs(),
            best.abs()
        ),
        "at least as good",
        ours + alike >= best,
    )
}
