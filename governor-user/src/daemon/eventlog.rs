//! What happened: the last thousand events, and whoever wants to hear the next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::serve::Peer;

/// Events that are kept.
pub const KEPT: usize = 1_000;
/// Events that a slow listener may be behind before it loses some.
const BEHIND: usize = 1_024;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// An attempt was refused.
    Denied,
    /// Audit: an attempt would have been refused.
    WouldDeny,
    /// A breaker moved.
    Breaker,
    /// Policies were loaded, or refused.
    Policy,
    /// An operator ordered something, or an order ended.
    Order,
    /// The daemon itself.
    Daemon,
    /// Events that were not seen.
    Lost,
}

/// Who asked for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// User id.
    pub uid: u32,
    /// Process id; absent where the kernel knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

impl From<Peer> for By {
    fn from(peer: Peer) -> Self {
        Self {
            uid: peer.uid,
            pid: peer.pid,
        }
    }
}

/// One event, as it is shown and streamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, RFC 3339.
    pub at: String,
    /// What it is about.
    pub kind: Kind,
    /// Which destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Which ip:port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Which workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The process that attempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Why it was refused, as in `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Events like this that were not told singly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Until when, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// In plain words.
    pub message: String,
}

impl Entry {
    /// An event that happens now.
    pub fn now(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            at: rfc3339(SystemTime::now()),
            kind,
            destination: None,
            address: None,
            workload: None,
            pid: None,
            reason: None,
            count: None,
            until: None,
            by: None,
            message: message.into(),
        }
    }

    /// Whether it concerns this destination, by name or by address. What
    /// concerns no destination (policies, orders for the node) concerns all.
    pub fn concerns(&self, destination: &str) -> bool {
        match (&self.destination, &self.address) {
            (None, None) => true,
            (named, address) => {
                named.as_deref() == Some(destination) || address.as_deref() == Some(destination)
            }
        }
    }
}

/// A time as events, status and orders show it.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// A time as [`rfc3339`] wrote it, and how far from now that is:
/// `2026-11-30T11:00:40.000Z (in 40s)`.
pub fn beside_now(text: &str) -> String {
    let Ok(time) = humantime::parse_rfc3339(text) else {
        return text.to_owned();
    };
    let rounded = |far: Duration| {
        let seconds = far.saturating_add(Duration::from_millis(500)).as_secs();
        humantime::format_duration(Duration::from_secs(seconds)).to_string()
    };
    match time.duration_since(SystemTime::now()) {
        Ok(ahead) => format!("{text} (in {})", rounded(ahead)),
        Err(passed) => format!("{text} ({} ago)", rounded(passed.duration())),
    }
}

/// The log.
#[derive(Debug)]
pub struct EventLog {
    kept: Mutex<VecDeque<Arc<Entry>>>,
    live: broadcast::Sender<Arc<Entry>>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            live: broadcast::Sender::new(BEHIND),
        }
    }
}

impl EventLog {
    /// Adds an event.
    pub fn push(&self, entry: Entry) {
        let entry = Arc::new(entry);
        let mut kept = self.kept();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&entry));
        // Nobody listening is no error. Sent under the lock, so that a new
        // listener misses nothing and hears nothing twice.
        let _ = self.live.send(entry);
    }

    /// What is kept, and what comes from now on.
    pub fn follow(&self) -> (Vec<Arc<Entry>>, broadcast::Receiver<Arc<Entry>>) {
        let kept = self.kept();
        (kept.iter().cloned().collect(), self.live.subscribe())
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Entry>>> {
        // Whoever panicked meanwhile left whole entries.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &EventLog) -> Vec<String> {
        log.follow()
            .0
            .iter()
            .map(|entry| entry.message.clone())
            .collect()
    }

    #[test]
    fn a_time_is_told_beside_how_far_it_is_from_now() {
        let now = SystemTime::now();
        let told = |time| beside_now(&rfc3339(time));
        let ahead = told(now + Duration::from_secs(220));
        assert!(ahead.ends_with("Z (in 3m 40s)"), "{ahead}");
        let ago = told(now - Duration::from_secs(40));
        assert!(ago.ends_with("Z (40s ago)"), "{ago}");
        assert_eq!(beside_now("soon"), "soon");
    }

    #[test]
    fn the_last_thousand_events_are_kept() {
        let log = EventLog::default();
        for number in 0..=KEPT {
            log.push(Entry::now(Kind::Daemon, number.to_string()));
        }
        let kept = messages(&log);
        assert_eq!(
            (kept.len(), kept[0].as_str(), kept[KEPT - 1].as_str()),
            (KEPT, "1", "1000")
        );
    }

    #[test]
    fn a_listener_hears_each_event_once_whether_kept_or_new() {
        let log = EventLog::default();
        log.push(Entry::now(Kind::Daemon, "before"));
        let (kept, mut live) = log.follow();
        log.push(Entry::now(Kind::Daemon, "after"));
        assert_eq!(kept.len(), 1);
        assert_eq!(live.try_recv().unwrap().message, "after");
        assert!(live.try_recv().is_err());
    }

    #[test]
    fn a_listener_that_sleeps_loses_events_and_does_not_stop_others() {
        let log = EventLog::default();
        let (_, mut live) = log.follow();
        for number in 0..BEHIND + 10 {
            log.push(Entry::now(Kind::Daemon, number.to_string()));
        }
        assert!(matches!(
            live.try_recv(),
            Err(broadcast::error::TryRecvError::Lagged(10))
        ));
        assert_eq!(live.try_recv().unwrap().message, "10");
    }

    #[test]
    fn an_event_concerns_a_destination_by_name_or_address_and_the_node_concerns_all() {
        let mut entry = Entry::now(Kind::Denied, "");
        assert!(entry.concerns("auth"));
        entry.destination = Some("auth".to_owned());
        entry.address = Some("10.0.0.5:8080".to_owned());
        assert!(entry.concerns("auth") && entry.concerns("10.0.0.5:8080"));
        assert!(!entry.concerns("db"));
    }
}
