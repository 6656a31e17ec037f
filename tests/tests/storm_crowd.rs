//! `storm-client crowd` as a whole process: what it says it did is what a server saw.

use std::time::Duration;

use governor_tests::lab::Lab;
use governor_tests::server::Behaviour;
use governor_tests::storm::report::{Outcome, Pace, Report, Try};

const PORT: u16 = 8080;
/// Generous: two cores, shared with other tests.
const LIMIT: Duration = Duration::from_secs(60);

fn crowd(lab: &Lab, options: &str) -> Report {
    lab.storm(
        &format!("crowd 127.0.0.1:{PORT} --name crowd {options}"),
        LIMIT,
    )
}

fn pace(report: &Report) -> Pace {
    report.pace.expect("an open loop tells its pace")
}

#[test]
fn operations_start_whatever_became_of_those_before() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::Hang);
    let syns = lab.count_syns(PORT);
    let report = crowd(
        &lab,
        "--rate 1000 --arrivals even --for 2s --answer-timeout 4s",
    );
    assert_eq!(
        report.count(Outcome::AnswerTimeout),
        2_000,
        "{:?}",
        report.summary()
    );
    assert_eq!(syns.count(), 2_000);
    assert_eq!(pace(&report).most_open, 2_000);
}

#[test]
fn a_pool_is_never_larger_than_it_may_be_and_operations_wait_for_it() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::AnswerAfter(Duration::from_millis(100)));
    let syns = lab.count_syns(PORT);
    let report = crowd(
        &lab,
        "--rate 100 --arrivals even --for 2s --connections pool --pool 5",
    );
    // Five connections make fifty exchanges a second: the last operations wait two seconds.
    assert_eq!(syns.count(), 5);
    assert_eq!(report.count(Outcome::Ok), 200, "{:?}", report.summary());
    let waits = report.tries.iter().map(|each| each.waited);
    assert!(waits.max() > Some(1_500_000), "{:?}", report.summary());
    let is_in_its_time = |each: &Try| each.micros >= each.waited + 100_000;
    assert!(report.tries.iter().all(is_in_its_time));
}

#[test]
fn a_pool_that_hangs_takes_callers_with_it_for_as_long_as_they_wait() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::Hang);
    let report = crowd(
        &lab,
        "--rate 50 --arrivals even --for 1s --connections pool --pool 5 --pool-timeout 300ms --answer-timeout 2s",
    );
    let summary = report.summary();
    assert_eq!(report.count(Outcome::AnswerTimeout), 5, "{summary:?}");
    assert_eq!(report.count(Outcome::PoolTimeout), 45, "{summary:?}");
}

#[test]
fn a_herd_comes_and_comes_back_at_one_moment() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::Status(503));
    let report = crowd(
        &lab,
        "--at-once 500 --at 300ms --for 1s --retry naive --tries 2 --delay 1s --connect-timeout 10s \
         --answer-timeout 10s",
    );
    let summary = report.summary();
    assert_eq!((summary.operations, summary.retries), (500, 500));
    let first = report.first_tries().tries.iter().map(|each| each.t).min();
    for retry in report.tries.iter().filter(|each| each.attempt == 2) {
        assert!(Some(retry.t) >= first.map(|t| t + 1_000_000));
    }
    let pace = pace(&report);
    assert!(
        pace.herd_micros > 0 && pace.max_late_micros == 0,
        "{pace:?}"
    );
}

#[test]
fn a_budget_is_a_clients_own() {
    let lab = Lab::new();
    let tries = |clients| {
        let options = "--rate 100 --arrivals even --for 2s --retry naive --client-budget grpc";
        crowd(&lab, &format!("{options} --clients {clients}"))
            .tries
            .len()
    };
    // An operation of four tries costs a client four of its ten tokens. The next failure leaves half,
    // and may not be retried.
    assert_eq!(tries(1), 200 + 3);
    assert_eq!(tries(100), 200 + 100 * 3);
}

#[test]
fn statuses_are_tried_again_as_the_list_says() {
    let lab = Lab::new();
    let _server = lab.http_server(PORT, Behaviour::Status(400));
    let load = "--rate 50 --arrivals even --for 1s --retry naive --tries 3";
    assert_eq!(crowd(&lab, load).tries.len(), 50);
    let stubborn = crowd(&lab, &format!("{load} --codes 400,422"));
    assert_eq!(stubborn.summary().retries, 100);
}
