//! The demo: one storm, without and with the governor.
//!
//! It has two halves. Root's ([`play`]) only runs what needs root; the user's
//! ([`crate::commands::demo`]) builds before it, and draws after it. Between them is
//! one file, the [`record`] of what was measured.

pub mod chart;
mod feed;
pub mod figures;
pub mod record;
mod scene;
mod stage;
pub mod table;
mod text;
pub mod view;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use record::{Plan, Run};
use scene::{Cast, play as play_scene, programs};
use view::{Style, View};

/// Plays both scenes; `summary` is where the governor writes its own.
pub fn play(style: Style, summary: &Path) -> Result<Run> {
    let stop = stop_on_signals()?;
    let plan = Plan::STORM;
    let programs = programs()?;
    let scene = |title, governor| {
        let cast = Cast {
            programs: &programs,
            governor,
            stop: &stop,
        };
        play_scene(&plan, &cast, &mut View::open(style, title, plan)).context(title)
    };
    Ok(Run {
        plan,
        without: scene("Without the governor", None)?,
        with: scene("With the governor", Some(summary))?,
    })
}

/// Set by what ends a program: its guards are to clean up.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signals")?;
    }
    Ok(stop)
}
