//! What nodes tell each other of probes: as built nothing; else what a service
//! of the fleet could.

use governor_core::units::Nanos;

/// News of a probe takes so long to reach all nodes.
const NEWS: Nanos = Nanos::from_millis(100);

/// What nodes tell each other of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probes {
    /// Nothing: a lease for each node, as built.
    EachNode,
    /// As `EachNode`, and a probe that succeeded is told to all: their
    /// breakers may probe at once.
    Told,
    /// One lease for the fleet: one probe at a time. One that succeeded is
    /// told to all, who then probe, one at a time.
    OneLease,
    /// As `OneLease`, and a probe that succeeded closes all breakers, each
    /// with its ramp.
    OneLeaseCloses,
}

/// When a probe of any node last succeeded.
#[derive(Debug, Default)]
pub(super) struct Proof {
    known: Option<Nanos>,
    on_its_way: Option<Nanos>,
}

impl Proof {
    /// A probe succeeded.
    pub(super) fn found(&mut self, now: Nanos) {
        self.on_its_way.get_or_insert(now);
    }

    /// What every node knows by now.
    pub(super) fn known(&mut self, now: Nanos) -> Option<Nanos> {
        if let Some(found) = self.on_its_way.filter(|found| now.since(*found) >= NEWS) {
            self.known = Some(found);
            self.on_its_way = None;
        }
        self.known
    }
}
