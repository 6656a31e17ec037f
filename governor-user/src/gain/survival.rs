//! Whether a destination's capacity bears what its callers may do.

use super::model::{Bears, Destination, Survival};

/// What a destination can do.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Warm, a second.
    pub warm: f64,
    /// Percent of that while it is cold: right after a start, with empty caches
    /// and pools.
    pub cold_percent: f64,
}

/// Judges it.
pub fn judge(destination: &Destination, capacity: Capacity) -> Survival {
    let load = &destination.load;
    // What one operation becomes: of all its callers together, where they call now.
    let becomes = |total: f64, most: f64| match load.operations_per_second > 0.0 {
        true => (total / load.operations_per_second).max(1.0),
        false => most,
    };
    let worst = becomes(
        load.worst_case_per_second,
        destination.worst_case.multiplier,
    );
    let allowed = becomes(load.allowed_per_second, destination.allowed.multiplier);
    let bears = |capacity: f64| {
        // Of a destination that nobody calls now nothing is known.
        let busy = load.attempts_per_second > 0.0;
        let holds = |per_second: f64| busy.then_some(per_second <= capacity);
        Bears {
            capacity_per_second: capacity,
            calm: holds(load.operations_per_second),
            worst_case: holds(load.worst_case_per_second),
            allowed: holds(load.allowed_per_second),
            worst_case_up_to: capacity / worst,
            allowed_up_to: capacity / allowed,
        }
    };
    Survival {
        cold_percent: capacity.cold_percent,
        warm: bears(capacity.warm),
        cold: bears(capacity.warm * capacity.cold_percent / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Load, Multiplied};
    use super::*;

    fn destination(operations: f64, multiplier: f64, allowed: f64) -> Destination {
        let of = |multiplier| Multiplied {
            multiplier,
            inferred: false,
            path: Vec::new(),
        };
        Destination {
            worst_case: of(multiplier),
            allowed: of(allowed),
            load: Load {
                attempts_per_second: operations,
                operations_per_second: operations,
                worst_case_per_second: operations * multiplier,
                allowed_per_second: operations * allowed,
            },
            ..Destination::default()
        }
    }

    const CAPACITY: Capacity = Capacity {
        warm: 1_000.0,
        cold_percent: 20.0,
    };

    #[test]
    fn what_one_operation_may_become_is_what_capacity_must_bear() {
        let judged = judge(&destination(40.0, 27.0, 1.2), CAPACITY);
        assert_eq!(judged.warm.calm, Some(true));
        assert_eq!(judged.warm.worst_case, Some(false));
        assert_eq!(judged.warm.allowed, Some(true));
        assert_eq!(judged.cold.capacity_per_second, 200.0);
        assert_eq!(judged.cold.allowed, Some(true));
        assert_eq!(judged.warm.worst_case_up_to.round(), 37.0);
    }

    #[test]
    fn a_cold_service_may_not_bear_calm_load() {
        let judged = judge(&destination(320.0, 3.0, 1.2), CAPACITY);
        assert_eq!(judged.warm.worst_case, Some(true));
        assert_eq!(
            (judged.cold.calm, judged.cold.allowed),
            (Some(false), Some(false))
        );
    }

    #[test]
    fn of_an_idle_destination_only_the_most_is_known() {
        let judged = judge(&destination(0.0, 10.0, 2.0), CAPACITY);
        assert_eq!((judged.warm.calm, judged.warm.worst_case), (None, None));
        assert_eq!(judged.warm.worst_case_up_to, 100.0);
        assert_eq!(judged.cold.allowed_up_to, 100.0);
    }
}
