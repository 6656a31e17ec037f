//! Network interfaces: where denials of requests are carried out.
//!
//! The judge sits at the cgroup and sees every packet of a governed socket once.
//! It can't answer a caller; that takes a program at the traffic control of the
//! device which the packet leaves by, the executor. Devices come and go, so the
//! set is brought up to date whenever one changes:
//!
//! ```text
//! netlink  -> what there is: devices, their queues, the ways out of here
//! choice   -> which program belongs where, and which device is out of reach
//! pacing   -> where a packet may be delayed
//! governed -> what is attached, made equal to what was chosen
//! follow   -> when to look again
//! ```

pub mod choice;
pub mod device;
pub mod follow;
pub mod governed;
pub mod netlink;
pub mod pacing;
pub mod wanted;

pub use choice::Scope;
pub use follow::Changes;
pub use governed::{Attachment, Interfaces};
pub use wanted::Wanted;
