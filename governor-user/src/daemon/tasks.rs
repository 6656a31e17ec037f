//! What the daemon does again and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aya::maps::{MapData, RingBuf};
use governor_core::event::{Event, kind};
use governor_core::key::{MAX_ENDPOINTS_OF_ONE, loss};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::eventlog::{Entry, Kind};
use super::exempt::Exemptions;
use super::happenings::entry;
use super::hosts;
use super::inforce::host_names;
use super::log;
use super::node::Node;
use super::quiet::Quiet;
use crate::interfaces::{Changes, Interfaces};

/// How often orders that are over are forgotten, and ledgers sampled: of the five
/// maps the two that the last minute is told from.
const HOUSE_EVERY: Duration = Duration::from_secs(5);
/// How often unused ledgers are, in rounds of the above.
const GARBAGE_EVERY: u32 = 12;
/// When a ledger counts as unused; and where maps fill up.
const IDLE: Duration = Duration::from_secs(15 * 60);
const IDLE_IN_NEED: Duration = Duration::from_secs(2 * 60);
/// A map that is so full, in percent, is in need.
const NEED: u64 = 75;
/// Endpoints that one workload may have.
const OF_ONE: u32 = MAX_ENDPOINTS_OF_ONE as u32;
/// Events that are taken from the ring before others may run.
const AT_ONCE: usize = 256;

/// Resolves host names and looks who is exempt, for ever.
pub async fn follow_hosts(node: Arc<Node>) {
    let mut again = interval(hosts::EVERY);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // They have just been resolved.
    again.tick().await;
    loop {
        tokio::select! {
            _ = again.tick() => {}
            () = node.resolve.notified() => {}
        }
        let exempt = block_in_place(|| Exemptions::of_this_node(node.kubeconfig.as_deref()));
        let names = host_names(&node.state().in_force.policies, &exempt);
        let answers = hosts::resolve(names).await;
        let (changes, applied) = block_in_place(|| {
            let mut state = node.state();
            let done = state.hosts_are(answers, exempt);
            node.settle_orders(&mut state);
            done
        });
        for line in changes.lines {
            log::warn(&line);
            node.events.push(Entry::now(Kind::Policy, line));
        }
        if let Err(failure) = applied {
            log::warn(format_args!("hosts: {failure} (those in force stay)"));
        }
    }
}

/// Follows the devices of the network namespace, for ever.
pub async fn follow_interfaces(node: Arc<Node>, mut changes: Changes) {
    loop {
        let unfinished = |interfaces: &Interfaces| interfaces.is_unfinished();
        if node.state().interfaces.as_ref().is_some_and(unfinished) {
            changes.again();
        }
        changes.next().await;
        let lines = block_in_place(|| node.state().follow_interfaces());
        lines.iter().for_each(log::warn);
    }
}

/// Forgets what is over and follows what policies leave behind, for ever.
pub async fn keep_house(node: Arc<Node>) {
    let mut again = interval(HOUSE_EVERY);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round = 0u32;
    // What a predecessor has not judged is no news.
    let mut unjudged = node.state().governor.losses().unwrap_or_default();
    loop {
        again.tick().await;
        round = round.wrapping_add(1);
        block_in_place(|| {
            node.forget_orders();
            node.settle_orders(&mut node.state());
            let done = {
                let mut state = node.state();
                [state.governor.keep_time(), state.sample()]
            };
            done.into_iter().filter_map(Result::err).for_each(log::warn);
            if round.is_multiple_of(GARBAGE_EVERY) {
                collect(&node);
                tell_unjudged(&node, &mut unjudged);
            }
        });
    }
}

fn collect(node: &Node) {
    let mut state = node.state();
    let collected = state.governor.snapshot().and_then(|snapshot| {
        let full =
            |entries: usize, capacity: u32| entries as u64 * 100 >= u64::from(capacity) * NEED;
        let mut of_one: HashMap<u64, usize> = HashMap::new();
        for (key, _) in &snapshot.endpoints {
            *of_one.entry(key.workload).or_default() += 1;
        }
        // A workload that has used up its own part passes unjudged, though the map has room.
        let need = snapshot
            .fill
            .iter()
            .any(|fill| full(fill.entries, fill.capacity))
            || of_one.values().any(|count| full(*count, OF_ONE));
        state
            .governor
            .collect_garbage(if need { IDLE_IN_NEED } else { IDLE })
    });
    if let Err(failure) = collected {
        log::warn(failure);
    }
}

/// Says that attempts passed unjudged because the ledgers are full: the counter alone is easily
/// overlooked by whoever wonders why nothing is refused.
fn tell_unjudged(node: &Node, before: &mut [u64; loss::ALL as usize]) {
    let Ok(now) = node.state().governor.losses() else {
        return;
    };
    let full = loss::LEDGER_FULL as usize;
    let more = now[full].saturating_sub(before[full]);
    *before = now;
    if more > 0 {
        let line = format!(
            "{more} attempts passed unjudged: the ledgers are full, or those of a workload that \
             calls very many addresses"
        );
        log::warn(&line);
        node.events.push(Entry {
            count: Some(more),
            ..Entry::now(Kind::Daemon, line)
        });
    }
}

/// Reads the kernel's events, for ever.
pub async fn read_events(node: Arc<Node>, ring: RingBuf<MapData>) {
    // SAFETY: the ring owns its map's descriptor, and never changes it.
    let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
    let mut ring = match ring {
        Ok(ring) => ring,
        Err(error) => {
            log::warn(format_args!(
                "events: {error} (denials are counted, but not told)"
            ));
            return;
        }
    };
    let mut quiet = Quiet::default();
    loop {
        // What was not told is told of when its second is over, also if no event follows.
        let Ok(ready) = timeout(quiet.patience(), ring.readable_mut()).await else {
            tell(&node, &[], &mut quiet);
            continue;
        };
        let Ok(mut readable) = ready else {
            return;
        };
        let events = take(readable.get_inner_mut());
        if events.len() < AT_ONCE {
            readable.clear_ready();
        }
        tell(&node, &events, &mut quiet);
        tokio::task::yield_now().await;
    }
}

fn take(ring: &mut RingBuf<MapData>) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < AT_ONCE {
        let Some(item) = ring.next() else { break };
        // Of another length: of another version, and the maps would not have been taken over.
        if let Ok(event) = bytemuck::checked::try_pod_read_unaligned(&item) {
            events.push(event);
        }
    }
    events
}

fn tell(node: &Node, events: &[Event], quiet: &mut Quiet) {
    let state = node.state();
    // A walk over a small map, and only where a breaker refuses.
    let refused = |event: &Event| event.kind == kind::DENIED;
    let orders = match events.iter().any(refused) {
        true => state.governor.orders(),
        false => Vec::new(),
    };
    for (workload, more) in quiet.over(Instant::now()) {
        node.events.push(Entry {
            workload: Some(state.names.workload(workload)),
            count: Some(u64::from(more)),
            ..Entry::now(
                Kind::Lost,
                format!("{more} more events of this workload within a second (status counts them)"),
            )
        });
    }
    for event in events {
        if event.kind == kind::NEW_CGROUP {
            // Known: a process that lives in a cgroup that only groups.
            if !state.names.workloads.contains_key(&event.endpoint.workload) {
                node.scan.notify_one();
            }
        } else if quiet.tells(event.endpoint.workload)
            && let Some(entry) = entry(event, &state.names, &orders)
        {
            node.events.push(entry);
        }
    }
}
