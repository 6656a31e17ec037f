//! Services that call each other: edge, mid-1, mid-2, leaf. No scenario by itself.

use std::time::Duration;

use governor_tests::service::{Service, Slot};
use governor_tests::storm::report::Try;

use crate::late::Load;
use crate::stage::Stage;

/// Who is called, by name and port: the outermost first. Each calls the next; `edge` calls the first.
pub const CALLED: [(&str, u16); 3] = [("mid-1", 8081), ("mid-2", 8082), ("leaf", 8083)];

/// How each layer calls the next.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Tries of one operation, the first included.
    pub tries: u32,
    /// How long it waits for an answer.
    pub patience: Duration,
    /// What its requests say of the operation that they are tries of.
    pub names: Names,
}

/// Whether layers in between name their operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// No: they pass on what they were asked. Their own tries and those of the layer above are equal.
    None,
    /// As SDKs do: the tries of one operation carry its `idempotency-key`.
    Key,
}

/// The wait between two tries of every layer.
const DELAY: &str = "50ms";
/// More than a layer in between is ever asked for.
const PLENTY: u32 = 20_000;

/// The layers, while they run.
pub struct Layers {
    between: [Service; 2],
    /// The innermost one.
    pub leaf: Service,
}

impl Layers {
    /// Starts them, each as a workload of its own.
    pub fn start(stage: &Stage<'_>, calls: Calls, capacity: f64) -> Self {
        let [(outer, at_outer), (inner, at_inner), (leaf, at_leaf)] = CALLED;
        let between = |name: &str, port: u16, next: u16| {
            let Calls { tries, .. } = calls;
            let patience = calls.patience.as_millis();
            let key = match calls.names {
                Names::Key => "--idempotency-key",
                Names::None => "",
            };
            stage.service(
                name,
                port,
                &format!(
                    "--capacity {PLENTY} --name {name} --backend 127.0.0.1:{next} --tries {tries} --delay {DELAY} \
                     --backend-timeout {patience}ms {key}"
                ),
            )
        };
        let leaf = stage.service(leaf, at_leaf, &format!("--capacity {capacity}"));
        let inner = between(inner, at_inner, at_leaf);
        let outer = between(outer, at_outer, at_inner);
        Self {
            between: [outer, inner],
            leaf,
        }
    }

    /// So many operations a second begin at the edge, for so many seconds.
    pub fn load(stage: &Stage<'_>, calls: Calls, rate: f64, seconds: f64) -> Load {
        let Calls { tries, .. } = calls;
        let patience = calls.patience.as_millis();
        stage.crowd(
            "edge",
            CALLED[0].1,
            &format!(
                "--rate {rate} --for {seconds}s --retry naive --tries {tries} --delay {DELAY} --connections pool \
                 --pool 5000 --answer-timeout {patience}ms"
            ),
        )
    }

    /// Ends them: what the edge's tries came to, and what the leaf got.
    pub fn finish(self, load: Load) -> (Vec<Try>, Vec<Slot>) {
        let slots = self.leaf.slots();
        let tries = load.finish(Duration::from_secs(40)).tries;
        drop(self.between);
        (tries, slots)
    }
}
