//! What an operator ordered: every order ends by itself.

mod common;

use std::sync::atomic::AtomicU64;

use bytemuck::Zeroable;
use common::{Node, at};
use governor_core::evidence::Evidence;
use governor_core::judge::{Attempt, Decision, Orders, attempt};
use governor_core::lease::Lease;
use governor_core::ledger::{DestinationLedger, EndpointLedger, WorkloadLedger};
use governor_core::order::{Kind, Order, Told};
use governor_core::params::Params;
use governor_core::units::BasisPoints;
use governor_core::verdict::Reason;

fn share_refused(order: &Order, millis: u64, kind: Kind) -> f64 {
    let refused = (0..10_000u32)
        .filter(|i| {
            order
                .refuses(at(millis), kind, i.wrapping_mul(429_497))
                .is_some()
        })
        .count();
    refused as f64 / 10_000.0
}

#[test]
fn nothing_ordered_refuses_nothing() {
    let order = Order::zeroed();
    assert_eq!(share_refused(&order, 0, Kind::First), 0.0);
    assert_eq!(share_refused(&order, 0, Kind::Retry), 0.0);
    assert_eq!(order.retries_percent(at(0)), 100);
}

#[test]
fn a_shed_refuses_its_share_until_it_expires() {
    let order = Order {
        shed_until: at(60_000).0,
        shed_share: 3_000,
        ..Order::zeroed()
    };
    assert!((share_refused(&order, 0, Kind::First) - 0.3).abs() < 0.01);
    assert_eq!(share_refused(&order, 60_000, Kind::First), 0.0);
}

#[test]
fn a_shed_of_retries_spares_first_tries() {
    let order = Order {
        shed_until: at(60_000).0,
        shed_share: 10_000,
        shed_retries_only: 1,
        ..Order::zeroed()
    };
    assert_eq!(share_refused(&order, 0, Kind::First), 0.0);
    assert_eq!(share_refused(&order, 0, Kind::Retry), 1.0);
}

#[test]
fn retries_come_back_in_stages_without_anyone_doing_anything() {
    let order = Order {
        off_from: at(0).0,
        off_until: at(900_000).0,
        stage_every: 60_000_000_000,
        stages: [10, 25, 50, 100, 0, 0, 0, 0],
        ..Order::zeroed()
    };
    for (minutes, percent) in [
        (0, 0),
        (14, 0),
        (15, 10),
        (16, 25),
        (17, 50),
        (18, 100),
        (19, 100),
        (600, 100),
    ] {
        assert_eq!(
            order.retries_percent(at(minutes * 60_000)),
            percent,
            "after {minutes} min"
        );
        let refused = share_refused(&order, minutes * 60_000, Kind::Retry);
        assert!((refused - f64::from(100 - percent) / 100.0).abs() < 0.01);
        assert_eq!(share_refused(&order, minutes * 60_000, Kind::First), 0.0);
    }
}

#[test]
fn a_restore_is_in_one_of_its_stages_until_the_last_is_over() {
    let order = Order {
        off_from: at(0).0,
        off_until: at(60_000).0,
        stage_every: 60_000_000_000,
        stages: [10, 100, 0, 0, 0, 0, 0, 0],
        ..Order::zeroed()
    };
    let stages = [0, 60, 119, 120, 180].map(|seconds| order.restoring(at(seconds * 1_000)));
    assert_eq!(
        stages,
        [None, Some((0, 10)), Some((0, 10)), Some((1, 100)), None]
    );
    assert_eq!(Order::zeroed().restoring(at(1)), None);
}

#[test]
fn a_share_that_is_told_is_none_until_it_is() {
    assert_eq!(Order::zeroed().hold_above.get(), None);
    for (share, told) in [(0, 0), (500, 500), (10_000, 10_000), (99_999, 10_000)] {
        let share = Told::share(BasisPoints(share));
        assert_eq!(share.get(), Some(BasisPoints(told)));
    }
}

#[test]
fn an_order_without_stages_ends_at_its_end() {
    let order = Order {
        off_from: at(0).0,
        off_until: at(1_000).0,
        ..Order::zeroed()
    };
    assert_eq!(order.retries_percent(at(999)), 0);
    assert_eq!(order.retries_percent(at(1_000)), 100);
}

#[test]
fn any_of_the_orders_that_concern_an_attempt_refuses_it() {
    let shed = Order {
        shed_until: at(60_000).0,
        shed_share: 10_000,
        ..Order::zeroed()
    };
    let node = Node::new(Params::DEFAULT, 1);
    let quiet = Orders::default();
    for (orders, verdict) in [
        (quiet, Decision::Go),
        (
            Orders {
                node: Some(&shed),
                ..quiet
            },
            Decision::Deny(Reason::Shed),
        ),
        (
            Orders {
                destination: Some(&shed),
                ..quiet
            },
            Decision::Deny(Reason::Shed),
        ),
        (
            Orders {
                workload: Some(&shed),
                ..quiet
            },
            Decision::Deny(Reason::Shed),
        ),
    ] {
        let a = Attempt::connect(at(0), 1, Evidence::None, 12_345);
        assert_eq!(
            attempt(&node.params, &a, &node.ledgers(0), &orders),
            verdict
        );
    }
}

#[test]
fn a_share_hits_as_often_as_it_says() {
    for share in [0u32, 1, 500, 5_000, 9_999, 10_000] {
        let hits = (0..1_000_000u32)
            .filter(|i| BasisPoints(share).hit(i.wrapping_mul(0x9e37_79b9)))
            .count();
        let wanted = f64::from(share) / 10_000.0;
        assert!(
            (hits as f64 / 1e6 - wanted).abs() < 0.001,
            "{share}: {hits}"
        );
    }
    assert!(BasisPoints::WHOLE.hit(u32::MAX));
    assert!(!BasisPoints(0).hit(0));
    assert_eq!(BasisPoints(1_000).of(99), 9);
    assert_eq!(BasisPoints(1_000).of_up(91), 10);
    assert_eq!(BasisPoints(1_000).of_up(0), 0);
}

#[test]
fn ledgers_are_words_on_the_host_and_in_the_kernel() {
    assert_eq!(
        size_of::<EndpointLedger<AtomicU64>>(),
        size_of::<EndpointLedger<u64>>()
    );
    assert_eq!(
        size_of::<WorkloadLedger<AtomicU64>>(),
        size_of::<WorkloadLedger<u64>>()
    );
    assert_eq!(
        size_of::<DestinationLedger<AtomicU64>>(),
        size_of::<DestinationLedger<u64>>()
    );
    assert_eq!(size_of::<Lease<AtomicU64>>(), size_of::<Lease<u64>>());
}
