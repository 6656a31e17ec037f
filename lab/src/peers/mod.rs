//! The governor against what people use today: the same storms, and healthy traffic, through proxies.
//!
//! | file | holds |
//! |---|---|
//! | [`proxy`] | the proxies: programs, configurations, a running one |
//! | [`contender`] | who stands between callers and the service |
//! | [`storms`] | overload, blip, herd of processes |
//! | [`healthy`] | what each costs while nothing fails |

pub mod contender;
mod healthy;
pub mod proxy;
mod storms;

use crate::scenario::Scenario;

/// All of them, in the report's order.
pub const ALL: &[Scenario] = &[
    storms::OVERLOAD,
    storms::BLIP,
    storms::HERD,
    healthy::SCENARIO,
];
