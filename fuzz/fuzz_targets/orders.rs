//! Bodies of the control socket: whatever is sent is refused in one line, or
//! is an order that ends.
#![no_main]
#![allow(dead_code, reason = "the whole modules are included for their parsers")]

#[path = "../../governor-user/src/daemon/orders.rs"]
mod orders;
#[path = "../../governor-user/src/policy/mod.rs"]
mod policy;

use bytemuck::Zeroable as _;
use governor_core::{order::Order, units::Nanos};
use libfuzzer_sys::fuzz_target;
use orders::{Breakers, Refused, Retries, Shed};

const NOW: Nanos = Nanos::from_secs(1_000_000);

fn check(given: Result<Order, Refused>) {
    match given {
        Ok(order) => {
            let longest = NOW.0 + 10 * 24 * 3_600 * 1_000_000_000;
            assert!(
                orders::ends(&order).0 <= longest,
                "an order that never ends"
            );
        }
        Err(Refused(why)) => assert_eq!(why.lines().count(), 1, "one line: {why}"),
    }
}

/// Retries that are on their way back, and can be restored anew.
fn returning() -> Order {
    Order {
        off_from: 1,
        off_until: NOW.0 - 1,
        stage_every: 60_000_000_000,
        stages: [10, 100, 0, 0, 0, 0, 0, 0],
        ..Order::zeroed()
    }
}

fuzz_target!(|body: &[u8]| {
    if let Ok(order) = serde_json::from_slice::<Retries>(body) {
        check(order.apply(Order::zeroed(), NOW));
        check(order.apply(returning(), NOW));
    }
    if let Ok(order) = serde_json::from_slice::<Shed>(body) {
        check(order.apply(Order::zeroed(), NOW));
    }
    if let Ok(order) = serde_json::from_slice::<Breakers>(body) {
        check(order.apply(Order::zeroed(), NOW));
    }
});
