//! The enums of the policy file.

use serde::Serialize;
use strum::{Display, EnumString, VariantNames};

/// Declares the enums of the policy file: spelled as in Rust, never a word
/// that a YAML 1.1 reader takes for a boolean.
macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Display, EnumString, VariantNames,
        )]
        pub enum $name { $($(#[$vmeta])* $variant),* }
    )*};
}

choices! {
    /// Whether verdicts are carried out.
    Mode {
        /// Count what would be denied, deny nothing.
        #[default]
        Audit,
        /// Deny.
        Enforce,
        /// Do not judge.
        Disabled,
    }

    /// How exchanges are told apart on a connection.
    Protocol {
        /// By the first bytes of the connection.
        #[default]
        Auto,
        /// HTTP/1.x: the same as `Auto`.
        Http1,
        /// One turn (bytes out, bytes in) is one exchange.
        Opaque,
    }

    /// A retried POST or PATCH whose first try may have taken effect.
    NonIdempotent {
        /// Refuse it.
        #[default]
        Deny,
        /// Judge it like any retry.
        Allow,
    }

    /// A control that is there or not.
    Switch {
        /// It works.
        #[default]
        Enabled,
        /// It is out.
        Disabled,
    }

    /// Where the concurrency limit comes from.
    ConcurrencyMode {
        /// Found by the limiter, dormant while all is well.
        #[default]
        Adaptive,
        /// `limit`, always.
        Fixed,
        /// None.
        Disabled,
    }

    /// How admitted retries are spread in time.
    Jitter {
        /// A uniform random delay up to `maxDelay`.
        #[default]
        Full,
        /// No delay.
        None,
    }

    /// What a denied request sees.
    RequestDenial {
        /// `503` with `Retry-After`.
        #[default]
        Respond503,
        /// A reset connection.
        Reset,
    }
}

/// What a denied connect returns.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Display, EnumString, VariantNames,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum ConnectDenial {
    /// As from a port where nobody listens.
    #[default]
    Econnrefused,
    /// As from a host without a route.
    Ehostunreach,
}
