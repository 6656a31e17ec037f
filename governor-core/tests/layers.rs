//! Layers that call each other, each on a node of its own.

mod common;

use common::{Going, Node, at};
use governor_core::breaker::State;
use governor_core::evidence::Evidence;
use governor_core::params::Params;
use governor_core::verdict::Outcome;

/// The leaf stalls from the beginning to here, ms.
const STALL: u64 = 90_000;
/// An operation begins so often, ms.
const EVERY: u64 = 60;
/// Every layer's patience, ms.
const PATIENCE: u64 = 1_000;

/// When all breakers have closed after the stall, ms.
fn back_after(layers: usize, seed: u32) -> u64 {
    let nodes: Vec<_> = (0..layers).map(|_| Node::new(Params::DEFAULT, 1)).collect();
    let mut random = seed;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random
    };
    let mut waiting: Vec<(u64, Vec<Going>)> = Vec::new();
    for millis in (0..).step_by(EVERY as usize) {
        let (over, rest) = waiting.into_iter().partition(|(end, _)| *end <= millis);
        waiting = rest;
        for (end, going) in over as Vec<(u64, Vec<Going>)> {
            for (node, going) in nodes.iter().zip(going) {
                node.end_of(
                    governor_core::breaker::Level::Exchange,
                    going,
                    at(end),
                    Outcome::Timeout,
                    next(),
                );
            }
        }
        // Each layer that is let go asks the next.
        let mut going = Vec::new();
        for node in &nodes {
            match node.attempt(0, at(millis), Evidence::None, next()) {
                Ok(one) => going.push(one),
                Err(_) => break,
            }
        }
        let outcome = match going.len() == layers {
            true if millis < STALL => {
                waiting.push((millis + PATIENCE, going));
                continue;
            }
            true => Outcome::Success,
            // Refused below: an error at once for those above.
            false => Outcome::Status,
        };
        for (node, going) in nodes.iter().zip(going) {
            node.end_of(
                governor_core::breaker::Level::Exchange,
                going,
                at(millis),
                outcome,
                next(),
            );
        }
        let closed = |node: &Node| node.callers[0].endpoint.breaker.view().state == State::Closed;
        if millis > STALL && nodes.iter().all(closed) {
            return millis - STALL;
        }
    }
    u64::MAX
}

#[test]
fn many_layers_are_back_as_soon_as_one() {
    let half_and_tenth = |layers| {
        let mut times: Vec<_> = (0..400).map(|seed| back_after(layers, seed)).collect();
        times.sort_unstable();
        (times[200], times[360], times[399])
    };
    let one = half_and_tenth(1);
    for layers in [2, 3, 5] {
        let many = half_and_tenth(layers);
        // A short open time or two more.
        assert!(many.0 <= one.0 + 2_000, "{layers}: {many:?}, one: {one:?}");
        assert!(many.1 <= one.1 + 2_000, "{layers}: {many:?}, one: {one:?}");
    }
}
