//! Watching over the restores that go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use governor_core::key::OrderKey;
use governor_core::order::Order;
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval};

use super::eventlog::{Entry, Kind};
use super::log;
use super::node::{Node, State};
use super::orders;
use super::outcomes::Outcomes;
use super::restore::{Failing, Step, Watch, look};
use super::scope::{ANYWHERE, shown_destination, words};
use crate::errors::Result;
use crate::kernel::now;

/// How often the outcomes are looked at, while anything is ordered about retries.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The stage that each restore is in.
pub type Watches = HashMap<OrderKey, Watch>;

/// What is known of the restores that go on.
#[derive(Debug, Default)]
pub struct Restores {
    /// How attempts ended.
    outcomes: Outcomes,
    /// The stage each is in.
    pub watches: Watches,
}

/// Watches, for ever.
pub async fn watch(node: Arc<Node>) {
    let mut again = interval(LOOK_EVERY);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        again.tick().await;
        if let Err(failure) = block_in_place(|| node.look_at_restores()) {
            log::warn(format_args!("restore: {failure} (it goes on unwatched)"));
        }
    }
}

impl Node {
    fn look_at_restores(&self) -> Result<()> {
        let mut state = self.state();
        for (key, step) in state.look_at_restores()? {
            let workload = |id| state.names.workload(id);
            let message = step.in_words(&words(&key, &state.names), workload);
            log::say(&message);
            self.events.push(Entry {
                destination: shown_destination(&key, &state.names),
                ..Entry::now(Kind::Order, message)
            });
        }
        Ok(())
    }
}

impl State {
    fn look_at_restores(&mut self) -> Result<Vec<(OrderKey, Step)>> {
        let mut orders = self.governor.orders();
        // From the moment that retries are off: what the first stage begins with is known then.
        orders.retain(|(_, order)| now() < orders::retries_end(order));
        if orders.is_empty() {
            self.restores = Restores::default();
            return Ok(Vec::new());
        }
        let ledgers = self.governor.workloads()?;
        self.restores.outcomes.take(now(), &ledgers);
        let watched = |key: &OrderKey| orders.iter().any(|(ordered, _)| ordered == key);
        self.restores.watches.retain(|key, _| watched(key));
        let mut steps = Vec::new();
        for (key, order) in orders {
            steps.extend(self.look_at_one(key, &order)?.map(|step| (key, step)));
        }
        Ok(steps)
    }

    fn look_at_one(&mut self, key: OrderKey, before: &Order) -> Result<Option<Step>> {
        let Restores { outcomes, watches } = &mut self.restores;
        let destination = (key.destination != ANYWHERE).then_some(key.destination);
        let mut watch = watches.remove(&key);
        let failing = |since| Failing::of(outcomes.since(since, destination));
        let (order, step) = look(before, &mut watch, failing, now());
        watches.extend(watch.map(|watch| (key, watch)));
        if order != *before {
            self.governor.set_order(key, Some(order))?;
        }
        Ok(step)
    }
}
