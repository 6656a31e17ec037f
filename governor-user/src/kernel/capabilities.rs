//! Which privileges this process has.

use std::fs;

/// What loading, attaching and asking need, and the number of each
/// (linux/capability.h).
const NEEDED: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// Stands for the two newer ones, not for `CAP_NET_ADMIN`.
const SYS_ADMIN: u32 = 21;

/// Capabilities, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// All there are.
    pub const ALL: Self = Self(u64::MAX);

    /// Those in effect here; all where they can't be read.
    pub fn here() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let held = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        held.map_or(Self::ALL, Self)
    }

    /// Names of those that are needed and not held.
    pub fn missing(self) -> Vec<&'static str> {
        let lacks = |bit: u32| match bit {
            38 | 39 => !self.has(bit) && !self.is_admin(),
            bit => !self.has(bit),
        };
        NEEDED
            .into_iter()
            .filter(|(bit, _)| lacks(*bit))
            .map(|(_, name)| name)
            .collect()
    }

    /// Whether `CAP_SYS_ADMIN` is among them.
    pub fn is_admin(self) -> bool {
        self.has(SYS_ADMIN)
    }

    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    /// The same without one of them.
    #[cfg(test)]
    pub fn without(self, bit: u32) -> Self {
        Self(self.0 & !(1 << bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        let missing = |bits: &[u32]| {
            let held = bits.iter().fold(0, |held, bit| held | 1 << bit);
            Capabilities(held).missing()
        };
        assert_eq!(missing(&[]), ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]);
        assert_eq!(missing(&[12]), ["CAP_PERFMON", "CAP_BPF"]);
        assert_eq!(missing(&[12, SYS_ADMIN]), [""; 0]);
        assert_eq!(missing(&[12, 38, 39]), [""; 0]);
    }

    #[test]
    fn an_administrator_is_who_has_that_one() {
        assert!(Capabilities::ALL.is_admin());
        assert!(!Capabilities::ALL.without(SYS_ADMIN).is_admin());
    }
}
