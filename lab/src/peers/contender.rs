//! Who stands between callers and the service.

use super::proxy::{Proxy, Sidecar, memory};
use crate::scenario::Play;
use crate::stage::{Governor, Stage, policy};

/// Where the service listens.
pub const SERVICE: u16 = 8080;
/// Where the first sidecar listens; each further one a port higher. Below the ports that connects are
/// made from: while a hundred start, those that run look after the service already.
const SIDECARS: u16 = 800;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Nothing.
    Nothing,
    /// A proxy as a sidecar of each workload.
    Proxy(Proxy),
    /// The governor.
    Governor,
}

/// A contender on a stage.
pub struct Between<'s, 'l, S> {
    /// The stage.
    pub stage: &'s Stage<'l>,
    /// What it is in front of: `upstream` of [`Contender::play`].
    pub upstream: S,
    /// The sidecar of each workload; none where there are no proxies.
    pub sidecars: Vec<Sidecar>,
    /// Callers do not retry: what is between does.
    pub retries: bool,
}

impl Contender {
    /// All of them, nothing first and the governor last.
    pub fn all() -> Vec<Self> {
        let proxies = Proxy::ALL.map(Self::Proxy);
        [&[Self::Nothing], proxies.as_slice(), &[Self::Governor]].concat()
    }

    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Proxy(proxy) => proxy.name(),
            Self::Governor => "the governor",
        }
    }

    /// Plays a scene with it, for workloads of these names; `spec` is what the governor's policy says
    /// besides its defaults. `upstream` is started before any proxy: one that finds nobody behind it
    /// takes that for an outage (HAProxy for two seconds).
    pub fn play<S, T>(
        self,
        play: &Play<'_>,
        seconds: f64,
        workloads: &[String],
        spec: &str,
        upstream: impl FnOnce(&Stage<'_>) -> S,
        scene: impl FnOnce(&Between<'_, '_, S>) -> T,
    ) -> T {
        let text = policy(&[("service", SERVICE)], spec);
        let governor = match self {
            Self::Governor => Governor::With(&text),
            _ => Governor::Without,
        };
        play.stage(governor, self.name(), seconds, |stage| {
            let upstream = upstream(stage);
            let started: Vec<_> = match self {
                Self::Proxy(proxy) => workloads
                    .iter()
                    .zip(SIDECARS..)
                    .map(|(workload, port)| Sidecar::start(proxy, stage, workload, port, SERVICE))
                    .collect(),
                _ => Vec::new(),
            };
            let sidecars = started.into_iter().map(|it| it.listens(stage)).collect();
            scene(&Between {
                stage,
                upstream,
                sidecars,
                retries: self == Self::Proxy(Proxy::EnvoyRetries),
            })
        })
    }
}

impl<S> Between<'_, '_, S> {
    /// What the callers of the workload of this number call.
    pub fn port(&self, workload: u16) -> u16 {
        if self.sidecars.is_empty() {
            SERVICE
        } else {
            SIDECARS + workload
        }
    }

    /// What the contender has in memory of its own, bytes: all sidecars together, or the daemon.
    pub fn memory(&self) -> f64 {
        let sidecars: f64 = self.sidecars.iter().map(Sidecar::memory).sum();
        sidecars + self.stage.daemon().map_or(0.0, memory)
    }

    /// How callers try: as they always did, or once where what is between retries.
    pub fn callers(&self, retrying: &str) -> String {
        if self.retries {
            "--retry none --answer-timeout 5s".to_owned()
        } else {
            retrying.to_owned()
        }
    }
}
