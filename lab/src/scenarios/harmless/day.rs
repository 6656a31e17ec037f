//! What happens meanwhile.

use std::time::Duration;

use governor_tests::server::Behaviour;

use crate::stage::Stage;

use super::loads::{ADDRESSES, Away, HOST, Loads, Services};

/// All calls beside the long polls hang for so long.
pub const HANG: f64 = 1.5;
/// That is when, as a share of the day.
pub const HANGS_AT: f64 = 0.45;
/// A server that is restarted is away for so long, seconds.
const RESTART: f64 = 0.7;
/// Seconds from the order until a server listens again.
const LISTENS_WITHIN: f64 = 0.1;

type Event<'a> = Box<dyn FnOnce(&mut Loads) + 'a>;

/// What is to happen, and after how many seconds.
struct Plan<'a> {
    length: f64,
    events: Vec<(f64, Event<'a>)>,
}

impl<'a> Plan<'a> {
    /// So many seconds after a share of the day.
    fn at(&mut self, share: f64, after: f64, event: impl FnOnce(&mut Loads) + 'a) {
        self.events
            .push((share * self.length + after, Box::new(event)));
    }
}

/// Lets it pass. All times are shares of its length.
pub fn passes(stage: &Stage<'_>, services: &Services, loads: &mut Loads, length: f64) {
    let mut plan = Plan {
        length,
        events: Vec::new(),
    };
    let left = move |share: f64| (1.0 - share) * length - 1.0;

    // Callers follow a host when their resolver tells them.
    let hosts = [
        (0.0, ADDRESSES[0]),
        (0.33, ADDRESSES[1]),
        (0.66, ADDRESSES[0]),
    ];
    for (share, address) in hosts {
        plan.at(share, 0.0, move |_| stage.name_host(HOST, address.into()));
        let third = length / 3.0 - 0.5;
        plan.at(share, 0.1, move |loads| {
            loads.move_to(stage, address, third)
        });
    }
    for (share, millis) in [(0.3, 60), (0.7, 600)] {
        let slower = Behaviour::AnswerAfter(Duration::from_millis(millis));
        plan.at(share, 0.0, move |_| services.shift.set(slower));
    }
    plan.at(0.5, 0.0, move |loads| loads.grow(stage, left(0.5)));
    plan.at(0.5, 0.0, move |loads| loads.shift_mix(stage, left(0.5)));
    plan.at(HANGS_AT, 0.0, |_| services.calls.order("stall"));
    plan.at(HANGS_AT, HANG, |_| services.calls.order("serve"));
    for round in [0.2, 0.6] {
        for (number, server) in services.deployed.iter().enumerate() {
            let share = round + 0.06 * number as f64;
            plan.at(share, 0.0, move |loads| {
                let from = stage.now();
                server.order("refuse");
                loads.away.push(Away {
                    server: number,
                    from,
                    to: f64::INFINITY,
                });
            });
            plan.at(share, RESTART, move |loads| {
                server.order("serve");
                if let Some(away) = loads.away.iter_mut().rfind(|it| it.server == number) {
                    away.to = stage.now() + LISTENS_WITHIN;
                }
            });
        }
    }
    plan.at(0.05, 0.0, |_| services.partial[1].order("refuse"));
    plan.at(0.3, 0.0, |_| services.partial[2].order("hang"));
    plan.at(0.8, 0.0, |_| services.partial[2].order("serve"));

    plan.at(0.05, 0.0, |_| services.half[1].order("refuse"));
    plan.at(0.1, 0.0, move |loads| loads.thirds(stage, length / 3.0));
    for refuses in 1..3 {
        plan.at(0.1, 3.0, move |_| services.thirds[refuses].order("refuse"));
    }
    plan.at(0.8, 0.0, move |loads| loads.guessed(stage, length / 12.0));
    plan.at(0.8, 3.0, |_| services.guessed[2].order("refuse"));

    plan.events
        .sort_by(|(one, _), (other, _)| one.total_cmp(other));
    for (when, event) in plan.events {
        stage.until(when);
        event(loads);
    }
}
