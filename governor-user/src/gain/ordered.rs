//! What operators have ordered about retries, where a workload calls a destination.

use governor_core::key::{DestinationKey, OrderKey, WorkloadKey, plain};
use governor_core::order::Order;
use governor_core::units::Nanos;

/// Every destination.
const ANY: DestinationKey = DestinationKey {
    address: [0; 16],
    port: 0,
    group: 0,
};

/// The share of retries that orders let through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl Share {
    /// Nothing is ordered.
    #[cfg(test)]
    pub const ALL: Self = Self(1.0);

    /// Of the orders that the kernel looks up for such a call
    /// (`governor_core::judge::Orders`): each lets through its part.
    pub fn of(orders: &[(OrderKey, Order)], call: &WorkloadKey, now: Nanos) -> Self {
        let order = |workload: u64, destination: DestinationKey| {
            let wanted = OrderKey {
                workload,
                destination,
            };
            orders.iter().find(|(key, _)| *key == wanted)
        };
        let destination = DestinationKey {
            address: plain(call.destination.address),
            ..call.destination
        };
        let own = order(call.workload, destination).or_else(|| order(call.workload, ANY));
        let concerned = [order(0, ANY), order(0, destination), own];
        let admitted = concerned
            .into_iter()
            .flatten()
            .map(|(_, order)| f64::from(order.retries_percent(now)) / 100.0);
        Self(admitted.product())
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable as _;

    use super::*;

    const CALL: WorkloadKey = WorkloadKey {
        workload: 7,
        destination: DestinationKey { group: 3, ..ANY },
    };

    /// Off until 100, then 50 % until 200.
    fn off(workload: u64, destination: DestinationKey) -> (OrderKey, Order) {
        let key = OrderKey {
            workload,
            destination,
        };
        let order = Order {
            off_from: 1,
            off_until: 100,
            stage_every: 100,
            stages: [50, 0, 0, 0, 0, 0, 0, 0],
            ..Order::zeroed()
        };
        (key, order)
    }

    #[test]
    fn retries_are_off_where_any_order_for_the_call_says_so() {
        let other = DestinationKey { group: 4, ..ANY };
        let share = |order| Share::of(&[order], &CALL, Nanos(10)).0;
        assert_eq!(share(off(0, ANY)), 0.0);
        assert_eq!(share(off(0, CALL.destination)), 0.0);
        assert_eq!(share(off(7, ANY)), 0.0);
        assert_eq!(share(off(0, other)), 1.0);
        assert_eq!(share(off(8, ANY)), 1.0);
    }

    #[test]
    fn stages_multiply() {
        let both = [off(0, ANY), off(0, CALL.destination)];
        assert_eq!(Share::of(&both, &CALL, Nanos(150)).0, 0.25);
        assert_eq!(Share::of(&both, &CALL, Nanos(250)).0, 1.0);
    }
}
