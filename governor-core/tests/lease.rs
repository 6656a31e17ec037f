//! The probe lease of one ip:port.

mod common;

use std::sync::atomic::AtomicU64;

use common::{Going, Node, at};

use governor_core::lease::Lease;
use governor_core::params::Params;
use governor_core::units::{Millis, Nanos};
use governor_core::verdict::Outcome;

type Host = Lease<AtomicU64>;

/// One that could have probed since `due`.
fn claim_since(lease: &Host, workload: u64, due: u64, now: u64) -> Option<u32> {
    lease.claim(workload, Millis(due), Millis(now), Millis(now + 5_000))
}

fn claim(lease: &Host, workload: u64, now: u64) -> Option<u32> {
    claim_since(lease, workload, now, now)
}

#[test]
fn one_holds_it_until_it_is_given_back() {
    let lease = Host::default();
    let held = claim(&lease, 1, 1_000).expect("free");
    assert_eq!(claim(&lease, 2, 1_001), None);
    assert_eq!(claim(&lease, 1, 1_001), None);
    lease.release(held);
    assert!(claim(&lease, 2, 1_002).is_some());
}

#[test]
fn it_frees_itself_at_its_deadline() {
    let lease = Host::default();
    let lost = claim(&lease, 1, 1_000).expect("free");
    assert_eq!(claim(&lease, 2, 5_999), None);
    assert!(claim(&lease, 2, 6_000).is_some());
    // The lost one reports at last: the other keeps it.
    lease.release(lost);
    assert_eq!(claim(&lease, 3, 6_001), None);
}

#[test]
fn others_leave_it_to_the_one_that_has_waited_longest() {
    let lease = Host::default();
    let held = claim(&lease, 1, 1_000).expect("free");
    assert_eq!(claim_since(&lease, 2, 900, 1_001), None);
    assert_eq!(claim_since(&lease, 3, 800, 1_002), None);
    assert_eq!(claim_since(&lease, 4, 850, 1_003), None);
    lease.release(held);
    assert_eq!(claim_since(&lease, 1, 1_500, 1_500), None);
    assert_eq!(claim_since(&lease, 2, 900, 1_500), None);
    let held = claim_since(&lease, 3, 800, 1_600).expect("its turn");
    lease.release(held);
    assert!(
        claim_since(&lease, 1, 1_601, 1_601).is_some(),
        "nobody waits any more"
    );
}

#[test]
fn a_waiter_that_has_gone_is_not_waited_for() {
    let lease = Host::default();
    let held = claim(&lease, 1, 1_000).expect("free");
    assert_eq!(claim(&lease, 2, 1_001), None);
    lease.release(held);
    assert_eq!(claim(&lease, 1, 2_000), None);
    assert!(claim(&lease, 1, 2_001).is_some(), "a second later");
}

#[test]
fn workloads_whose_probes_are_lost_take_turns_with_a_slow_one() {
    // 1 and 2 try every 10 ms and their probes are never answered; 3 tries
    // every 900 ms. After a lost probe a workload is due again at its deadline.
    let lease = Host::default();
    let mut due = [0u64; 4];
    let mut turns = [0u32; 4];
    for step in 1..=12_000u64 {
        let now = 100_000 + step * 10;
        for workload in 1..=3u64 {
            let idle = workload == 3 && step % 90 != 0;
            let own = due[workload as usize];
            if idle || now < own {
                continue;
            }
            if claim_since(&lease, workload, own, now).is_some() {
                turns[workload as usize] += 1;
                due[workload as usize] = now + 5_000;
            }
        }
    }
    // Two minutes are 24 probes of five seconds, less what 3 is waited for.
    assert!(turns[1..].iter().all(|&turn| turn >= 6), "{turns:?}");
}

/// One that tries every `gap` ms beside one that tries every 10 ms and lets each
/// probe lapse: when the first had its turn, if it had one within ten minutes.
fn turn_beside_a_hog(gap: u64) -> Option<u64> {
    let lease = Host::default();
    let mut hog_due = 0;
    for now in (100_000..700_000u64).step_by(10) {
        if now >= hog_due && claim_since(&lease, 1, hog_due, now).is_some() {
            hog_due = now + 5_000;
        }
        if now % gap == 0 && claim_since(&lease, 2, 100_000, now).is_some() {
            return Some(now - 100_000);
        }
    }
    None
}

#[test]
fn a_workload_that_lets_each_probe_lapse_does_not_starve_a_slow_one() {
    for gap in (1..60).map(|seconds| seconds * 1_000) {
        let turn = turn_beside_a_hog(gap);
        let soon = 10_000 + 10 * gap;
        assert!(
            turn.is_some_and(|turn| turn <= soon),
            "every {gap} ms: {turn:?}"
        );
    }
}

#[test]
fn a_workload_whose_probe_lapsed_is_not_kept_waiting_by_nobody() {
    let lease = Host::default();
    claim(&lease, 1, 1_000).expect("free");
    assert!(claim_since(&lease, 1, 6_000, 6_000).is_some());
}

/// Seven workloads whose breakers are open; the probes of six never end, that of the seventh fails
/// after `took`. From the next one on its service is well. How long it is refused then, from its
/// failure on.
fn refused_beside_six_that_hang(took: u64) -> Option<u64> {
    let node = Node::new(Params::DEFAULT, 7);
    let open = |caller: usize| {
        while let Ok(going) = node.first(caller, at(0)) {
            node.end(going, at(0), Outcome::Timeout);
        }
    };
    (0..7).for_each(open);
    let mut out = None;
    let mut failed = None;
    for now in (10..200_000).step_by(10) {
        for hog in 0..6 {
            // It goes, and is never heard of again.
            let _ = node.first(hog, at(now));
        }
        match out {
            Some(going) => {
                let Going { since, .. } = going;
                if at(now).since(since) >= Nanos::from_millis(took) {
                    node.end(going, at(now), Outcome::Timeout);
                    failed = Some(now);
                    out = None;
                }
            }
            None => match (node.first(6, at(now)), failed) {
                // The hogs have all had a probe by then.
                (Ok(going), None) => out = Some(going),
                (Ok(_), Some(failed)) if failed > 60_000 => return Some(now - failed),
                (Ok(going), Some(_)) => out = Some(going),
                (Err(_), _) => {}
            },
        }
    }
    None
}

#[test]
fn whose_probes_are_over_soon_does_not_wait_for_all_of_those_that_hang() {
    for took in [10, 1_000, 2_000] {
        let refused = refused_beside_six_that_hang(took);
        // The longest open time, and one probe that is on its way.
        assert!(
            refused.is_some_and(|refused| refused <= 7_500 + 5_010),
            "{took} ms: {refused:?} ms"
        );
    }
}
