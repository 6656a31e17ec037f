//! The kernel side of the governor: programs, maps, attachments.
//!
//! ```text
//! load   -> Governor (programs loaded, maps made or taken over, nothing runs)
//! policy -> set_cgroup, set_policy, set_order
//! attach -> Attached (every connect below the cgroup is judged from here on)
//! read   -> snapshot, losses, programs, events
//! ```

mod attach;
mod blame;
mod btf;
mod calls;
mod capabilities;
mod cgroups;
mod clock;
mod executor;
pub mod filters;
mod load;
mod maps;
mod params;
pub mod pins;
mod policy;
mod programs;
pub mod release;
mod sample;
mod snapshot;

use std::path::PathBuf;

use aya::Ebpf;
use governor_core::key::Config;

pub use attach::{Attached, HOOKS};
pub use blame::blame;
pub use calls::{at_device, at_point};
pub use capabilities::Capabilities;
pub use clock::now;
pub use executor::{ActHook, Executor, Method};
pub use params::params;
pub use programs::ProgramStatus;
pub use sample::Sample;
pub use snapshot::{Fill, Snapshot, selected};

use maps::Maps;

/// The kernel programs and their maps.
pub struct Governor {
    ebpf: Ebpf,
    maps: Maps,
    /// What the programs know of us; written whole.
    config: Config,
    /// Where maps and links are pinned; none: they end with this process.
    pins: Option<PathBuf>,
    /// Why denials of requests can't be carried out, where they can't.
    without_executor: Option<String>,
}
