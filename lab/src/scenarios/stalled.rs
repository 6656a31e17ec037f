//! A storm that several scenarios look at: the service stalls, its callers try again on new connections.

use super::usual::{PORT, SERVICE};
use crate::measure::Taken;
use crate::scenario::Play;
use crate::stage::{ENDS_WITHIN, Governor};

/// The storm.
#[derive(Clone, Copy, Debug)]
pub struct Stalled {
    /// How its callers try, as options of a crowd.
    pub callers: &'static str,
    /// Requests the service can answer per second.
    pub capacity: f64,
    /// Operations offered per second.
    pub offered: f64,
    /// From when to when it stalls, seconds.
    pub stall: (f64, f64),
    /// Length of the scene, seconds.
    pub length: f64,
}

impl Stalled {
    /// Plays it.
    pub fn play(self, play: &Play<'_>, governor: Governor<'_>, name: &str) -> Taken {
        let Self {
            callers,
            capacity,
            offered,
            stall,
            length,
        } = self;
        play.stage(governor, name, length, |stage| {
            let service = stage.service(SERVICE.0, PORT, &format!("--capacity {capacity}"));
            stage.begin();
            let load = format!("--rate {offered} --for {length}s {callers} --connections fresh");
            let crowd = stage.crowd("caller", PORT, &load);
            stage.until(stall.0);
            service.order("stall");
            stage.until(stall.1);
            service.order("serve");
            stage.mark(stall.0, stall.1, "stalled");
            stage.until(length);
            let slots = service.slots();
            let tries = crowd.finish(ENDS_WITHIN).tries;
            Taken::down(name, stage, length, tries, slots)
        })
    }
}
